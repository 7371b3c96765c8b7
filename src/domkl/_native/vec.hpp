// Vectors of whatever width the instruction set has, through the compiler's vector extensions.
#pragma once
#include <cstdint>
#include <cstring>

#ifndef DOMKL_BYTES
#define DOMKL_BYTES 16
#endif

// Compiled once, not into each caller; what is seldom called, for size.
#define DOMKL_ONCE __attribute__((noinline))
#define DOMKL_SELDOM __attribute__((noinline, cold))

namespace domkl {
namespace DOMKL_ISA {

template <class T> struct Lane;
template <> struct Lane<double> {
    typedef double vec __attribute__((vector_size(DOMKL_BYTES), may_alias));
    typedef int64_t ints __attribute__((vector_size(DOMKL_BYTES), may_alias));
    typedef int64_t whole;
};
template <> struct Lane<float> {
    typedef float vec __attribute__((vector_size(DOMKL_BYTES), may_alias));
    typedef int32_t ints __attribute__((vector_size(DOMKL_BYTES), may_alias));
    typedef int32_t whole;
};

template <class T> using Vec = typename Lane<T>::vec;
template <class T> using Ints = typename Lane<T>::ints;
template <class T> constexpr int WIDTH = DOMKL_BYTES / sizeof(T);

template <class T> inline Vec<T> load(const T* p) { return *reinterpret_cast<const Vec<T>*>(p); }
template <class T> inline void store(T* p, Vec<T> v) { *reinterpret_cast<Vec<T>*>(p) = v; }
template <class T> inline Vec<T> all(T x) { return x - Vec<T>{}; }

// The lanes of a vector in another order: lane k comes from lane k ^ STEP.
template <class T, int STEP> inline Vec<T> crossed(Vec<T> v) {
    Vec<T> out;
#pragma GCC unroll 16
    for (int k = 0; k < WIDTH<T>; ++k) out[k] = v[k ^ STEP];
    return out;
}

// Sum of a vector's numbers, half onto half.
template <class T> inline T sum(Vec<T> v) {
    if constexpr (WIDTH<T> > 8) v += crossed<T, 8>(v);
    if constexpr (WIDTH<T> > 4) v += crossed<T, 4>(v);
    if constexpr (WIDTH<T> > 2) v += crossed<T, 2>(v);
    v += crossed<T, 1>(v);
    return v[0];
}

}  // namespace DOMKL_ISA
}  // namespace domkl
