// The inverses of several learners and kernels, which Python calls directly or a device uses itself.
#pragma once
#include <atomic>
#include <vector>

#include "engine.hpp"
#include "inverse.hpp"
#include "thread_pool.hpp"

namespace domkl::DOMKL_ISA {

// n matrices of one size, on a thread pool.
template <class T> class InverseArray final : public Inverses<T> {
  public:
    DOMKL_COLD InverseArray(int64_t n, int64_t K) : K(K), Kp(Inverse<T>::padded(K)) {
        for (int64_t i = 0; i < n; ++i) matrices.emplace_back(K);
    }

    void set_diagonal(const T* x) override {
        for (auto& one : matrices) one.set_diagonal(*x++);
    }

    void multiply(const T* const* x, int count, T* Px, int threads) override {
        const int64_t apart = int64_t(matrices.size()) * K;
        for_each(threads, [&](int64_t thread, int64_t i) {
            const Scratch scratch = scratch_of(thread);
            for (int r = 0; r < count; ++r) std::copy_n(x[r] + i * K, K, scratch.x + r * Kp);
            if (count == 2) matrices[i].template multiply<2>(scratch.x, scratch.Px, scratch.rest);
            else matrices[i].template multiply<3>(scratch.x, scratch.Px, scratch.rest);
            for (int r = 0; r < count; ++r) std::copy_n(scratch.Px + r * Kp, K, Px + r * apart + i * K);
        });
    }

    bool learn(const NewtonRound<T>& round, int threads) override {
        std::atomic<bool> finite{true};
        for_each(threads, [&](int64_t thread, int64_t i) {
            if (step(round, i, scratch_of(thread)) != 0) finite = false;
        });
        for (auto& one : matrices)
            if (finite) one.downdate();
        return finite;
    }

    void downdate(const T* u) override {
        for (auto& one : matrices) one.downdate(u), u += K;
    }

    void dense(T* out) override {
        for (auto& one : matrices) one.dense(out), out += K * K;
    }
    void replace(const T* from) override {
        for (auto& one : matrices) one.replace(from), from += K * K;
    }

    void save(T* half, T* terms) override {
        for (auto& one : matrices) one.save(half, terms), half += K * (K + 1) / 2, terms += capacity() * K;
    }
    void restore(const T* half, const T* terms, int64_t used) override {
        for (auto& one : matrices) one.restore(half, terms, used), half += K * (K + 1) / 2, terms += used * K;
    }

    void replace(int64_t i, const T* from) override { matrices[i].replace(from); }
    int save(int64_t i, T* half, T* terms) override {
        matrices[i].save(half, terms);
        return matrices[i].pending();
    }
    void restore(int64_t i, const T* half, const T* terms, int64_t used) override {
        matrices[i].restore(half, terms, used);
    }

    Inverse<T>& operator[](int64_t i) { return matrices[i]; }

    int capacity() const override { return Inverse<T>::capacity(K); }
    int pending() const override { return matrices.empty() ? 0 : matrices[0].pending(); }

  private:
    // Three rows each, of Kp numbers. Only K are ever written to those of x: what lies beyond stays zero.
    struct Scratch {
        T *x, *Px, *rest;
    };

    // Calls task(thread, i) for every i, with scratch memory for each thread.
    void for_each(int threads, const ThreadPool::Task& task) {
        const int64_t n = int64_t(matrices.size()), used = std::min<int64_t>(threads, n);
        if (int64_t(scratches.size()) < used * 9 * Kp) scratches = Buffer<T>(used * 9 * Kp);
        if (used > 1) return pool.get(used).run(n, task);
        for (int64_t i = 0; i < n; ++i) task(0, i);
    }
    Scratch scratch_of(int64_t thread) {
        T* x = scratches.data() + thread * 9 * Kp;
        return {x, x + 3 * Kp, x + 6 * Kp};
    }

    // theta' and m' of row i. Returns 0 if everything that `learn` checks is finite.
    T step(const NewtonRound<T>& round, int64_t i, const Scratch& scratch) {
        T *z = scratch.x, *b = z + Kp, *theta = scratch.Px + Kp;
        std::copy_n(round.z + i * K, K, z);
        prepare(round, i, b, round.next_m + i * K);
        matrices[i].template multiply<2>(z, scratch.Px, scratch.rest);
        const T zero = matrices[i].solve(double(round.h[i]), z, b, scratch.Px, theta);
        std::copy_n(theta, K, round.next + i * K);
        return zero + round.L[i] * 0;
    }

    // The right-hand side b of row i, and its m'.
    void prepare(const NewtonRound<T>& round, int64_t i, T* __restrict b, T* __restrict next_m) const {
        const int64_t at = i * K;
        const T *theta = round.theta + at, *sum = round.theta_sum + at, *lam = round.lam + at,
                *m = round.m + at, *z = round.z + at;
        const T deg = round.deg[i / round.kernels], ky = round.ky[i], pull = round.pull;
        for (int64_t k = 0; k < K; ++k) {
            next_m[k] = m[k] + ky * z[k];
            b[k] = pull * (deg * theta[k] + sum[k]) + next_m[k] - lam[k];
        }
    }

    int64_t K, Kp;
    std::vector<Inverse<T>> matrices;
    Buffer<T> scratches;  // (threads, 9 Kp)
    LazyThreadPool pool;
};

extern template class InverseArray<double>;
extern template class InverseArray<float>;

}  // namespace domkl::DOMKL_ISA
