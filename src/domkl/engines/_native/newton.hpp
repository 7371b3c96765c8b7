// The second-order local step of one learner and kernel: docs/math.md derives it.
//
//   m' = m + k y z,  b' = b + m',  theta' = P' b' with P' = P - u u^T,  u = P z sqrt(h / (1 + h z.P z))
#pragma once
#include <algorithm>
#include <cmath>

#include "feature_map.hpp"
#include "inverse.hpp"
#include "losses.hpp"

namespace domkl::DOMKL_ISA {

// h and k of the parabola h/2 v^2 - k y v that touches the loss at s and lies above it everywhere.
struct Parabola {
    double h, k;

    Parabola(const Settings& settings, double s, double y) : h(2), k(2) {
        if (settings.loss == Loss::logistic) {
            h = std::fabs(s) < 1e-4 ? 0.25 : std::tanh(s / 2) / (2 * s);
            k = 0.5;
        } else if (settings.loss == Loss::huber) {
            h = k = 2 * (settings.delta / std::max(std::fabs(s - y), settings.delta));
        }
    }
};

// The diagonal that M starts with.
inline double initial_diagonal(const Settings& settings, double deg) {
    return settings.eta + settings.rho * deg + 2 * settings.reg;
}

// The length of a row of m: 2D numbers, padded at the end, unlike a row of theta.
template <class T> int64_t row_width(const FeatureMap<T>& map) { return Inverse<T>::padded(2 * map.D); }

// m' and theta' of one learner and kernel, from the features and `sweep`'s v. Leaves u in the inverse, for
// its `downdate`. m (row_width) may be m'; scratch is (6 row_width). Not inlined, so that network and device
// round identically.
template <class T>
DOMKL_NOINLINE void newton_step(Inverse<T>& inverse, const FeatureMap<T>& map, const Parabola& top, double y,
                                const T* features, const T* v, const T* m, T* next_m, T* scratch, T* next) {
    constexpr int W = WIDTH<T>;
    const int64_t Kp = row_width(map);
    T *z = scratch, *b = z + Kp, *Pz = b + Kp, *theta = Pz + Kp;
    map.unpad_vectors(features, z);
    map.unpad_vectors(v, b);
    std::fill(b + 2 * map.D, b + Kp, T(0));  // a sample that overflowed may have left NaN there
    const Vec<T> ky = broadcast(T(top.k * y));
    for (int64_t k = 0; k < Kp; k += W) {
        const Vec<T> mk = load(m + k) + ky * load(z + k);
        store(next_m + k, mk);
        store(b + k, load(b + k) + mk);
    }
    inverse.template multiply<2>(z, Pz, theta + Kp);  // of z and b
    inverse.solve(top.h, z, b, Pz, theta);
    map.pad_vectors(theta, next);
}

}  // namespace domkl::DOMKL_ISA
