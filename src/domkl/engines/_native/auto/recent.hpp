// Recent: a small model that forgets, and when it is time to restart it or to forget everything else.
//
//     S <- (1 - 1/fade) S + 2 b b',   s <- (1 - 1/fade) s + 2 y b,   beta = (S + 2 noise / v)^-1 s
#pragma once
#include <cmath>

#include "../buffer.hpp"
#include "scale.hpp"

namespace domkl::DOMKL_ISA {

class Recent {
  public:
    Recent(Fields& of, const Sizes& n)
        : d(n.d), m(n.m), k(int64_t(of.number("recent.k"))), groups(int64_t(of.number("recent.groups"))),
          degree(int64_t(of.number("recent.degree"))), single(int64_t(of.number("recent.single"))),
          window(int64_t(of.number("recent.window"))), level(int64_t(of.number("recent.level"))),
          keep(1 - 1 / of.number("recent.fade")), weak(of.number("recent.weak")),
          prior(of.number("recent.prior")), slack(of.number("recent.slack")), clip(of.number("recent.clip")),
          alarm(of.number("recent.alarm")), better(of.number("recent.better")),
          rise(of.number("recent.rise")) {
        of.get("recent.group", k, group);
        of.get("recent.S", n.J * k * k, S);
        of.get("recent.s", n.J * m * k, s);
        of.get("recent.beta", n.J * m * k, beta);
        of.get("recent.variance", n.J * groups, variance);
        of.get("recent.noise", n.J, noise);
        of.get("recent.age", n.J, age);
        of.get("recent.level_age", n.J, level_age);
        of.get("recent.error_level", n.J, error_level);
        of.get("recent.excess", n.J, excess);
        of.get("recent.since", n.J, since);
        of.get("recent.errors", n.J * 3, errors);
        of.get("recent.errors_age", n.J, errors_age);
        of.get("recent.usual", n.J, usual);
        of.get("recent.lasting", n.J, lasting);
    }

    // Numbers of scratch that `terms` and `learn` need.
    int64_t scratch() const { return std::max(4 * d, 2 * k * k + 4 * k + 2 * groups); }
    int64_t size() const { return k; }

    // Polynomials b (k,) of inputs in deviations (d,), squeezed into [-1, 1].
    void terms(const double* deviations, double* scratch, double* b) const {
        double* legendre[4] = {scratch, scratch + d, scratch + 2 * d, scratch + 3 * d};
        for (int64_t i = 0; i < d; ++i) {
            const double half = deviations[i] / 2, v = half / std::sqrt(1 + half * half), w = v * v;
            legendre[0][i] = v, legendre[1][i] = 1.5 * w - 0.5;
            legendre[2][i] = (2.5 * w - 1.5) * v, legendre[3][i] = (4.375 * w - 3.75) * w + 0.375;
        }
        *b++ = 1;
        for (int64_t g = 0; g < degree; ++g) b = std::copy_n(legendre[g], single, b);
    }

    // What it says of terms.
    double predict(int64_t j, int64_t i, const double* b) const {
        return dot_loose(b, beta + (j * m + i) * k, k);
    }

    // Takes a sample: terms b (k,), targets (m,) in widths, and how much it counts; `scratch` as above.
    void learn(int64_t j, const double* b, const double* y, double weight, double* scratch) const {
        double missed = 0;
        for (int64_t i = 0; i < m; ++i) {
            const double error = predict(j, i, b) - y[i];
            missed += error * error;
        }
        ++age[j];
        noise[j] += (missed / double(m) - noise[j]) / double(std::min(age[j], window));
        double* row = S + j * k * k;
        for (int64_t p = 0; p < k; ++p, row += k) fade(row, 2 * weight * b[p], b);
        for (int64_t i = 0; i < m; ++i) fade(s + (j * m + i) * k, 2 * weight * y[i], b);
        solve(j, scratch);
    }

    // Notes squared errors in widths: of the prediction, and of common, alone and recent (3,).
    void watch(int64_t j, double total, const double* parts) const {
        ++level_age[j];
        const double odd = std::min(total / std::max(error_level[j], 1e-12), clip) - slack;
        excess[j] = std::max(excess[j] + (level_age[j] > window ? odd : 0), 0.0);
        since[j] = excess[j] > 0 ? since[j] + 1 : 0;
        error_level[j] += (total - error_level[j]) / double(std::min(level_age[j], level));
        ++errors_age[j];
        for (int p = 0; p < 3; ++p)
            errors[3 * j + p] += (parts[p] - errors[3 * j + p]) / double(std::min(errors_age[j], window));
        usual[j] += (std::min(parts[0], parts[1]) - usual[j]) / double(std::min(age[j] + 1, level));
    }

