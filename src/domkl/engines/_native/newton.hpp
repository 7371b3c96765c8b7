// The second-order local step of one learner and kernel: see newton.py, which says why.
//
//   m' = m + k y z,  b' = b + m',  theta' = P' b' with P' = P - u u^T,  u = P z sqrt(h / (1 + h z.P z))
#pragma once
#include <cmath>

#include "inverse.hpp"
#include "losses.hpp"
#include "step.hpp"

namespace domkl {
namespace DOMKL_ISA {

// h and k of the parabola h/2 v^2 - k y v that touches the loss at s and lies above it everywhere.
struct Parabola {
    double h, k;

    Parabola(const Setting& set, double s, double y) : h(2), k(2) {
        if (set.loss == Loss::logistic) {
            h = std::fabs(s) < 1e-4 ? 0.25 : std::tanh(s / 2) / (2 * s);
            k = 0.5;
        } else if (set.loss == Loss::huber) {
            h = k = 2 * (set.delta / std::max(std::fabs(s - y), set.delta));
        }
    }
};

// What M starts with, times the identity.
inline double ridge(const Setting& set, double deg) { return set.eta + set.rho * deg + 2 * set.reg; }

// The numbers of a row of m, filled up to whole vectors; those of theta are filled up otherwise.
template <class T> int64_t width(const Dictionary<T>& V) { return Inverse<T>::padded(2 * V.D); }

// One learner and kernel: m' and theta' from the features z and `sweep`'s v. u is left for the inverse to be
// lowered by. m (width) may be m'; scratch is (6 width). Compiled once, so that simulator and device round
// alike.
template <class T>
DOMKL_ONCE void newton(Inverse<T>& inverse, const Dictionary<T>& V, const Parabola& top, double y,
                       const T* features, const T* v, const T* m, T* next_m, T* scratch, T* next) {
    constexpr int W = WIDTH<T>;
    const int64_t Kp = width(V);
    T *z = scratch, *b = z + Kp, *theta = b + Kp, *Pz = theta + Kp;
    V.unpad_roughly(features, z);
    V.unpad_roughly(v, b);
    std::fill(b + 2 * V.D, b + Kp, T(0));  // a sample that overflowed may have left there what is no number
    const Vec<T> ky = all(T(top.k * y));
    for (int64_t k = 0; k < Kp; k += W) {
        const Vec<T> mk = load(m + k) + ky * load(z + k);
        store(next_m + k, mk);
        store(b + k, load(b + k) + mk);
    }
    inverse.times(z, b, Pz, theta, Pz + Kp);
    inverse.solve(top.h, z, b, Pz, theta);
    V.pad_roughly(theta, next);
}

}  // namespace DOMKL_ISA
}  // namespace domkl
