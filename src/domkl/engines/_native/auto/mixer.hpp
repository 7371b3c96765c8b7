// Mixer: fixed-share Hedge over the experts, one for each target, and `Mixture`, which has the echo besides.
//
//     log w_i <- log w_i - min((e_i - min e) / (heat E), most),   w <- (1 - share) w + share / n
#pragma once
#include <cmath>
#include <string>

#include "echo.hpp"
#include "scale.hpp"

namespace domkl::DOMKL_ISA {

class Mixer {
  public:
    static constexpr int MOST = 8;  // experts

    Mixer(Fields& fields, const Sizes& n, const std::string& of, int experts)
        : m(n.m), n(experts), heat(fields.number((of + ".mixer.heat").c_str())),
          most(fields.number((of + ".mixer.most").c_str())),
          share(fields.number((of + ".mixer.share").c_str())),
          fade(int64_t(fields.number((of + ".mixer.fade").c_str()))) {
        fields.get((of + ".mixer.log").c_str(), n.J * m * experts, log);
        fields.get((of + ".mixer.errors").c_str(), n.J * m * experts, errors);
        fields.get((of + ".mixer.age").c_str(), n.J, age);
    }

    // Of each expert, which sum to 1; one whose log is -inf takes no part. (n,)
    void weights(int64_t j, int64_t i, double* w) const {
        const double* from = log + (j * m + i) * n;
        double top = from[0], total = 0;
        for (int e = 1; e < n; ++e) top = std::max(top, from[e]);
        for (int e = 0; e < n; ++e) total += w[e] = std::exp(from[e] - top);
        for (int e = 0; e < n; ++e) w[e] = w[e] > 0 ? (1 - share) * (w[e] / total) + share / n : 0;
    }

    // Notes squared errors of a target (n,), the `age`-th of this row; `repeats` as in `Echo`.
    void learn(int64_t j, int64_t i, const double* missed, double repeats) const {
        double *mean = errors + (j * m + i) * n, *to = log + (j * m + i) * n, w[MOST];
        double best = HUGE_VAL, least = HUGE_VAL;
        for (int e = 0; e < n; ++e) {
            mean[e] += (missed[e] - mean[e]) / double(std::min(age[j], fade));
            if (to[e] > -HUGE_VAL) best = std::min(best, mean[e]), least = std::min(least, missed[e]);
        }
        weights(j, i, w);
        const double unit = heat * repeats * std::max(best, 1e-12);
        for (int e = 0; e < n; ++e) to[e] = std::log(w[e]) - std::min((missed[e] - least) / unit, most);
    }
    void count(int64_t j) const { ++age[j]; }

  private:
    int64_t m;
    int n;
    double heat, most, share;
    int64_t fade;
    double *log, *errors;
    int64_t* age;
};

// What a mixture predicted, in the targets' own units: y, the experts with the echo as the last, the mixture
// of the others, and the last errors, which the echo rests on.
struct Mixed {
    double *y, *experts, *before_echo, *last;  // (J, m), (J, m, E), (J, m), (J, m, 2)
};

// Experts weighed by `Mixer`, and the `Echo` of their errors as one expert more.
class Mixture {
  public:
    Mixture(Fields& fields, const Sizes& n, const std::string& of, int experts)
        : mixer(fields, n, of, experts + 1), echo(fields, n, of), m(n.m), n(experts + 1) {}

    // Numbers in what it predicts of all devices.
    int64_t size(int64_t J) const { return J * m * (n + 4); }
    // The parts of such an array.
    Mixed parts(double* of, int64_t J) const {
        double* experts = of + J * m;
        return {of, experts, experts + J * m * n, experts + J * m * (n + 1)};
    }

    // Mixes a target's experts f (n - 1,) in widths, clipped to [low, high]; f has space for one more.
    void predict(int64_t j, int64_t i, double* f, double low, double high, const Scale& scale,
                 const Mixed& to) const {
        double w[Mixer::MOST], mixed = 0, total = 0, y = 0;
        mixer.weights(j, i, w);
        for (int e = 0; e + 1 < n; ++e) total += w[e];
        for (int e = 0; e + 1 < n; ++e) mixed += w[e] / total * f[e];
        f[n - 1] = clipped(mixed + echo.predict(j, i), low, high);
        for (int e = 0; e < n; ++e) y += w[e] * f[e];
        const int64_t at = j * m + i;
        to.y[at] = scale.unscaled(j, i, y);
        for (int e = 0; e < n; ++e) to.experts[at * n + e] = scale.unscaled(j, i, f[e]);
        to.before_echo[at] = scale.unscaled(j, i, mixed);
        for (int a = 0; a < 2; ++a) to.last[2 * at + a] = echo.now(j, i)[a] * scale.width(j, i);
    }

    // Weighs the experts by what they predicted of targets (m,) in widths; missed (m, n): squared errors.
    // Where a label is `missing` (m,) nothing is noted.
    void learn(int64_t j, const double* y, const bool* missing, const Mixed& past, const Scale& scale,
               double* missed) const {
        double correlations = 0;
        for (int64_t i = 0; i < m; ++i) {
            const int64_t at = j * m + i;
            const double width = scale.width(j, i);
            const double before[2] = {Scale::within(past.last[2 * at] / width),
                                      Scale::within(past.last[2 * at + 1] / width)};
            const double error = y[i] - scale.scaled(j, i, past.before_echo[at]);
            correlations += echo.correlation(j, i, error);
            if (!missing[i]) echo.learn(j, i, error, before);
            for (int e = 0; e < n; ++e) {
                const double away = scale.scaled(j, i, past.experts[at * n + e]) - y[i];
                missed[i * n + e] = away * away;
            }
        }
        echo.count(j, correlations), mixer.count(j);
        for (int64_t i = 0; i < m; ++i)
            if (!missing[i]) mixer.learn(j, i, missed + i * n, echo.repeats(j));
    }

    Mixer mixer;
    Echo echo;

  private:
    int64_t m;
    int n;
};

}  // namespace domkl::DOMKL_ISA
