// The local step of one learner and one kernel.
//
// With mu = lam/c, s = sum of the neighbours' theta, h = rho/(2c):
//   mu    += h (deg theta - s)        the dual step of the round before: one gather serves both
//   v      = own theta + pull s - mu  own = (eta + rho deg/2)/c, pull = rho/(2c)
//   theta' = v - (a/c) z              a solves the one-dimensional problem at z . v
#pragma once
#include <cstdint>
#include <type_traits>
#include <vector>

#include "buffer.hpp"
#include "losses.hpp"
#include "vec.hpp"

namespace domkl {
namespace DOMKL_ISA {

// What a learner's degree, rates and loss make of the local step.
struct Pulls {
    double c, own, pull;

    Pulls(const Setting& set, double deg) {
        if (set.mu > 0) {  // plain gradient descent
            c = 1, own = 1 - 2 * set.mu * set.reg, pull = 0;
            return;
        }
        c = set.eta + set.rho * deg + 2 * set.reg;
        own = (set.eta + set.rho * deg / 2) / c;
        pull = set.rho / 2 / c;
    }

    // How far theta moves against z, for the score u of v and the score f of theta.
    double push(const Setting& set, double u, double f, double y) const {
        return set.mu > 0 ? set.mu * slope(set, f, y) : prox(set, c * u, c, y) / c;
    }
};

// Frequencies of all kernels, laid out for `features`: in quarter turns, filled up to whole vectors.
template <class T> struct Dictionary {
    int64_t P, D, d, Dp, K;
    Buffer<T> packed, scale;

    Dictionary(const Setting& set, const T* V) : P(set.P), D(set.D), d(set.d) {
        constexpr int W = WIDTH<T>;
        Dp = (D + W - 1) / W * W;
        K = 2 * Dp;
        packed = Buffer<T>(P * d * Dp);
        const double quarter = 2 / 3.14159265358979323846;
        for (int64_t p = 0; p < P; ++p)
            for (int64_t i = 0; i < D; ++i)
                for (int64_t k = 0; k < d; ++k)
                    packed.data()[(p * d + k) * Dp + i] = T(double(V[(p * D + i) * d + k]) * quarter);
        scale = Buffer<T>(Dp);  // zero where D was filled up
        std::fill_n(scale.data(), D, T(1 / std::sqrt(double(D))));
    }
    const T* kernel(int64_t p) const { return packed.data() + p * d * Dp; }

    // One row without the filling, times a factor.
    void unpad(const T* row, T* to, T factor) const {
        for (int64_t k = 0; k < D; ++k) to[k] = factor * row[k], to[D + k] = factor * row[Dp + k];
    }
    void pad(const T* row, T* to) const {
        for (int64_t k = 0; k < D; ++k) to[k] = row[k], to[Dp + k] = row[D + k];
    }
};

template <class T> inline T dot(const T* a, const T* b, int64_t K) {
    Vec<T> s = {};
    for (int64_t k = 0; k < K; k += WIDTH<T>) s += load(a + k) * load(b + k);
    return sum<T>(s);
}

// mu + h (n theta - s): in one place, so that simulator and device round alike.
template <class T> inline Vec<T> dual(Vec<T> mu, Vec<T> h, Vec<T> n, Vec<T> theta, Vec<T> s) {
    return mu + h * (n * theta - s);
}

// Scores that a step needs: of v, of theta at the sample it learns, and |theta|^2.
struct Scores {
    double u, f, norm;
};

// N neighbours: add their theta to s, and multiply each with z.
template <class T, int N>
inline void gather(const T* th, int64_t K, const int64_t* nb, const T* z, T* s, bool begun, T* edge) {
    Vec<T> products[N] = {};
    for (int64_t k = 0; k < K; k += WIDTH<T>) {
        const Vec<T> zk = load(z + k);
        Vec<T> total = begun ? load(s + k) : Vec<T>{};
#pragma GCC unroll 4
        for (int i = 0; i < N; ++i) {
            const Vec<T> a = load(th + nb[i] * K + k);
            total += a;
            products[i] += a * zk;
        }
        store(s + k, total);
    }
    for (int i = 0; i < N; ++i) edge[i] = sum<T>(products[i]);
}

// The last N <= 4 neighbours, the dual step, v and all scores in one pass. `v` holds s so far if `begun`.
template <class T, int N, bool DELAYED, bool NORM>
inline Scores finish(const T* th, int64_t K, int64_t j, const int64_t* nb, T deg, const Pulls& pulls, bool move_dual,
                     const T* z, const T* past, T* m, T* v, bool begun, T* edge, T* guess) {
    const T* mine = th + j * K;
    const T* rows[N + 1] = {};
    for (int i = 0; i < N; ++i) rows[i] = th + nb[i] * K;
    const Vec<T> own = all(T(pulls.own)), pull = all(T(pulls.pull)), h = all(T(move_dual ? pulls.pull : 0)), n = all(deg);
    Vec<T> products[N + 1] = {}, f = {}, fp = {}, u = {}, norm = {};
    for (int64_t k = 0; k < K; k += WIDTH<T>) {
        const Vec<T> zk = load(z + k), tk = load(mine + k);
        Vec<T> s = begun ? load(v + k) : Vec<T>{};
#pragma GCC unroll 4
        for (int i = 0; i < N; ++i) {
            const Vec<T> a = load(rows[i] + k);
            s += a;
            products[i] += a * zk;
        }
        Vec<T> vk = own * tk;
        if constexpr (N > 0) {  // without neighbours there is no dual
            const Vec<T> mk = dual<T>(load(m + k), h, n, tk, s);
            vk = vk + pull * s - mk;
            store(m + k, mk);
        }
        store(v + k, vk);
        f += tk * zk;
        const Vec<T> pk = DELAYED ? load(past + k) : zk;
        if (DELAYED) fp += tk * pk;
        if (NORM) norm += tk * tk;
        u += vk * pk;
    }
    for (int i = 0; i < N; ++i) edge[i] = sum<T>(products[i]);
    *guess = sum<T>(f);
    return {double(sum<T>(u)), double(DELAYED ? sum<T>(fp) : *guess), NORM ? double(sum<T>(norm)) : 0.0};
}

// Everything that needs the old estimates: predictions at z, mu, v (left in `v`) and the scores at `past`.
template <class T, bool DELAYED, bool NORM>
Scores sweep(const T* th, int64_t K, int64_t j, const int64_t* nb, int64_t deg, const Pulls& pulls, bool move_dual, const T* z,
             const T* past, T* m, T* v, T* edge, T* guess) {
    int64_t i = 0;
    for (; i + 4 < deg; i += 4) gather<T, 4>(th, K, nb + i, z, v, i > 0, edge + i);
    auto last = [&](auto n) {
        return finish<T, decltype(n)::value, DELAYED, NORM>(th, K, j, nb + i, T(deg), pulls, move_dual, z, past, m, v, i > 0,
                                                            edge + i, guess);
    };
    switch (deg - i) {
        case 0: return last(std::integral_constant<int, 0>{});
        case 1: return last(std::integral_constant<int, 1>{});
        case 2: return last(std::integral_constant<int, 2>{});
        case 3: return last(std::integral_constant<int, 3>{});
        default: return last(std::integral_constant<int, 4>{});
    }
}

// theta' = v - a z.
template <class T> inline void move(const T* v, const T* z, T a, T* out, int64_t K) {
    const Vec<T> push = all(T(-a));
    for (int64_t k = 0; k < K; k += WIDTH<T>) store(out + k, load(v + k) + push * load(z + k));
}

// Hedge: q_p proportional to exp(-total_p / eta_g).
inline void weigh(const double* total, int64_t P, double eta_g, double* q) {
    double least = total[0], all_of_it = 0;
    for (int64_t p = 1; p < P; ++p) least = std::min(least, total[p]);
    for (int64_t p = 0; p < P; ++p) all_of_it += q[p] = std::exp((least - total[p]) / eta_g);
    for (int64_t p = 0; p < P; ++p) q[p] /= all_of_it;
}

}  // namespace DOMKL_ISA
}  // namespace domkl
