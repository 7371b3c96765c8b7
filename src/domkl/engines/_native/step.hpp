// The local step of one learner and one kernel.
//
// With mu = lam/c, s = sum of the neighbours' theta, h = rho/(2c):
//   mu    += h (deg theta - s)        the dual step of the previous round: one gather serves both
//   v      = own theta + pull s - mu  own = (eta + rho deg/2)/c, pull = rho/(2c)
//   theta' = v - (a/c) z              a solves the one-dimensional problem at z . v
#pragma once
#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "losses.hpp"
#include "vec.hpp"

namespace domkl::DOMKL_ISA {

// Coefficients of the local step, from a learner's degree, the rates and the loss.
struct Coefficients {
    double c, own, pull;

    Coefficients(const Settings& settings, double deg) {
        if (settings.mu > 0) {  // plain gradient descent
            c = 1, own = 1 - 2 * settings.mu * settings.reg, pull = 0;
            return;
        }
        if (settings.newton) {  // v is then added to m
            c = 1, own = settings.rho * deg / 2, pull = settings.rho / 2;
            return;
        }
        c = settings.eta + settings.rho * deg + 2 * settings.reg;
        own = (settings.eta + settings.rho * deg / 2) / c;
        pull = settings.rho / 2 / c;
    }

    // The step's length along -z, from the score u of v and the score f of theta.
    double step_length(const Settings& settings, double u, double f, double y) const {
        return settings.mu > 0 ? settings.mu * loss_slope(settings, f, y)
                               : prox_slope(settings, c * u, c, y) / c;
    }
};

// mu + h (n theta - s), in one place, so that network and device round identically.
template <class T> inline Vec<T> dual_step(Vec<T> mu, Vec<T> h, Vec<T> n, Vec<T> theta, Vec<T> s) {
    return mu + h * (n * theta - s);
}

// Scores of v and of theta at the sample that the step learns from.
struct Scores {
    double u, f;
};

constexpr int AHEAD = 4;  // learners between prefetching a row and reading it

// Prefetches N neighbours' rows of a later learner while this one's step computes: where the cache does not
// hold theta, the processor would wait for each of them, as it cannot predict their addresses.
template <class T, int N> class Prefetch {
  public:
    Prefetch(const T* theta, int64_t K, const int64_t* neighbours, const int64_t* first, int64_t i) {
        for (int n = 0; n < N; ++n)
            rows[n] = theta + neighbours[std::min(first[AHEAD] + i + n, first[AHEAD + 1] - 1)] * K;
    }
    // Must be inlined: on its own, GCC considers it a function without effect.
    __attribute__((always_inline)) void column(int64_t k) const {
        if (N == 0 || k * sizeof(T) % LINE) return;
#pragma GCC unroll 6
        for (int n = 0; n < N; ++n)
            __builtin_prefetch(rows[n] + k, 0, 2);  // into L2 only: L1 can wait for few lines at a time
    }

  private:
    static constexpr size_t LINE = 64;
    const T* rows[N + 1];
};

// N neighbours: adds their theta to s, and writes the inner product of each with z.
template <class T, int N, int M>
inline void gather_pass(const T* theta, int64_t K, const int64_t* neighbours, const Prefetch<T, M>& prefetch,
                        const T* z, T* s, bool accumulate, T* edge) {
    const T* rows[N];
    for (int i = 0; i < N; ++i) rows[i] = theta + neighbours[i] * K;
    Vec<T> products[N] = {};
    for (int64_t k = 0; k < K; k += WIDTH<T>) {
        prefetch.column(k);
        const Vec<T> zk = load(z + k);
        Vec<T> total = accumulate ? load(s + k) : Vec<T>{};
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

constexpr int LAST_PASS = 6;  // neighbours of the last pass, as many as the registers have sums for

// The last N <= LAST_PASS neighbours, the dual step, v and all scores in one pass. If `accumulate`, v
// contains the sum of the other neighbours.
template <class T, int N, bool DELAYED, int M>
inline Scores last_pass(const T* theta, int64_t K, int64_t j, const int64_t* neighbours,
                        const Prefetch<T, M>& prefetch, T deg, const Coefficients& coef, bool move_dual,
                        const T* z, const T* past, T* mu, T* v, bool accumulate, T* edge, T* prediction) {
    const T* mine = theta + j * K;
    const T* rows[N + 1] = {};
    for (int i = 0; i < N; ++i) rows[i] = theta + neighbours[i] * K;
    const Vec<T> own = broadcast(T(coef.own)), pull = broadcast(T(coef.pull)),
                 h = broadcast(T(move_dual ? coef.pull : 0)), n = broadcast(deg);
    Vec<T> products[N + 1] = {}, f = {}, fp = {}, u = {};
    for (int64_t k = 0; k < K; k += WIDTH<T>) {
        prefetch.column(k);
        const Vec<T> zk = load(z + k), tk = load(mine + k);
        Vec<T> s = accumulate ? load(v + k) : Vec<T>{};
#pragma GCC unroll 6
        for (int i = 0; i < N; ++i) {
            const Vec<T> a = load(rows[i] + k);
            s += a;
            products[i] += a * zk;
        }
        Vec<T> vk = own * tk;
        if constexpr (N > 0) {  // without neighbours there is no dual
            const Vec<T> mk = dual_step<T>(load(mu + k), h, n, tk, s);
            vk = vk + pull * s - mk;
            store(mu + k, mk);
        }
        store(v + k, vk);
        f += tk * zk;
        const Vec<T> pk = DELAYED ? load(past + k) : zk;
        if (DELAYED) fp += tk * pk;
        u += vk * pk;
    }
    for (int i = 0; i < N; ++i) edge[i] = sum<T>(products[i]);
    *prediction = sum<T>(f);
    const double score = double(DELAYED ? sum<T>(fp) : *prediction);
    return {N > 0 ? double(sum<T>(u)) : coef.own * score, score};
}

// Everything that reads the old estimates: predictions at z across each edge and of the learner itself, mu,
// v, and the scores at `past`, the features of the sample to learn from. The neighbours are
// neighbours[first[0]] up to neighbours[first[1]]; those of later learners follow.
template <class T, bool DELAYED, bool PREFETCH>
Scores sweep(const T* theta, int64_t K, int64_t j, const int64_t* neighbours, const int64_t* first,
             const Coefficients& coef, bool move_dual, const T* z, const T* past, T* mu, T* v, T* edge,
             T* prediction) {
    const int64_t* mine = neighbours + first[0];
    const int64_t deg = first[1] - first[0];
    int64_t i = 0;
    for (; i + LAST_PASS < deg; i += 4)
        gather_pass<T, 4>(theta, K, mine + i, Prefetch<T, PREFETCH ? 4 : 0>(theta, K, neighbours, first, i),
                          z, v, i > 0, edge + i);
    auto last = [&](auto n) {
        constexpr int N = decltype(n)::value;
        return last_pass<T, N, DELAYED>(theta, K, j, mine + i,
                                        Prefetch<T, PREFETCH ? N : 0>(theta, K, neighbours, first, i), T(deg),
                                        coef, move_dual, z, past, mu, v, i > 0, edge + i, prediction);
    };
    switch (deg - i) {
        case 0: return last(std::integral_constant<int, 0>{});
        case 1: return last(std::integral_constant<int, 1>{});
        case 2: return last(std::integral_constant<int, 2>{});
        case 3: return last(std::integral_constant<int, 3>{});
        case 4: return last(std::integral_constant<int, 4>{});
        case 5: return last(std::integral_constant<int, 5>{});
        default: return last(std::integral_constant<int, LAST_PASS>{});
    }
}

// The sweep for a case: whether the sample to learn from is an earlier one, and whether rows are prefetched.
template <class T> auto sweep_for(bool delayed, bool prefetch) {
    return prefetch ? (delayed ? sweep<T, true, true> : sweep<T, false, true>)
                    : (delayed ? sweep<T, true, false> : sweep<T, false, false>);
}

// The loss of an old estimate at its score f, with the ridge penalty.
template <class T>
inline double penalised_loss(const Settings& settings, double f, double y, const T* theta, int64_t K) {
    return loss_value(settings, f, y) +
           (settings.reg > 0 ? settings.reg * double(dot(theta, theta, K)) : 0.0);
}

// theta' = v - a z.
template <class T> inline void take_step(const T* v, const T* z, T a, T* out, int64_t K) {
    const Vec<T> minus_a = broadcast(T(-a));
    for (int64_t k = 0; k < K; k += WIDTH<T>) store(out + k, load(v + k) + minus_a * load(z + k));
}

}  // namespace domkl::DOMKL_ISA
