// What this machine can do at most, measured by the loops that the engine is made of. See limits.cpp.
#pragma once
#include <cstdint>

namespace nanobind {
class module_;
}

namespace domkl {

enum class Loop { fma, sincos, vector, stored, triad, read };

// Work per second of all threads together: FMAs, pairs of sin and cos, elements, elements, bytes, bytes.
struct Trial {
    Loop loop;
    double seconds;  // how long to measure
    int threads;
    int64_t bytes;  // of each thread's array, of which the triad has three; other loops stay in L1
};

#define DOMKL_DECLARE_LIMITS(ISA)                       \
    namespace ISA {                                     \
    template <class T> double rate(const Trial& trial); \
    }
DOMKL_DECLARE_LIMITS(baseline)
DOMKL_DECLARE_LIMITS(avx2)
DOMKL_DECLARE_LIMITS(avx512)

void declare_limits(nanobind::module_& m);

}  // namespace domkl
