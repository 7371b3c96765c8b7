// Random features of many samples: a matrix product, then sin and cos while the angles are in registers.
#pragma once
#include <type_traits>

#include "sincos.hpp"

namespace domkl {
namespace DOMKL_ISA {

constexpr int ROWS = DOMKL_BYTES == 64 ? 8 : 4;  // as many sums as the registers hold
constexpr int TILE = 64;
constexpr int MANY = 3;  // columns at once of several samples; more are for a single one

// Angles of R samples against C vectors of frequencies, then sin and cos, while all is in registers.
template <class T, int R, int C>
inline void angles(const T* const* x, int64_t d, const T* V, int64_t Dp, const T* scale, T* z, int64_t K) {
    constexpr int W = WIDTH<T>;
    Vec<T> sums[R][C] = {};
    for (int64_t k = 0; k < d; ++k) {
        Vec<T> v[C];
#pragma GCC unroll 16
        for (int c = 0; c < C; ++c) v[c] = load(V + k * Dp + c * W);
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) {
            const Vec<T> xk = all(x[r][k]);
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

template <class T, int C>
void columns(const T* const* x, int n, int64_t d, const T* V, int64_t Dp, const T* scale, T* z, int64_t K) {
    int r = 0;
    if constexpr (C <= MANY) {
        for (; r + ROWS <= n; r += ROWS) angles<T, ROWS, C>(x + r, d, V, Dp, scale, z + r * K, K);
        for (; r + 2 <= n; r += 2) angles<T, 2, C>(x + r, d, V, Dp, scale, z + r * K, K);
    }
    for (; r < n; ++r) angles<T, 1, C>(x + r, d, V, Dp, scale, z + r * K, K);
}

// z (n, K) of n samples for one kernel; V (d, Dp) in quarter turns.
template <class T>
void features(const T* const* x, int n, int64_t d, const T* V, int64_t Dp, const T* scale, T* z) {
    const int64_t K = 2 * Dp, end = Dp / WIDTH<T>;
    auto some = [&](auto count, int64_t at) {
        const int64_t o = at * WIDTH<T>;
        columns<T, decltype(count)::value>(x, n, d, V + o, Dp, scale + o, z + o, K);
        return at + decltype(count)::value;
    };
    int64_t at = 0;
    if (n == 1) {  // one sample: as many columns as the registers hold, so that V streams by
        while (end - at >= 13) at = some(std::integral_constant<int, 13>{}, at);
        while (end - at >= 7) at = some(std::integral_constant<int, 7>{}, at);
    }
    while (end - at > 4 || end - at == 3) at = some(std::integral_constant<int, 3>{}, at);
    while (end - at >= 2) at = some(std::integral_constant<int, 2>{}, at);
    while (end - at >= 1) at = some(std::integral_constant<int, 1>{}, at);
}

}  // namespace DOMKL_ISA
}  // namespace domkl
