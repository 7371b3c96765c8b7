// Echo: errors that repeat are predictable.
//
//     e_t ~ g . [e_{t-1}, mean of e],   g = (sum l l' + doubt E I)^-1 sum l e,   E = sum e^2
#pragma once
#include <string>

#include "fields.hpp"
#include "numbers.hpp"

namespace domkl::DOMKL_ISA {

class Echo {
  public:
    // `of` whom: "mixture" or "apart".
    Echo(Fields& fields, const Sizes& n, const std::string& of)
        : m(n.m), keep(fields.number((of + ".echo.keep").c_str())),
          doubt(fields.number((of + ".echo.doubt").c_str())),
          most(fields.number((of + ".echo.most").c_str())), few(fields.number((of + ".echo.few").c_str())) {
        const int64_t all = n.J * m;
        fields.get((of + ".echo.last").c_str(), 2 * all, last);
        fields.get((of + ".echo.S").c_str(), 4 * all, S);
        fields.get((of + ".echo.s").c_str(), 2 * all, s);
        fields.get((of + ".echo.size").c_str(), all, size);
        fields.get((of + ".echo.pairs").c_str(), all, pairs);
        fields.get((of + ".echo.gain").c_str(), 2 * all, gain);
        fields.get((of + ".echo.r").c_str(), n.J, r);
        fields.get((of + ".echo.age").c_str(), n.J, age);
    }

    // The error that is to be expected of a target.
    double predict(int64_t j, int64_t i) const {
        const int64_t at = 2 * (j * m + i);
        return gain[at] * last[at] + gain[at + 1] * last[at + 1];
    }
    // The last errors of a target (2,), which that rests on.
    const double* now(int64_t j, int64_t i) const { return last + 2 * (j * m + i); }

    // Notes an error of a target; `before` (2,): what `last` was when it was predicted.
    void learn(int64_t j, int64_t i, double error, const double* before) const {
        const int64_t at = j * m + i;
        double *l = last + 2 * at, *M = S + 4 * at, *v = s + 2 * at, *g = gain + 2 * at;
        error = clipped(error, -2.0, 2.0);
        for (int a = 0; a < 2; ++a)
            for (int b = 0; b < 2; ++b) M[2 * a + b] = keep * M[2 * a + b] + before[a] * before[b];
        for (int a = 0; a < 2; ++a) v[a] = keep * v[a] + before[a] * error;
        size[at] = keep * size[at] + error * error;
        pairs[at] = keep * pairs[at] + error * l[0];
        const double ridge = doubt * size[at] + 1e-12;
        const double a = M[0] + ridge, b = M[1], d = M[3] + ridge, by = a * d - b * b;
        g[0] = (d * v[0] - b * v[1]) / by, g[1] = (a * v[1] - b * v[0]) / by;
        l[1] += (error - l[1]) / few;
        l[0] = error;
    }
    // The correlation of one error of a target with the next, with this one.
    double correlation(int64_t j, int64_t i, double error) const {
        const int64_t at = j * m + i;
        error = clipped(error, -2.0, 2.0);
        return (keep * pairs[at] + error * last[2 * at]) / std::max(keep * size[at] + error * error, 1e-12);
    }
    // Ends a sample, with the sum of that over all targets.
    void count(int64_t j, double correlations) const {
        r[j] = clipped(correlations / double(m), 0.0, most);
        ++age[j];
    }

    // How much a sample counts.
    double weight(int64_t j) const {
        const double known = age[j] > 24 ? r[j] : 0;
        return (1 - known) / (1 + known);
    }
    // How many errors tell as much as an independent one.
    double repeats(int64_t j) const { return (1 + r[j] * r[j]) / (1 - r[j] * r[j]); }

  private:
    int64_t m;
    double keep, doubt, most, few;
    double *last, *S, *s, *size, *pairs, *gain, *r;
    int64_t* age;
};

}  // namespace domkl::DOMKL_ISA
