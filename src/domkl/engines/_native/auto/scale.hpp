// Scale: inputs and targets as all devices of a network measure them. Taking a scale is Python's.
#pragma once
#include <cmath>

#include "fields.hpp"
#include "numbers.hpp"

namespace domkl::DOMKL_ISA {

// Inputs as a scale measures them, 0 where they are missing. (d,) each
struct Inputs {
    double *ranges, *deviations, *ranks;
};

class Scale {
  public:
    Scale(Fields& of, const Sizes& n)
        : d(n.d), m(n.m), last(int64_t(of.number("scale.last"))), spread(int64_t(of.number("scale.spread"))) {
        of.get("scale.usable", n.J * d, usable);
        of.get("scale.mean", n.J * d, mean);
        of.get("scale.deviation", n.J * d, deviation);
        of.get("scale.span", n.J * d, span);
        of.get("scale.quantiles", n.J * QUANTILES * d, quantiles);
        of.get("scale.center", n.J * m, center_);
        of.get("scale.width", n.J * m, width_);
        of.get("scale.bottom", n.J * m, bottom);
        of.get("scale.top", n.J * m, top);
        of.get("scale.least", n.J * m, least);
        of.get("scale.most", n.J * m, most);
        of.get("scale.number", n.J, number);
        of.get("scale.changed", n.J, changed);
        of.get("scale.linked", n.J, linked);
    }

    bool is_taken(int64_t j) const { return number[j] > 0; }
    // The number of the row's scale; equal numbers are equal scales.
    double name(int64_t j) const { return number[j]; }

    // Inputs (d,) of a row, measured: from the mean in ranges and in deviations, and as ranks, which are the
    // mean over the quantiles' intervals of the part of each that lies below.
    void inputs(int64_t j, const double* x, const Inputs& to) const {
        const bool* good = usable + j * d;
        const double *at = mean + j * d, *s = deviation + j * d, *range = span + j * d;
        const double* q = quantiles + j * QUANTILES * d;
        for (int64_t i = 0; i < d; ++i) {
            const double away = (good[i] && x[i] == x[i] ? x[i] : at[i]) - at[i];
            to.ranges[i] = within(away / range[i]), to.deviations[i] = within(away / s[i]);
            to.ranks[i] = 0;
        }
        for (int64_t k = 0; k + 1 < QUANTILES; ++k, q += d) {
            for (int64_t i = 0; i < d; ++i) {
                const double inner = (good[i] && x[i] == x[i] ? x[i] - at[i] + at[i] : at[i]) - q[i];
                const double wide = q[d + i] - q[i];
                const double side = inner > 0 ? 1 : inner < 0 ? 0 : 0.5;
                to.ranks[i] += wide > 0 ? clipped(inner / wide, 0.0, 1.0) : side;
            }
        }
        for (int64_t i = 0; i < d; ++i)
            to.ranks[i] = good[i] && x[i] == x[i] ? to.ranks[i] / (QUANTILES - 1) - 0.5 : 0;
    }

    // A value in widths, which does not count as farther away than this.
    static double within(double value) { return clipped(value, -FARTHEST, FARTHEST); }
    double scaled(int64_t j, int64_t target, double y) const {
        return within((y - center_[j * m + target]) / width_[j * m + target]);
    }
    double unscaled(int64_t j, int64_t target, double f) const {
        return center_[j * m + target] + width_[j * m + target] * f;
    }
    double center(int64_t j, int64_t target) const { return center_[j * m + target]; }
    double width(int64_t j, int64_t target) const { return width_[j * m + target]; }

    // The range of the targets of the scale and of the own ones, in widths, which predictions keep to.
    void bounds(int64_t j, int64_t target, double& low, double& high) const {
        const int64_t at = j * m + target;
        low = scaled(j, target, std::min(least[at], bottom[at]));
        high = scaled(j, target, std::max(most[at], top[at]));
    }

    // Widens the range of an own target.
    void note_target(int64_t j, int64_t i, double y) const {
        least[j * m + i] = std::min(least[j * m + i], y);
        most[j * m + i] = std::max(most[j * m + i], y);
    }
    // Whether there was a label of a target.
    bool has_target(int64_t j, int64_t i) const { return least[j * m + i] <= most[j * m + i]; }

    // Whether a row that has learnt so many samples may have a summary to publish.
    bool may_publish(int64_t count) const { return count > 0 && count <= last && (count & (count - 1)) == 0; }

    // Whether it may be time for a row to take the scale of what it knows, with so many useful samples.
    bool may_take(int64_t j, int64_t count) const {
        int64_t power = 1;
        while (2 * power <= count) power *= 2;
        const int64_t lag = linked[j] ? std::min(power / 2, spread) : 0;
        return changed[j] || (count == power + lag && count <= last + spread);
    }

  private:
    static constexpr int64_t QUANTILES = 17;
    static constexpr double FARTHEST = 1e9;
    int64_t d, m, last, spread;
    bool *usable, *changed, *linked;
    double *mean, *deviation, *span, *quantiles, *center_, *width_, *bottom, *top, *least, *most, *number;
};

}  // namespace domkl::DOMKL_ISA
