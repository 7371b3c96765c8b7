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
          rows(up(k, AT_ONCE)), wide(up(rows, W)), keep(1 - 1 / of.number("recent.fade")),
          weak(of.number("recent.weak")), prior(of.number("recent.prior")), slack(of.number("recent.slack")),
          clip(of.number("recent.clip")), alarm(of.number("recent.alarm")),
          better(of.number("recent.better")), rise(of.number("recent.rise")) {
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
    int64_t scratch() const { return std::max(4 * d, (2 * rows + 1) * wide + k + 2 * groups); }
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
    // A = R'R, R upper triangular, and X = R^-1: A^-1 = X X'. Both have `rows` rows of `wide` numbers, of
    // which those beyond k are the identity's.
    void solve(int64_t j, double* scratch) const {
        double *R = scratch, *X = R + rows * wide, *t = X + rows * wide, *ridge = t + wide,
               *squares = ridge + k, *known = squares + groups;
        for (int64_t p = 0; p < rows; ++p) {
            double* row = R + p * wide;
            std::fill(p < k ? std::copy_n(S + (j * k + p) * k, k, row) : row, row + wide, 0.0);
            if (p < k) ridge[p] = 2 * std::max(noise[j], 1e-9) / variance[j * groups + group[p]];
            row[p] += p < k ? ridge[p] : 1;
        }
        factor(R);
        invert(R, X);
        std::fill_n(squares, 2 * groups, 0.0);
        for (int64_t i = 0; i < m; ++i) {
            const double* from = s + (j * m + i) * k;
            double* to = beta + (j * m + i) * k;
            std::fill_n(t, wide, 0.0);
            for (int64_t p = 0; p < k; ++p) add(from[p], upper(X, p), left(p), t + wide - left(p));
            for (int64_t p = 0; p < k; ++p) {
                to[p] = dot_loose(upper(X, p), t + wide - left(p), left(p));
                squares[group[p]] += to[p] * to[p] / double(m);
            }
        }
        for (int64_t p = 0; p < k; ++p)
            known[group[p]] += 1 - ridge[p] * dot_loose(upper(X, p), upper(X, p), left(p));
        for (int64_t g = 0; g < groups; ++g)
            variance[j * groups + g] = (squares[g] + weak * prior) / (std::max(known[g], 0.0) + weak);
    }

    // The numbers of row p from the vector on that holds its diagonal, and how many they are: what is left of
    // the diagonal there is zero in X, and never counts in R.
    double* upper(double* A, int64_t p) const { return A + p * wide + wide - left(p); }
    int64_t left(int64_t p) const { return wide - p / W * W; }

    // Overwrites the upper half of A with R, AT_ONCE rows at a time.
    void factor(double* A) const {
        for (int64_t p = 0; p < rows; p += AT_ONCE) {
            for (int64_t c = p / W * W; c < wide; c += W)
                subtract(A + c, p, A + p, 1, wide, A + p * wide + c);
            for (int64_t r = p; r < p + AT_ONCE; ++r) {
                double* row = upper(A, p) + (r - p) * wide;
                for (int64_t q = p; q < r; ++q)
                    add(-A[q * wide + r], upper(A, p) + (q - p) * wide, left(p), row);
                scale(1 / std::sqrt(A[r * wide + r]), left(p), row);
            }
        }
    }
    // X = R^-1, upper triangular, from the last rows to the first.
    void invert(double* R, double* X) const {
        for (int64_t p = rows - AT_ONCE, next = rows; p >= 0; next = p, p -= AT_ONCE) {
            for (int64_t r = p; r < next; ++r)
                std::fill_n(upper(X, p) + (r - p) * wide, left(p), 0.0), X[r * wide + r] = 1;
            for (int64_t c = p / W * W; c < wide; c += W)  // rows further down begin with zeros
                subtract(X + next * wide + c, std::min(rows, c + W) - next, R + p * wide + next, wide, 1,
                         X + p * wide + c);
            for (int64_t r = next - 1; r >= p; --r) {
                double* row = upper(X, p) + (r - p) * wide;
                for (int64_t q = r + 1; q < next; ++q)
                    add(-R[r * wide + q], upper(X, p) + (q - p) * wide, left(p), row);
                scale(1 / R[r * wide + r], left(p), row);
            }
        }
    }
    // From W columns of AT_ONCE rows `to`: the sum of the next n rows x, an even number, each times `by`, of
    // which the next for `to` is `down` further on and the next for x `on`.
    void subtract(const double* x, int64_t n, const double* by, int64_t down, int64_t on, double* to) const {
        Vec<double> sums[2][AT_ONCE] = {};  // two of each: a sum waits for its last term
        for (int64_t q = 0; q < n; q += 2)
            for (int i = 0; i < 2; ++i, x += wide, by += on)
                for (int r = 0; r < AT_ONCE; ++r) sums[i][r] += load_loose(x) * by[r * down];
        for (int r = 0; r < AT_ONCE; ++r, to += wide)
            store_loose(to, load_loose(to) - (sums[0][r] + sums[1][r]));
    }
    static void scale(double by, int64_t n, double* x) {
        for (int64_t q = 0; q < n; ++q) x[q] *= by;
    }
    static int64_t up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

    static constexpr int W = WIDTH<double>, AT_ONCE = 4;
    int64_t d, m, k, groups, degree, single, window, level;
    int64_t rows, wide;  // k rounded up
    double keep, weak, prior, slack, clip, alarm, better, rise;
    int64_t *group, *age, *level_age, *since, *errors_age, *lasting;
    double *S, *s, *beta, *variance, *noise, *error_level, *excess, *errors, *usual;
};

}  // namespace domkl::DOMKL_ISA
