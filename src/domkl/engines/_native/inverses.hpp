// Several inverses, of which Python asks one product at a time, or which a device uses itself.
#pragma once
#include <atomic>
#include <vector>

#include "crew.hpp"
#include "engine.hpp"
#include "inverse.hpp"

namespace domkl {
namespace DOMKL_ISA {

template <class T> class Many final : public Inverses<T> {
  public:
    DOMKL_SELDOM Many(int64_t n, int64_t K) : K(K), Kp(Inverse<T>::padded(K)) {
        for (int64_t i = 0; i < n; ++i) all.emplace_back(K);
    }

    void diagonal(const T* x) override {
        for (auto& one : all) one.diagonal(*x++);
    }

    void times(const T* x, const T* b, T* Px, T* Pb, int threads) override {
        share(threads, [&](int64_t me, int64_t i) {
            T* room = room_of(me);
            std::copy_n(b + i * K, K, room + Kp);
            multiply(i, x, room);
            std::copy_n(room + 2 * Kp, K, Px + i * K);
            std::copy_n(room + 3 * Kp, K, Pb + i * K);
        });
    }

    bool learn(const Round<T>& round, int threads) override {
        std::atomic<bool> finite{true};
        share(threads, [&](int64_t me, int64_t i) {
            if (step(round, i, room_of(me)) != 0) finite = false;
        });
        for (auto& one : all)
            if (finite) one.lower();
        return finite;
    }

    void lower(const T* u) override {
        for (auto& one : all) one.add(u), u += K;
    }

    void dense(T* out) override {
        for (auto& one : all) one.dense(out), out += K * K;
    }
    void replace(const T* from) override {
        for (auto& one : all) one.replace(from), from += K * K;
    }

    void keep(T* half, T* terms) override {
        for (auto& one : all) one.keep(half, terms), half += K * (K + 1) / 2, terms += waiting() * K;
    }
    void resume(const T* half, const T* terms, int64_t used) override {
        for (auto& one : all) one.resume(half, terms, used), half += K * (K + 1) / 2, terms += used * K;
    }

    Inverse<T>& operator[](int64_t i) { return all[i]; }

    int waiting() const override { return Inverse<T>::waiting(K); }
    int used() const override { return all.empty() ? 0 : all[0].used(); }

  private:
    // work(me, i) for every i; me has a room of its own.
    void share(int threads, const Crew::Work& work) {
        const int64_t n = int64_t(all.size()), most = std::min<int64_t>(threads, n);
        if (int64_t(rooms.size()) < most * 6 * Kp) rooms = Buffer<T>(most * 6 * Kp);
        if (most > 1) return crew.of(most).share(n, work);
        for (int64_t i = 0; i < n; ++i) work(0, i);
    }
    T* room_of(int64_t me) { return rooms.data() + me * 6 * Kp; }

    // theta' and m' of the i-th. Not 0 where what `learn` asks for is not finite.
    T step(const Round<T>& round, int64_t i, T* room) {
        T *b = room + Kp, *theta = room + 3 * Kp;
        prepare(round, i, b, round.next_m + i * K);
        multiply(i, round.z, room);
        const T zero = all[i].solve(double(round.h[i]), room, b, room + 2 * Kp, theta);
        std::copy_n(theta, K, round.next + i * K);
        return zero + round.L[i] * 0;
    }

    // The right-hand side b of the i-th, and its m'.
    void prepare(const Round<T>& round, int64_t i, T* __restrict b, T* __restrict next_m) const {
        const int64_t at = i * K;
        const T *theta = round.theta + at, *sum = round.theta_sum + at, *lam = round.lam + at,
                *m = round.m + at, *z = round.z + at;
        const T deg = round.deg[i / round.each], ky = round.ky[i], pull = round.pull;
        for (int64_t k = 0; k < K; ++k) {
            next_m[k] = m[k] + ky * z[k];
            b[k] = pull * (deg * theta[k] + sum[k]) + next_m[k] - lam[k];
        }
    }

    // x, b, P x and P b of the i-th one after the other, filled up; b lies there already.
    void multiply(int64_t i, const T* x, T* room) {
        std::copy_n(x + i * K, K, room);
        all[i].times(room, room + Kp, room + 2 * Kp, room + 3 * Kp, room + 4 * Kp);
    }

    int64_t K, Kp;
    std::vector<Inverse<T>> all;
    Buffer<T> rooms;  // (threads, 6 Kp)
    Crewed crew;
};

extern template class Many<double>;
extern template class Many<float>;

}  // namespace DOMKL_ISA
}  // namespace domkl
