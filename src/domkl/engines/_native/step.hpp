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
#include "weigh.hpp"

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
        if (set.newton) {  // v is then what is added to m
            c = 1, own = set.rho * deg / 2, pull = set.rho / 2;
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

    DOMKL_SELDOM Dictionary(const Setting& set, const T* V) : P(set.P), D(set.D), d(set.d) {
        constexpr int W = WIDTH<T>;
        Dp = (D + W - 1) / W * W;
        K = 2 * Dp;
        packed = Buffer<T>(P * d * Dp);
        for (int64_t p = 0; p < P; ++p) pack(V + p * D * d, packed.data() + p * d * Dp);
        scale = Buffer<T>(Dp);  // zero where D was filled up
        std::fill_n(scale.data(), D, T(1 / std::sqrt(double(D))));
    }
    DOMKL_ONCE void pack(const T* from, T* to) const {
        const double quarter = 2 / 3.14159265358979323846;
        for (int64_t i = 0; i < D; ++i, ++to)
            for (int64_t k = 0; k < d; ++k) to[k * Dp] = T(double(*from++) * quarter);
    }
    const T* kernel(int64_t p) const { return packed.data() + p * d * Dp; }

    // One row without the filling, times a factor.
    void unpad(const T* row, T* to, T factor) const {
        for (int64_t k = 0; k < D; ++k) to[k] = factor * row[k], to[D + k] = factor * row[Dp + k];
    }
    void unpad(const T* row, T* to) const {
        std::memcpy(to, row, D * sizeof(T));
        std::memcpy(to + D, row + Dp, D * sizeof(T));
    }
    // As `unpad`, in whole vectors: up to one vector more than 2D numbers is written.
    void unpad_roughly(const T* row, T* to) const {
        for (int64_t k = 0; k < Dp; k += WIDTH<T>) store(to + k, load(row + k));
        for (int64_t k = Dp; k < K; k += WIDTH<T>) std::memcpy(to + D - Dp + k, row + k, sizeof(Vec<T>));
    }
    void pad(const T* row, T* to) const {
        for (int64_t k = 0; k < D; ++k) to[k] = row[k], to[Dp + k] = row[D + k];
    }
    // As `pad`, in whole vectors: up to one vector more than 2D numbers is read.
    void pad_roughly(const T* row, T* to) const {
        for (int64_t k = 0; k < Dp; k += WIDTH<T>) store(to + k, load(row + k));
        for (int64_t k = Dp; k < K; k += WIDTH<T>) std::memcpy(to + k, row + D - Dp + k, sizeof(Vec<T>));
        for (int64_t k = D; k < Dp; ++k) to[k] = to[Dp + k] = 0;
    }
};

// mu + h (n theta - s): in one place, so that simulator and device round alike.
template <class T> inline Vec<T> dual(Vec<T> mu, Vec<T> h, Vec<T> n, Vec<T> theta, Vec<T> s) {
    return mu + h * (n * theta - s);
}

// Scores that a step needs: of v, and of theta at the sample it learns.
struct Scores {
    double u, f;
};

constexpr int AHEAD = 4;  // steps between asking for a row and reading it

// N rows that a later step will read, asked for while this one computes: where no cache holds them all, the
// processor waits for each otherwise, as it cannot guess where they are.
template <class T, int N> class Later {
  public:
    Later(const T* th, int64_t K, const int64_t* near, const int64_t* first, int64_t i) {
        for (int n = 0; n < N; ++n)
            rows[n] = th + near[std::min(first[AHEAD] + i + n, first[AHEAD + 1] - 1)] * K;
    }
    // Must be inlined: alone, GCC takes it for a function that does nothing.
    __attribute__((always_inline)) void fetch(int64_t k) const {
        if (N == 0 || k * sizeof(T) % LINE) return;
#pragma GCC unroll 6
        for (int n = 0; n < N; ++n)
            __builtin_prefetch(rows[n] + k, 0, 2);  // no nearer than L2: L1 awaits few lines at a time
    }

  private:
    static constexpr size_t LINE = 64;
    const T* rows[N + 1];
};