    // Whether a row is to restart this model, or to forget all but its last samples.
    bool is_due(int64_t j, double repeats) const {
        return excess[j] > alarm * repeats || double(lasting_now(j)) >= double(window) * repeats;
    }
    // Ends a sample of a row of which nothing is due.
    void count(int64_t j) const { lasting[j] = lasting_now(j); }

  private:
    int64_t lasting_now(int64_t j) const {
        const double longer = std::min(errors[3 * j], errors[3 * j + 1]), shorter = errors[3 * j + 2];
        const bool is_better =
            shorter < better * longer && longer > rise * usual[j] && errors_age[j] >= window;
        return is_better ? lasting[j] + 1 : 0;
    }

    // x <- keep x + by b
    void fade(double* __restrict x, double by, const double* b) const {
        for (int64_t q = 0; q < k; ++q) x[q] = keep * x[q] + by * b[q];
    }

    // Coefficients from the sums, and from them the variances of each group for the next time. With
    // A = R'R, R upper triangular, and X = R^-1: A^-1 = X X'.
    void solve(int64_t j, double* scratch) const {
        double *R = scratch, *X = R + k * k, *ridge = X + k * k, *t = ridge + k, *squares = t + k,
               *known = squares + groups;
        std::copy_n(S + j * k * k, k * k, R);
        for (int64_t p = 0; p < k; ++p) {
            ridge[p] = 2 * std::max(noise[j], 1e-9) / variance[j * groups + group[p]];
            R[p * k + p] += ridge[p];
        }
        factor(R);
        invert(R, X);
        std::fill_n(squares, 2 * groups, 0.0);
        for (int64_t i = 0; i < m; ++i) {
            const double* from = s + (j * m + i) * k;
            double* to = beta + (j * m + i) * k;
            std::fill_n(t, k, 0.0);
            for (int64_t p = 0; p < k; ++p) add(from[p], X + p * k + p, k - p, t + p);
            for (int64_t p = 0; p < k; ++p) {
                to[p] = dot_loose(X + p * k + p, t + p, k - p);
                squares[group[p]] += to[p] * to[p] / double(m);
            }
        }
        for (int64_t p = 0; p < k; ++p)
            known[group[p]] += 1 - ridge[p] * dot_loose(X + p * k + p, X + p * k + p, k - p);
        for (int64_t g = 0; g < groups; ++g)
            variance[j * groups + g] = (squares[g] + weak * prior) / (std::max(known[g], 0.0) + weak);
    }

    // Overwrites the upper half of A (k, k) with R, four rows at a time: each later row is read once for
    // them.
    void factor(double* A) const {
        for (int64_t p = 0; p < k; p += 4) {
            const int64_t rows = std::min<int64_t>(4, k - p);
            for (int64_t r = p; r < p + rows; ++r) {
                for (int64_t q = p; q < r; ++q) add(-A[q * k + r], A + q * k + r, k - r, A + r * k + r);
                const double by = 1 / std::sqrt(A[r * k + r]);
                for (int64_t c = r; c < k; ++c) A[r * k + c] *= by;
            }
            for (int64_t r = p + rows; r < k; ++r) subtract(A + p * k + r, rows, k, k - r, A + r * k + r);
        }
    }
    // y -= sum over a few rows x of x[0] x.
    static void subtract(const double* x, int64_t rows, int64_t apart, int64_t n, double* __restrict y) {
        if (rows < 4) {
            for (int64_t r = 0; r < rows; ++r) add(-x[r * apart], x + r * apart, n, y);
            return;
        }
        const double *a = x, *b = a + apart, *c = b + apart, *e = c + apart;
        const double u = a[0], v = b[0], w = c[0], z = e[0];
        for (int64_t q = 0; q < n; ++q) y[q] -= (u * a[q] + v * b[q]) + (w * c[q] + z * e[q]);
    }
    // X = R^-1, upper triangular.
    void invert(const double* R, double* X) const {
        for (int64_t p = k - 1; p >= 0; --p) {
            double* row = X + p * k;
            std::fill_n(row + p, k - p, 0.0);
            for (int64_t q = p + 1; q < k; ++q) add(-R[p * k + q], X + q * k + q, k - q, row + q);
            const double by = 1 / R[p * k + p];
            for (int64_t q = p + 1; q < k; ++q) row[q] *= by;
            row[p] = by;
        }
    }

    int64_t d, m, k, groups, degree, single, window, level;
    double keep, weak, prior, slack, clip, alarm, better, rise;
    int64_t *group, *age, *level_age, *since, *errors_age, *lasting;
    double *S, *s, *beta, *variance, *noise, *error_level, *excess, *errors, *usual;
};

}  // namespace domkl::DOMKL_ISA
