// What this machine can do at most, measured with the loops that the engine consists of.
#pragma once
#include <cstdint>

namespace domkl {

enum class Loop { fma, sincos, vector, stored, triad, read };

// One loop to measure, and how.
struct Measurement {
    Loop loop;
    double seconds;  // duration
    int threads;
    int64_t bytes;  // of each thread's array, of which the triad has three; other loops stay in L1
};

// Work per second of all threads together: FMAs, pairs of sin and cos, elements, elements, bytes, bytes.
#define DOMKL_DECLARE_LIMITS(ISA)                                   \
    namespace ISA {                                                 \
    template <class T> double rate(const Measurement& measurement); \
    }
DOMKL_DECLARE_LIMITS(baseline)
DOMKL_DECLARE_LIMITS(avx2)
DOMKL_DECLARE_LIMITS(avx512)

}  // namespace domkl
