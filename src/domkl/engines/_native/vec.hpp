// Vectors as wide as the instruction set's registers, through the compiler's vector extensions.
#pragma once
#include <cstdint>
#include <cstring>
#include <utility>

#ifndef DOMKL_BYTES
#define DOMKL_BYTES 16
#endif

#define DOMKL_NOINLINE __attribute__((noinline))    // compiled once, not into each caller
#define DOMKL_COLD __attribute__((noinline, cold))  // rarely called: compiled for size

// Inlined everywhere, where the compiler's choice would depend on what else is in the file. Not in the
// baseline, which is compiled for size.
#if DOMKL_BYTES > 16
#define DOMKL_INLINE __attribute__((always_inline)) inline
#else
#define DOMKL_INLINE inline
#endif

namespace domkl::DOMKL_ISA {

// The vector types for numbers of type T.
template <class T> struct VectorOf;
template <> struct VectorOf<double> {
    typedef double type __attribute__((vector_size(DOMKL_BYTES), may_alias));
    typedef int64_t ints __attribute__((vector_size(DOMKL_BYTES), may_alias));
    typedef int64_t integer;
};
template <> struct VectorOf<float> {
    typedef float type __attribute__((vector_size(DOMKL_BYTES), may_alias));
    typedef int32_t ints __attribute__((vector_size(DOMKL_BYTES), may_alias));
    typedef int32_t integer;
};

template <class T> using Vec = typename VectorOf<T>::type;
template <class T> using Ints = typename VectorOf<T>::ints;
template <class T> constexpr int WIDTH = DOMKL_BYTES / sizeof(T);

template <class T> inline Vec<T> load(const T* p) { return *reinterpret_cast<const Vec<T>*>(p); }
template <class T> inline void store(T* p, Vec<T> v) { *reinterpret_cast<Vec<T>*>(p) = v; }
template <class T> inline Vec<T> broadcast(T x) { return x - Vec<T>{}; }

// A permutation of the lanes: lane k comes from lane k ^ STEP.
template <class T, int STEP> inline Vec<T> swap_lanes(Vec<T> v) {
    Vec<T> out;
#pragma GCC unroll 16
    for (int k = 0; k < WIDTH<T>; ++k) out[k] = v[k ^ STEP];
    return out;
}

// Sum of all lanes, by halves.
template <class T> DOMKL_INLINE T sum(Vec<T> v) {
    if constexpr (WIDTH<T> > 8) v += swap_lanes<T, 8>(v);
    if constexpr (WIDTH<T> > 4) v += swap_lanes<T, 4>(v);
    if constexpr (WIDTH<T> > 2) v += swap_lanes<T, 2>(v);
    v += swap_lanes<T, 1>(v);
    return v[0];
}

// The given lanes of a and b together; b's are counted after a's.
template <class T, size_t... K> inline Vec<T> shuffle(Vec<T> a, Vec<T> b) {
#ifdef __clang__
    return __builtin_shufflevector(a, b, K...);
#else
    return __builtin_shuffle(a, b, Ints<T>{K...});
#endif
}

// Sums of lanes that are STEP apart: those of a in the lanes without the bit STEP, those of b in the others.
template <class T, int STEP, size_t... K> inline Vec<T> fold(Vec<T> a, Vec<T> b, std::index_sequence<K...>) {
    return shuffle<T, (K & STEP ? sizeof...(K) + (K ^ STEP) : K)...>(a, b) +
           shuffle<T, (K & STEP ? sizeof...(K) + K : K ^ STEP)...>(a, b);
}
template <class T, int STEP> inline Vec<T> fold(Vec<T> a, Vec<T> b) {
    return fold<T, STEP>(a, b, std::make_index_sequence<WIDTH<T>>());
}

// The sums of N vectors, equal to `sum` bit for bit, in fewer steps: that of v[n] in lane n W / N. Overwrites
// v.
template <class T, int N, int STEP = WIDTH<T> / 2> inline Vec<T> sums(Vec<T>* v) {
    if constexpr (STEP == 0) return v[0];
    else if constexpr (N == 1) {
        v[0] += swap_lanes<T, STEP>(v[0]);
        return sums<T, 1, STEP / 2>(v);
    } else {
#pragma GCC unroll 4
        for (int n = 0; n < N / 2; ++n) v[n] = fold<T, STEP>(v[n], v[n + N / 2]);
        return sums<T, N / 2, STEP / 2>(v);
    }
}

// Inner product of two arrays of K numbers, a multiple of the vector's width.
template <class T> inline T dot(const T* a, const T* b, int64_t K) {
    Vec<T> s = {};
    for (int64_t k = 0; k < K; k += WIDTH<T>) s += load(a + k) * load(b + k);
    return sum<T>(s);
}

// 0 if all K numbers are finite, otherwise not 0.
template <class T> inline T zero_if_finite(const T* a, int64_t K) {
    Vec<T> s = {};
    for (int64_t k = 0; k < K; k += WIDTH<T>) s += load(a + k) * T(0);
    return sum<T>(s);
}

}  // namespace domkl::DOMKL_ISA
