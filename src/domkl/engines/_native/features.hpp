// Random features of many samples: a matrix product, then sin and cos while the angles are in registers.
#pragma once
#include <type_traits>

#include "sincos.hpp"

namespace domkl::DOMKL_ISA {

constexpr int TILE = 64;                         // samples whose features are computed together
constexpr int ROWS = DOMKL_BYTES == 64 ? 8 : 4;  // as many sums as fit the registers
constexpr int BATCH_COLUMNS = 3;                 // vectors at once for several samples; more for a single one

// Angles of R samples for C vectors of frequencies, then sin and cos, all in registers.
template <class T, int R, int C>
inline void feature_block(const T* const* x, int64_t d, const T* V, int64_t Dp, const T* scale, T* z,
                          int64_t K) {
    constexpr int W = WIDTH<T>;
    Vec<T> sums[R][C] = {};
    for (int64_t k = 0; k < d; ++k) {
        Vec<T> v[C];
#pragma GCC unroll 16
        for (int c = 0; c < C; ++c) v[c] = load(V + k * Dp + c * W);
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) {
            const Vec<T> xk = broadcast(x[r][k]);
#pragma GCC unroll 16
            for (int c = 0; c < C; ++c) sums[r][c] += xk * v[c];
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 16
        for (int c = 0; c < C; ++c) {
            Vec<T> s, co;
            sincos<T>(sums[r][c], load(scale + c * W), s, co);
            store(z + r * K + c * W, s);
            store(z + r * K + Dp + c * W, co);
        }
    }
}

// The features of n samples for C vectors of frequencies.
template <class T, int C>
void feature_columns(const T* const* x, int n, int64_t d, const T* V, int64_t Dp, const T* scale, T* z,
                     int64_t K) {
    int r = 0;
    if constexpr (C <= BATCH_COLUMNS) {
        for (; r + ROWS <= n; r += ROWS) feature_block<T, ROWS, C>(x + r, d, V, Dp, scale, z + r * K, K);
        for (; r + 2 <= n; r += 2) feature_block<T, 2, C>(x + r, d, V, Dp, scale, z + r * K, K);
    }
    for (; r < n; ++r) feature_block<T, 1, C>(x + r, d, V, Dp, scale, z + r * K, K);
}

// The features z (n, 2 Dp) of n samples for one kernel; V (d, Dp) in quarter turns.
template <class T>
void random_features(const T* const* x, int n, int64_t d, const T* V, int64_t Dp, const T* scale, T* z) {
    const int64_t K = 2 * Dp, end = Dp / WIDTH<T>;
    auto columns = [&](auto count, int64_t at) {
        const int64_t o = at * WIDTH<T>;
        feature_columns<T, decltype(count)::value>(x, n, d, V + o, Dp, scale + o, z + o, K);
        return at + decltype(count)::value;
    };
    int64_t at = 0;
    if (n == 1) {  // as many columns as fit the registers, so that V is read in sequence
        while (end - at >= 13) at = columns(std::integral_constant<int, 13>{}, at);
        while (end - at >= 7) at = columns(std::integral_constant<int, 7>{}, at);
    }
    while (end - at > 4 || end - at == 3) at = columns(std::integral_constant<int, 3>{}, at);
    while (end - at >= 2) at = columns(std::integral_constant<int, 2>{}, at);
    while (end - at >= 1) at = columns(std::integral_constant<int, 1>{}, at);
}

}  // namespace domkl::DOMKL_ISA
