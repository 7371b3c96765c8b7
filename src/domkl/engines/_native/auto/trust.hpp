// Trust: the last samples of each row, by which it judges its neighbours' parameters.
#pragma once
#include "fields.hpp"
#include "numbers.hpp"

namespace domkl::DOMKL_ISA {

template <class T> class Trust {
  public:
    Trust(Fields& of, const Sizes& n) : m(n.m), K(n.K), window(int64_t(of.number("trust.window"))) {
        of.get("trust.z", n.J * window * K, z_);
        of.get("trust.y", n.J * window * m, y_);
        of.get("trust.own", n.J * window, own);
        of.get("trust.age", n.J, age);
    }

    // Notes a sample: features (K,), targets (m,) and what the own function says of them.
    void note(int64_t j, const T* z, const double* y, const T* alone) const {
        const int64_t at = j * window + age[j] % window;
        double missed = 0;
        for (int64_t i = 0; i < m; ++i) missed += (double(alone[i]) - y[i]) * (double(alone[i]) - y[i]);
        std::copy_n(z, K, z_ + at * K);
        std::copy_n(y, m, y_ + at * m);
        own[at] = missed / double(m);
        ++age[j];
    }

  private:
    int64_t m, K, window;
    T* z_;
    double *y_, *own;
    int64_t* age;
};

}  // namespace domkl::DOMKL_ISA
