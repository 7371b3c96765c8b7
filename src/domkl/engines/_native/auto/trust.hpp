// Trust: the last samples of each row, by which it judges its neighbours' parameters.
#pragma once
#include <cmath>

#include "fields.hpp"
#include "numbers.hpp"

namespace domkl::DOMKL_ISA {

template <class T> class Trust {
  public:
    Trust(Fields& of, const Sizes& n)
        : m(n.m), K(n.K), window(int64_t(of.number("trust.window"))), most(of.number("trust.most")),
          clear(of.number("trust.clear")), few(int64_t(of.number("trust.few"))) {
        of.get("trust.z", n.J * window * K, z_);
        of.get("trust.y", n.J * window * m, y_);
        of.get("trust.alone", n.J * window, alone);
        of.get("trust.age", n.J, age);
    }

    // Notes a sample: features (K,), targets (m,) and squared errors of what the alone function said when it
    // was new, every `step` numbers one; of those that are not `missing` (m,).
    void note(int64_t j, const T* z, const double* y, const bool* missing, const double* squares,
              int64_t step) const {
        const int64_t at = j * window + age[j] % window;
        double missed = 0, known = 0;
        for (int64_t i = 0; i < m; ++i) {
            y_[at * m + i] = missing[i] ? NAN : y[i];
            if (!missing[i]) missed += squares[i * step], ++known;
        }
        std::copy_n(z, K, z_ + at * K);
        alone[at] = known > 0 ? missed / known : -1;
        ++age[j];
    }

    // Numbers of scratch that `judge` needs for a neighbour.
    int64_t scratch() const { return window; }

    // Whether a row uses what n neighbours each sent, `theta` (n,) of (m, K) each; `able`: those whose
    // parameters mean the same here. With l the squared errors of a neighbour on the last samples and s those
    // of the standard, the better of the alone function and the neighbour a quarter down their ranking, one
    // is refused if
    //
    //     mean(l - most s) > clear repeats standard errors of most s
    //
    // `repeats` as in `Echo`.
    // Scratch: `missed` (n, window) and `means` (n,).
    void judge(int64_t j, int64_t n, const T* const* theta, const bool* able, double repeats, double* missed,
               double* means, bool* used) const {
        const double* mine = alone + j * window;
        int64_t count = 0, others = 0;
        double total = 0;
        for (int64_t w = 0; w < window; ++w)
            if (mine[w] >= 0) ++count, total += mine[w];
        const double seen = double(std::max<int64_t>(count, 1));
        for (int64_t i = 0; i < n; ++i) {
            others += able[i];
            means[i] = errors(j, theta[i], mine, missed + i * window) / seen;
        }
        if (others == 0) return void(std::fill_n(used, n, false));
        const int64_t best = ranked(n, means, able, (others - 1) / 4);
        const double* standard = means[best] < total / seen ? missed + best * window : mine;
        double middle = 0, variance = 0;
        for (int64_t w = 0; w < window; ++w) middle += mine[w] >= 0 ? standard[w] / seen : 0;
        for (int64_t w = 0; w < window; ++w)
            variance += mine[w] >= 0 ? (standard[w] - middle) * (standard[w] - middle) / seen : 0;
        const double limit = clear * repeats * (most * std::sqrt(variance / seen)) + 1e-6;
        for (int64_t i = 0; i < n; ++i) {
            double excess = 0;
            for (int64_t w = 0; w < window; ++w)
                excess += mine[w] >= 0 ? (missed[i * window + w] - most * standard[w]) / seen : 0;
            const bool refused = excess > limit && count >= few;
            used[i] = able[i] && !refused && std::isfinite(excess);
        }
    }

  private:
    // Squared errors (window,) of parameters (m, K) on the last samples, and their sum.
    double errors(int64_t j, const T* theta, const double* mine, double* missed) const {
        double total = 0;
        for (int64_t w = 0; w < window; ++w) {
            missed[w] = 0;
            if (!(mine[w] >= 0)) continue;
            const int64_t at = j * window + w;
            double known = 0;
            for (int64_t i = 0; i < m; ++i) {
                if (std::isnan(y_[at * m + i])) continue;
                const double error = double(dot_loose(z_ + at * K, theta + i * K, K)) - y_[at * m + i];
                missed[w] += error * error, ++known;
            }
            total += missed[w] /= known;
        }
        return total;
    }
    // The one of those who are able with so many better ones; of equal ones the first is the better.
    static int64_t ranked(int64_t n, const double* means, const bool* able, int64_t rank) {
        for (int64_t i = 0; i < n; ++i) {
            int64_t better = 0;
            for (int64_t o = 0; o < n; ++o)
                better += able[o] && (means[o] < means[i] || (means[o] == means[i] && o < i));
            if (able[i] && better == rank) return i;
        }
        return 0;
    }

    int64_t m, K, window;
    double most, clear;
    int64_t few;
    T* z_;
    double *y_, *alone;
    int64_t* age;
};

}  // namespace domkl::DOMKL_ISA
