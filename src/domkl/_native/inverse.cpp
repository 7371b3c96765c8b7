// Inverses that Python asks one product at a time.
#include "inverse.hpp"

#include <memory>
#include <vector>

#include "engine.hpp"
#include "together.hpp"

namespace domkl {
namespace DOMKL_ISA {

template class Inverse<double>;
template class Inverse<float>;

template <class T> class Many final : public Inverses<T> {
  public:
    Many(int64_t n, int64_t K) : K(K), Kp(Inverse<T>::padded(K)) {
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
        for (auto& one : all) {
            if (one.full()) one.settle();
            std::copy_n(u, K, one.next());
            one.lower();
            u += K;
        }
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
    void resume(const T* half, const T* terms, int used) override {
        for (auto& one : all) one.resume(half, terms, used), half += K * (K + 1) / 2, terms += waiting() * K;
    }

    int waiting() const override { return Inverse<T>::waiting(K); }
    int used() const override { return all.empty() ? 0 : all[0].used(); }

  private:
    int64_t K, Kp;
    std::vector<Inverse<T>> all;
};

template <class T> std::unique_ptr<Inverses<T>> inverses(int64_t n, int64_t K) { return std::make_unique<Many<T>>(n, K); }
template std::unique_ptr<Inverses<double>> inverses(int64_t, int64_t);
template std::unique_ptr<Inverses<float>> inverses(int64_t, int64_t);

}  // namespace DOMKL_ISA
}  // namespace domkl
