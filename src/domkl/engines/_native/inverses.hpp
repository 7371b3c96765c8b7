// The inverses of several learners or kernels, which a device or the rows of `Auto` use.
#pragma once
#include <vector>

#include "engine.hpp"
#include "inverse.hpp"

namespace domkl::DOMKL_ISA {

// n matrices of one size.
template <class T> class InverseArray final : public Inverses<T> {
  public:
    DOMKL_COLD InverseArray(int64_t n, int64_t K) : K(K) {
        for (int64_t i = 0; i < n; ++i) matrices.emplace_back(K);
    }

    void set_diagonal(const T* x) override {
        for (auto& one : matrices) one.set_diagonal(*x++);
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

  private:
    int64_t K;
    std::vector<Inverse<T>> matrices;
};

extern template class InverseArray<double>;
extern template class InverseArray<float>;

}  // namespace domkl::DOMKL_ISA
