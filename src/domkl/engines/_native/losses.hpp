// Losses of a score s, and the one-dimensional problem of the local step: docs/math.md derives it.
#pragma once
#include <algorithm>
#include <cmath>

#include "engine.hpp"

namespace domkl::DOMKL_ISA {

inline double sigmoid(double x) { return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); }
inline double logistic_slope(double s, double y) { return -y * sigmoid(-y * s); }

// The derivative of the loss.
inline double loss_slope(const Settings& settings, double s, double y) {
    if (settings.loss == Loss::logistic) return logistic_slope(s, y);
    const double g = 2 * (s - y);
    return settings.loss == Loss::huber ? std::clamp(g, -2 * settings.delta, 2 * settings.delta) : g;
}

// The loss.
inline double loss_value(const Settings& settings, double s, double y) {
    if (settings.loss == Loss::logistic) {
        const double m = -y * s;
        return m > 0 ? m + std::log1p(std::exp(-m)) : std::log1p(std::exp(m));
    }
    const double r = std::fabs(s - y);
    return settings.loss == Loss::huber && r > settings.delta ? settings.delta * (2 * r - settings.delta)
                                                              : r * r;
}

// Newton's method on c s + g'(s) = u inside the bracket that |g'| <= 1 gives.
inline double logistic_prox_slope(double u, double c, double y) {
    double low = (u - 1) / c, high = (u + 1) / c, s = u / c;
    for (int k = 0; k < 100; ++k) {
        const double g = logistic_slope(s, y), h = c * s + g - u;
        if (h == 0) break;
        (h < 0 ? low : high) = s;
        double next = s - h / (c + std::fabs(g) * (1 - std::fabs(g)));
        if (!(next > low && next < high)) next = (low + high) / 2;
        if (std::fabs(next - s) <= 1e-15 * std::fabs(s)) break;
        s = next;
    }
    return logistic_slope(s, y);
}

// a = g'(s) at the s that solves c s + g'(s) = u.
inline double prox_slope(const Settings& settings, double u, double c, double y) {
    if (settings.loss == Loss::logistic) return logistic_prox_slope(u, c, y);
    const double a = 2 * (u - c * y) / (c + 2);
    return settings.loss == Loss::huber ? std::clamp(a, -2 * settings.delta, 2 * settings.delta) : a;
}

}  // namespace domkl::DOMKL_ISA
