// Sums and products of arrays that start anywhere and have any length, in an order that is always the same.
#pragma once
#include <algorithm>

#include "../vec.hpp"

namespace domkl::DOMKL_ISA {

// A vector that need not be aligned.
template <class T> struct LooseOf {
    typedef T type __attribute__((vector_size(DOMKL_BYTES), may_alias, aligned(sizeof(T))));
};
template <class T> inline Vec<T> load_loose(const T* p) {
    return *reinterpret_cast<const typename LooseOf<T>::type*>(p);
}
template <class T> inline void store_loose(T* p, Vec<T> v) {
    *reinterpret_cast<typename LooseOf<T>::type*>(p) = v;
}

// a . b
template <class T> inline T dot_loose(const T* a, const T* b, int64_t n) {
    constexpr int W = WIDTH<T>;
    Vec<T> s[2] = {};
    int64_t k = 0;
    for (; k + 2 * W <= n; k += 2 * W)
        for (int i = 0; i < 2; ++i) s[i] += load_loose(a + k + i * W) * load_loose(b + k + i * W);
    if (k + W <= n) s[0] += load_loose(a + k) * load_loose(b + k), k += W;
    T rest = 0;
    for (; k < n; ++k) rest += a[k] * b[k];
    return sum<T>(s[0] + s[1]) + rest;
}

// y += by x
template <class T> inline void add(T by, const T* x, int64_t n, T* __restrict y) {
    for (int64_t k = 0; k < n; ++k) y[k] += by * x[k];
}

template <class T> inline T clipped(T x, T low, T high) { return std::min(std::max(x, low), high); }

// A part of an array for each row of a network, with a number of values in it.
template <class T> struct Rows {
    T* first = nullptr;
    int64_t each = 1;
    T* operator[](int64_t j) const { return first + j * each; }
};

}  // namespace domkl::DOMKL_ISA