// N neighbours: add their theta to s, and multiply each with z.
template <class T, int N, int M>
inline void gather(const T* th, int64_t K, const int64_t* nb, const Later<T, M>& later, const T* z, T* s,
                   bool begun, T* edge) {
    const T* rows[N];
    for (int i = 0; i < N; ++i) rows[i] = th + nb[i] * K;
    Vec<T> products[N] = {};
    for (int64_t k = 0; k < K; k += WIDTH<T>) {
        later.fetch(k);
        const Vec<T> zk = load(z + k);
        Vec<T> total = begun ? load(s + k) : Vec<T>{};
#pragma GCC unroll 4
        for (int i = 0; i < N; ++i) {
            const Vec<T> a = load(rows[i] + k);
            total += a;
            products[i] += a * zk;
        }
        store(s + k, total);
    }
    for (int i = 0; i < N; ++i) edge[i] = sum<T>(products[i]);
}

constexpr int LAST = 6;  // neighbours of one pass, as many as the registers hold sums for

// The last N <= LAST neighbours, the dual step, v and all scores in one pass. `v` holds s so far if `begun`.
template <class T, int N, bool DELAYED, int M>
inline Scores finish(const T* th, int64_t K, int64_t j, const int64_t* nb, const Later<T, M>& later, T deg,
                     const Pulls& pulls, bool move_dual, const T* z, const T* past, T* m, T* v, bool begun,
                     T* edge, T* guess) {
    const T* mine = th + j * K;
    const T* rows[N + 1] = {};
    for (int i = 0; i < N; ++i) rows[i] = th + nb[i] * K;
    const Vec<T> own = all(T(pulls.own)), pull = all(T(pulls.pull)), h = all(T(move_dual ? pulls.pull : 0)),
                 n = all(deg);
    Vec<T> products[N + 1] = {}, f = {}, fp = {}, u = {};
    for (int64_t k = 0; k < K; k += WIDTH<T>) {
        later.fetch(k);
        const Vec<T> zk = load(z + k), tk = load(mine + k);
        Vec<T> s = begun ? load(v + k) : Vec<T>{};
#pragma GCC unroll 6
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
        u += vk * pk;
    }
    for (int i = 0; i < N; ++i) edge[i] = sum<T>(products[i]);
    *guess = sum<T>(f);
    const double score = double(DELAYED ? sum<T>(fp) : *guess);
    return {N > 0 ? double(sum<T>(u)) : pulls.own * score, score};
}

// Everything that needs the old estimates: predictions at z, mu, v (left in `v`) and the scores at `past`.
// The neighbours are near[first[0]] up to near[first[1]]; those of later learners follow.
template <class T, bool DELAYED, bool FETCH>
Scores sweep(const T* th, int64_t K, int64_t j, const int64_t* near, const int64_t* first, const Pulls& pulls,
             bool move_dual, const T* z, const T* past, T* m, T* v, T* edge, T* guess) {
    const int64_t* nb = near + first[0];
    const int64_t deg = first[1] - first[0];
    int64_t i = 0;
    for (; i + LAST < deg; i += 4)
        gather<T, 4>(th, K, nb + i, Later<T, FETCH ? 4 : 0>(th, K, near, first, i), z, v, i > 0, edge + i);
    auto last = [&](auto n) {
        constexpr int N = decltype(n)::value;
        return finish<T, N, DELAYED>(th, K, j, nb + i, Later<T, FETCH ? N : 0>(th, K, near, first, i), T(deg),
                                     pulls, move_dual, z, past, m, v, i > 0, edge + i, guess);
    };
    switch (deg - i) {
        case 0: return last(std::integral_constant<int, 0>{});
        case 1: return last(std::integral_constant<int, 1>{});
        case 2: return last(std::integral_constant<int, 2>{});
        case 3: return last(std::integral_constant<int, 3>{});
        case 4: return last(std::integral_constant<int, 4>{});
        case 5: return last(std::integral_constant<int, 5>{});
        default: return last(std::integral_constant<int, LAST>{});
    }
}

// The sweep for a case: whether the sample is a past one, and whether rows are asked for early.
template <class T> auto sweep_for(bool delayed, bool fetch) {
    return fetch ? (delayed ? sweep<T, true, true> : sweep<T, false, true>)
                 : (delayed ? sweep<T, true, false> : sweep<T, false, false>);
}

// The loss of an old estimate: of its score, and of its length where that is punished.
template <class T> inline double loss_of(const Setting& set, double f, double y, const T* theta, int64_t K) {
    return value(set, f, y) + (set.reg > 0 ? set.reg * double(dot(theta, theta, K)) : 0.0);
}

// theta' = v - a z.
template <class T> inline void move(const T* v, const T* z, T a, T* out, int64_t K) {
    const Vec<T> push = all(T(-a));
    for (int64_t k = 0; k < K; k += WIDTH<T>) store(out + k, load(v + k) + push * load(z + k));
}

}  // namespace DOMKL_ISA
}  // namespace domkl
