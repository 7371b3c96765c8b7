// Vectors of whatever width the instruction set has, through the compiler's vector extensions.
#pragma once
#include <cstdint>
#include <cstring>
#include <utility>

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

// Lanes of a and b, counted on from a's: the K-th of each.
template <class T, size_t... K> inline Vec<T> chosen(Vec<T> a, Vec<T> b) {
#ifdef __clang__
    return __builtin_shufflevector(a, b, K...);
#else
    return __builtin_shuffle(a, b, Ints<T>{K...});
#endif
}

// Numbers STEP lanes apart, added: those of a in the lanes without STEP, those of b in the others.
template <class T, int STEP, size_t... K>
inline Vec<T> folded(Vec<T> a, Vec<T> b, std::index_sequence<K...>) {
    return chosen<T, (K & STEP ? sizeof...(K) + (K ^ STEP) : K)...>(a, b) +
           chosen<T, (K & STEP ? sizeof...(K) + K : K ^ STEP)...>(a, b);
}
template <class T, int STEP> inline Vec<T> folded(Vec<T> a, Vec<T> b) {
    return folded<T, STEP>(a, b, std::make_index_sequence<WIDTH<T>>());
}

// The sums of N vectors, with the bits of `sum`, in fewer steps: that of v[n] in lane n W / N. Spoils v.
template <class T, int N, int STEP = WIDTH<T> / 2> inline Vec<T> sums(Vec<T>* v) {
    if constexpr (STEP == 0) return v[0];
    else if constexpr (N == 1) {
        v[0] += crossed<T, STEP>(v[0]);
        return sums<T, 1, STEP / 2>(v);
    } else {
#pragma GCC unroll 4
        for (int n = 0; n < N / 2; ++n) v[n] = folded<T, STEP>(v[n], v[n + N / 2]);
        return sums<T, N / 2, STEP / 2>(v);
    }
}

template <class T> inline T dot(const T* a, const T* b, int64_t K) {
    Vec<T> s = {};
    for (int64_t k = 0; k < K; k += WIDTH<T>) s += load(a + k) * load(b + k);
    return sum<T>(s);
}

// Not 0 once a number is infinite or none.
template <class T> inline T zero_of(const T* a, int64_t K) {
    Vec<T> s = {};
    for (int64_t k = 0; k < K; k += WIDTH<T>) s += load(a + k) * T(0);
    return sum<T>(s);
}

}  // namespace DOMKL_ISA
}  // namespace domkl
