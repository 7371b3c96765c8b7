// Consensus: online ADMM over all past samples of each device, from one matrix Q.
//
//     Q = (sum h z z' + tau I)^-1,  M = sum h y z,  tau = eta + rho w
//     theta  = Q (M + rho/2 (w theta + sum w_i theta_i) - lam)     sent to the neighbours
//     lam   += rho/2 sum w_i (theta - theta_i)
//     alone  = Q M                                                 own samples only
//     own   <- Q (M + rho w own)                                   own samples, with the small ridge eta
#pragma once
#include "../inverse.hpp"
#include "combine.hpp"
#include "numbers.hpp"

namespace domkl::DOMKL_ISA {

// What one pass over Q gave for a sample, and scratch for it: arrays of Kp numbers, zero beyond K.
template <class T> struct Solved {
    T *right, *found, *rest;  // (1 + 2 m, Kp) columns and what Q makes of them; (3, Kp) scratch
    T* alone;                 // (m,) what `alone` says
};

template <class T> class Consensus {
  public:
    Consensus(Fields& of, const Sizes& n)
        : m(n.m), K(n.K), Kp(Inverse<T>::padded(n.K)), rho(of.number("consensus.rho")),
          largest(T(of.number("largest"))) {
        of.get("consensus.moment", n.J * m * K, moment);
        of.get("consensus.alone", n.J * m * K, alone);
        of.get("consensus.own", n.J * m * K, own);
        of.get("consensus.theta", n.J * m * K, theta);
        of.get("consensus.lam", n.J * m * K, lam);
        of.get("consensus.common", n.J * m * K, common);
        of.get("consensus.side", n.J * m * K, side);
        of.get("consensus.weight", n.J, weight);
    }

    // One pass over Q for the sample whose features are the first column. `with`: of a round with one.
    void solve(int64_t j, Inverse<T>& Q, const Solved<T>& s, bool with) const {
        const T pull = T(rho * weight[j]);
        for (int64_t i = 0; i < m; ++i) {
            const int64_t at = (j * m + i) * K;
            T *common = s.right + (1 + i) * Kp, *next = s.right + (1 + m + i) * Kp;
            for (int64_t k = 0; k < K; ++k) common[k] = moment[at + k] + side[at + k];
            for (int64_t k = 0; k < K; ++k) next[k] = pull * own[at + k];  // rounded, as `side` is
            for (int64_t k = 0; k < K; ++k) next[k] = moment[at + k] + next[k];
        }
        // A device that was never linked has its own function in common: these columns are the same.
        const T *common = s.right + Kp, *next = common + m * Kp;
        const bool is_alone = with && std::memcmp(common, next, m * Kp * sizeof(T)) == 0;
        for (int64_t c = !with, left = (is_alone ? m : 2 * m) + with; left > 0;) {
            const bool two = left == 2 || left == 4;  // as `Inverse` takes two or three at once
            const T* x = s.right + c * Kp;
            if (two) Q.template multiply<2>(x, s.found + c * Kp, s.rest);
            else Q.template multiply<3>(x, s.found + c * Kp, s.rest);
            c += 3 - two, left -= 3 - two;
        }
        if (is_alone) std::copy_n(s.found + Kp, m * Kp, s.found + (1 + m) * Kp);
    }

    // What the common, the alone and the own function say of a target. (3,)
    void predict(int64_t j, int64_t i, const Solved<T>& s, double* f) const {
        const T* z = s.right;
        const int64_t at = (j * m + i) * K;
        s.alone[i] = dot_loose(z, alone + at, K);
        f[0] = dot_loose(z, common + at, K);
        f[1] = s.alone[i];
        f[2] = dot_loose(z, own + at, K);
    }

    // Takes a sample, targets (m,) of weight h, into Q and M.
    void learn(int64_t j, Inverse<T>& Q, const Solved<T>& s, const double* y, double weight) const {
        T *z = s.right, *u = s.found;
        const T h = T(weight), zu = dot_loose(z, u, K), rise = 1 + h * zu, gain = h / rise;
        for (int64_t i = 0; i < m; ++i) {
            const int64_t at = (j * m + i) * K;
            const T hy = h * T(y[i]);
            add(gain * (T(y[i]) - s.alone[i]), u, K, alone + at);
            corrected(s.found + (1 + i) * Kp, z, u, hy, zu, gain, theta + at);
            corrected(s.found + (1 + m + i) * Kp, z, u, hy, zu, gain, own + at);
            add(hy, z, K, moment + at);
        }
        const T root = std::sqrt(gain);
        for (int64_t k = 0; k < K; ++k) u[k] *= root;
        Q.downdate(u);
    }

    // The step of a round without a sample.
    void rest(int64_t j, const Solved<T>& s) const {
        for (int64_t i = 0; i < m; ++i) {
            std::copy_n(s.found + (1 + i) * Kp, K, theta + (j * m + i) * K);
            std::copy_n(s.found + (1 + m + i) * Kp, K, own + (j * m + i) * K);
        }
    }

    // Ends the round with what neighbours sent; a device without any pulls itself.
    void merge(int64_t j, const Pulled<T>& from) const {
        const T half = T(rho / 2);
        const int64_t size = m * K, at = j * size;
        const T *own = theta + at, *others = from.near;
        T *l = lam + at, *to = side + at;
        if (!(from.weight > 0)) {
            const T by = T(weight[j]);
            for (int64_t k = 0; k < size; ++k) to[k] = half * (by * own[k] + by * own[k]) - l[k];
            for (int64_t k = 0; k < size; ++k) common[at + k] = clipped(own[k], -largest, largest);
            return;
        }
        const T by = T(from.weight), moving = T(from.moving);
        for (int64_t k = 0; k < size; ++k) l[k] += half * (moving * own[k] - from.moved[k]);
        for (int64_t k = 0; k < size; ++k) to[k] = half * (by * own[k] + others[k]) - l[k];
        std::copy_n(from.mean, size, common + at);
    }

  private:
    // (Q - g u u') (b + hy z) from Q b, where u = Q z.
    void corrected(const T* before, const T* z, const T* u, T hy, T zu, T gain, T* __restrict to) const {
        const T by = hy - gain * (dot_loose(z, before, K) + hy * zu);
        for (int64_t k = 0; k < K; ++k) to[k] = before[k] + by * u[k];
    }

    int64_t m, K, Kp;
    double rho;
    T largest;  // that is sent, to oneself if there are no neighbours
    T *moment, *alone, *own, *theta, *lam, *common, *side;
    double* weight;
};

}  // namespace domkl::DOMKL_ISA
