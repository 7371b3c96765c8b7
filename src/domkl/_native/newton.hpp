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

// One learner and kernel. z, b and theta' of the inverse's padded length Kp; b is overwritten, scratch is (3 Kp).
template <class T>
void newton(Inverse<T>& inverse, const Parabola& top, double y, const T* z, T* m, T* b, T* scratch, T* theta, int64_t Kp) {
    constexpr int W = WIDTH<T>;
    T* Pz = scratch;
    const Vec<T> ky = all(T(top.k * y));
    for (int64_t k = 0; k < Kp; k += W) {
        const Vec<T> mk = load(m + k) + ky * load(z + k);
        store(m + k, mk);
        store(b + k, load(b + k) + mk);
    }
    inverse.times(z, b, Pz, theta, scratch + Kp);
    T* u = inverse.next();
    const Vec<T> root = all(T(std::sqrt(top.h / (1 + top.h * double(dot(z, Pz, Kp))))));
    for (int64_t k = 0; k < Kp; k += W) store(u + k, root * load(Pz + k));
    const Vec<T> ub = all(dot(u, b, Kp));
    for (int64_t k = 0; k < Kp; k += W) store(theta + k, load(theta + k) - ub * load(u + k));
    inverse.lower();
}

}  // namespace DOMKL_ISA
}  // namespace domkl
