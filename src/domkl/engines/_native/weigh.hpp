// Hedge's weights. Static: every instruction set has its own, which the linker must not mix up.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

namespace domkl {

// q_p proportional to exp(-total_p / eta_g).
static inline void weigh(const double* total, int64_t P, double eta_g, double* q) {
    double least = total[0], all_of_it = 0;
    for (int64_t p = 1; p < P; ++p) least = std::min(least, total[p]);
    for (int64_t p = 0; p < P; ++p) all_of_it += q[p] = std::exp((least - total[p]) / eta_g);
    for (int64_t p = 0; p < P; ++p) q[p] /= all_of_it;
}

}  // namespace domkl
