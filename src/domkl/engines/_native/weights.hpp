// Hedge's weights of the kernels.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

namespace domkl {

// q_p proportional to exp(-total_p / eta_g). Static, so that the linker does not share one instruction set's
// version with another.
static inline void hedge_weights(const double* total, int64_t P, double eta_g, double* q) {
    double least = total[0], norm = 0;
    for (int64_t p = 1; p < P; ++p) least = std::min(least, total[p]);
    for (int64_t p = 0; p < P; ++p) norm += q[p] = std::exp((least - total[p]) / eta_g);
    for (int64_t p = 0; p < P; ++p) q[p] /= norm;
}

}  // namespace domkl
