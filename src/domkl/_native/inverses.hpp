// Several inverses, of which Python asks one product at a time, or which a device uses itself.
#pragma once
#include <vector>

#include "engine.hpp"
#include "inverse.hpp"
#include "together.hpp"

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
        const int64_t n = int64_t(all.size()), most = std::min<int64_t>(threads, n);
        together(most, [&](int64_t me) {
            Buffer<T> room(6 * Kp);
            T *xs = room.data(), *bs = xs + Kp, *to_x = bs + Kp, *to_b = to_x + Kp, *rest = to_b + Kp;
            for (int64_t i = n * me / most; i < n * (me + 1) / most; ++i) {
                std::copy_n(x + i * K, K, xs);
                std::copy_n(b + i * K, K, bs);
                all[i].times(xs, bs, to_x, to_b, rest);
                std::copy_n(to_x, K, Px + i * K);
                std::copy_n(to_b, K, Pb + i * K);
            }
        });
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
    int64_t K, Kp;
    std::vector<Inverse<T>> all;
};

extern template class Many<double>;
extern template class Many<float>;

}  // namespace DOMKL_ISA
}  // namespace domkl
