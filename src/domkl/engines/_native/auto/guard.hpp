// Guard: a label whose error e is beyond reach R counts as one with the error e (R/|e|)^2.
#pragma once
#include <cmath>

#include "fields.hpp"
#include "numbers.hpp"

namespace domkl::DOMKL_ISA {

class Guard {
  public:
    Guard(Fields& of, const Sizes& n)
        : m(n.m), window(int64_t(of.number("guard.window"))), last(int64_t(of.number("guard.last"))),
          few(int64_t(of.number("guard.few"))), reach(of.number("guard.reach")),
          near(of.number("guard.near")), quantile(of.number("guard.quantile")) {
        of.get("guard.errors", n.J * window * m, errors);
        of.get("guard.large", n.J * last * m, large);
        of.get("guard.least", n.J * m, least);
        of.get("guard.most", n.J * m, most);
        of.get("guard.age", n.J * m, age);
    }

    int64_t scratch() const { return window; }

    // Makes labels y (m,) what is to be learnt of them; those that are `absent` tell nothing, and `sorted`
    // (window,) is scratch.
    void bound(int64_t j, double* y, const double* y_hat, const bool* absent, double* sorted) const {
        for (int64_t i = 0; i < m; ++i)
            if (!absent[i]) y[i] = bounded(j, i, y[i], y_hat[i], sorted);
    }

    // Whether most of the last labels were outside, so that the row gives up its past.
    bool gives_up(int64_t j) const {
        for (int64_t i = 0; i < m; ++i)
            if (2 * (outliers(j, i) - 1) > last) return true;
        return false;
    }

  private:
    double bounded(int64_t j, int64_t i, double y, double y_hat, double* sorted) const {
        int64_t& n = age[j * m + i];
        const double error = std::min(std::fabs(y - y_hat), 1e150);
        bool& outside = large[(j * last + n % last) * m + i];
        outside = false;
        if (error > range(j, i) && n >= few) {
            const double R = std::max(range(j, i), reach * deviation(j, i, sorted));
            outside = error > R;
            const double part = R / std::max(error, R);
            if (outside && !(2 * outliers(j, i) > last)) y = y_hat + (y - y_hat) * (part * part);
        }
        errors[(j * window + n % window) * m + i] = error;
        least[j * m + i] = std::min(least[j * m + i], y), most[j * m + i] = std::max(most[j * m + i], y);
        ++n;
        return y;
    }
    double range(int64_t j, int64_t i) const {
        return near * std::max(most[j * m + i] - least[j * m + i], 0.0) + 1e-12;
    }
    int64_t outliers(int64_t j, int64_t i) const {
        int64_t count = 0;
        for (int64_t k = 0; k < last; ++k) count += large[(j * last + k) * m + i];
        return count;
    }
    // The robust deviation of the last errors of a target.
    double deviation(int64_t j, int64_t i, double* sorted) const {
        const int64_t n = std::min(age[j * m + i], window);
        for (int64_t k = 0; k < n; ++k) {  // a few times in a stream: no need to be quick
            const double error = errors[(j * window + k) * m + i];
            int64_t at = k;
            for (; at > 0 && sorted[at - 1] > error; --at) sorted[at] = sorted[at - 1];
            sorted[at] = error;
        }
        return sorted[int64_t(std::ceil(quantile * double(n - 1)))] / 1.2816;
    }

    int64_t m, window, last, few;
    double reach, near, quantile;
    double *errors, *least, *most;
    bool* large;
    int64_t* age;
};

}  // namespace domkl::DOMKL_ISA
