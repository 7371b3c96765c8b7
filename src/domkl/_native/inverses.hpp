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
        share(threads, [&](int64_t i, T* room) {
            T *to_x = room + 2 * Kp, *to_b = room + 3 * Kp;
            multiply(i, x, b, room);
            std::copy_n(to_x, K, Px + i * K);
            std::copy_n(to_b, K, Pb + i * K);
        });
    }

    bool learn(const T* z, const T* b, const T* h, T* theta, bool good, int threads) override {
        std::atomic<bool> finite{good};
        share(threads, [&](int64_t i, T* room) {
            T* to = room + 3 * Kp;
            multiply(i, z, b, room);
            if (all[i].solve(double(h[i]), room, room + Kp, room + 2 * Kp, to) != 0) finite = false;
            std::copy_n(to, K, theta + i * K);
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
    // work(i, room) for every i; room is (6 Kp).
    template <class Work> void share(int threads, const Work& work) {
        const int64_t n = int64_t(all.size()), most = std::min<int64_t>(threads, n), each = 6 * Kp;
        if (int64_t(rooms.size()) < most * each) rooms = Buffer<T>(most * each);
        if (most > 1) return crew.of(most).share(n, [&](int64_t me, int64_t i) { work(i, rooms.data() + me * each); });
        for (int64_t i = 0; i < n; ++i) work(i, rooms.data());
    }

    // x, b, P x and P b of the i-th one after the other, filled up.
    void multiply(int64_t i, const T* x, const T* b, T* room) {
        std::copy_n(x + i * K, K, room);
        std::copy_n(b + i * K, K, room + Kp);
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
