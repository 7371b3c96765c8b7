// P = M^-1 of one learner and kernel, after terms h z z^T were added to M; one half of it is stored.
//
// The lower half lies in panels of COLUMNS columns, each from its diagonal block downwards, vector by vector in
// the order in which it is read. Terms u u^T wait beside it: most rounds read the panels once and write nothing;
// when enough have come, a round subtracts all of them from each panel just before it is read. Only diagonal blocks
// hold both halves, and both get the same operations: P is symmetric to the last bit.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "buffer.hpp"
#include "vec.hpp"

namespace domkl {
namespace DOMKL_ISA {

template <class T> class Inverse {
  public:
    explicit Inverse(int64_t K) : K(K), Kp(padded(K)), most(waiting(K)), panels(begin(Kp)), U(most * Kp) {}

    static int64_t padded(int64_t K) { return (K + W - 1) / W * W; }

    // How many terms may wait. Each costs every round a little; the longer the columns, the less it shows. In float32 more
    // do: each rounding of P then has more terms to serve.
    static int waiting(int64_t K) { return K >= 256 ? 32 : sizeof(T) == 8 ? 8 : 16; }

    // P x and P b, all of length Kp and zero beyond K. `rest` (2 Kp) is for what rows get from columns: added at once, it
    // would be single numbers in vectors that are read next, and these would wait for them.
    DOMKL_ONCE void times(const T* x, const T* b, T* Px, T* Pb, T* rest) {
        const int due = full() ? used_ : 0;
        std::fill_n(Px, Kp, T(0));
        std::fill_n(Pb, Kp, T(0));
        sweep([&](T* a, int64_t i, int64_t j) {
            if (due) subtract(a, i, j, due);
            multiply(a, i, j, x, b, Px, Pb, rest);
        });
        used_ -= due;
        for (int64_t k = 0; k < Kp; k += W) {
            store(Px + k, load(Px + k) + load(rest + k));
            store(Pb + k, load(Pb + k) + load(rest + Kp + k));
        }
        const T* u = U.data();
        for (int n = used_; n >= 4; n -= 4, u += 4 * Kp) correct<4>(u, x, b, Px, Pb);
        switch (used_ % 4) {
            case 3: return correct<3>(u, x, b, Px, Pb);
            case 2: return correct<2>(u, x, b, Px, Pb);
            case 1: return correct<1>(u, x, b, Px, Pb);
        }
    }

    // From P x and P b, which `times` gave: u of the next term, for M' = M + h x x^T, and P' b = P b - u (u.b). `lower` then
    // makes P' = P - u u^T. Returns 0, or what is no number where one of them overflows.
    DOMKL_ONCE T solve(double h, const T* x, const T* b, const T* Px, T* Pb) {
        T* u = next();
        const Vec<T> root = all(T(std::sqrt(h / (1 + h * double(dot(x, Px, Kp))))));
        Vec<T> products = {}, zero = {};
        for (int64_t k = 0; k < Kp; k += W) {
            const Vec<T> uk = root * load(Px + k);
            store(u + k, uk);
            products += uk * load(b + k);
        }
        const Vec<T> ub = all(sum<T>(products));
        for (int64_t k = 0; k < Kp; k += W) {
            const Vec<T> uk = load(u + k), pb = load(Pb + k) - ub * uk;
            store(Pb + k, pb);
            zero += uk * T(0) + pb * T(0);
        }
        return sum<T>(zero);
    }
    void lower() { ++used_; }

    // P' = P - u u^T at any time; u (K,)
    DOMKL_SELDOM void add(const T* u) {
        if (full()) settle();
        std::fill(std::copy_n(u, K, next()), next() + Kp, T(0));
        lower();
    }

    DOMKL_SELDOM void settle() {
        sweep([&](T* a, int64_t i, int64_t j) { subtract(a, i, j, used_); });
        used_ = 0;
    }

    // P = x on the diagonal, nothing else.
    DOMKL_SELDOM void diagonal(T x) {
        std::memset(static_cast<void*>(panels.data()), 0, panels.size() * sizeof(T));
        for (int64_t i = 0; i < K; ++i) at(i, i) = x;
        used_ = 0;
    }

    // The numbers at and below the diagonal, row by row, without the terms that wait: those are (waiting, K). What is
    // kept does not tell whether `times` was asked meanwhile.
    DOMKL_SELDOM void keep(T* half, T* terms) {
        if (full()) settle();
        for (int64_t i = 0; i < K; ++i)
            for (int64_t j = 0; j <= i; ++j) *half++ = at(i, j);
        for (int64_t n = 0; n < most; ++n) std::copy_n(U.data() + n * Kp, K, terms + n * K);
    }
    // From `used` terms, be they more than may wait here.
    DOMKL_SELDOM void resume(const T* half, const T* terms, int64_t used) {
        for (int64_t i = 0; i < K; ++i)
            for (int64_t j = 0; j <= i; ++j, ++half) set(i, j, *half);
        used_ = 0;
        for (int64_t n = 0; n < used; ++n) add(terms + n * K);
    }

    // P, and a new P of whose upper half nothing is read. (K, K)
    DOMKL_SELDOM void dense(T* out) {
        settle();
        for (int64_t i = 0; i < K; ++i)
            for (int64_t j = 0; j <= i; ++j) out[i * K + j] = out[j * K + i] = at(i, j);
    }
    DOMKL_SELDOM void replace(const T* from) {
        for (int64_t i = 0; i < K; ++i)
            for (int64_t j = 0; j <= i; ++j) set(i, j, from[i * K + j]);
        used_ = 0;
    }

    int used() const { return used_; }

  private:
    bool full() const { return used_ == most; }
    T* next() { return U.data() + used_ * Kp; }  // where a term is written, unless they are full, which they never are after `times`

    static constexpr int W = WIDTH<T>;
    static constexpr int COLUMNS = DOMKL_BYTES > 32 ? 4 : 2;  // as many as the registers hold factors and sums for

    // Numbers that are stored before those of column j; of column Kp: all.
    int64_t begin(int64_t j) const {
        const int64_t block = j / W, left = j % W / COLUMNS;
        return W * (block * Kp - W * (block * (block - 1) / 2)) + left * COLUMNS * (Kp - block * W);
    }
    T& at(int64_t i, int64_t j) {
        return panels.data()[begin(j) + ((i / W - j / W) * COLUMNS + j % COLUMNS) * W + i % W];
    }
    void set(int64_t i, int64_t j, T x) {
        at(i, j) = x;
        if (i / W == j / W) at(j, i) = x;
    }

    // work(panel, its first row, its first column) of every panel, in order.
    template <class Work> void sweep(const Work& work) {
        T* a = panels.data();
        for (int64_t j = 0; j < Kp; j += COLUMNS) {
            const int64_t i = j / W * W;
            work(a, i, j);
            a += (Kp - i) * COLUMNS;
        }
    }

    // Rows i and below of columns j.., with x and with b, each number for its row and for its column.
    void multiply(const T* a, int64_t i, int64_t j, const T* x, const T* b, T* Px, T* Pb, T* rest) const {
        Vec<T> xj[COLUMNS], bj[COLUMNS], sx[COLUMNS] = {}, sb[COLUMNS] = {};
#pragma GCC unroll 4
        for (int c = 0; c < COLUMNS; ++c) xj[c] = all(x[j + c]), bj[c] = all(b[j + c]);
        Vec<T> px = load(Px + i), pb = load(Pb + i);
#pragma GCC unroll 4
        for (int c = 0; c < COLUMNS; ++c, a += W) px += load(a) * xj[c], pb += load(a) * bj[c];  // both halves lie there
        store(Px + i, px);
        store(Pb + i, pb);
#pragma GCC unroll 2
        for (i += W; i < Kp; i += W) {
            const Vec<T> xi = load(x + i), bi = load(b + i);
            px = load(Px + i), pb = load(Pb + i);
#pragma GCC unroll 4
            for (int c = 0; c < COLUMNS; ++c, a += W) {
                const Vec<T> v = load(a);
                px += v * xj[c];
                sx[c] += v * xi;
                pb += v * bj[c];
                sb[c] += v * bi;
            }
            store(Px + i, px);
            store(Pb + i, pb);
        }
#pragma GCC unroll 4
        for (int c = 0; c < COLUMNS; c += 2) sums<T>(sx[c], sx[c + 1], sb[c], sb[c + 1], rest + j + c, rest + Kp + j + c);
    }

    // All terms that wait from the same part: their sum at once, as each alone may be too small to change P.
    void subtract(T* a, int64_t i, int64_t j, int terms) const {
        constexpr int ROWS = 4;
        for (; i + ROWS * W <= Kp; i += ROWS * W, a += ROWS * COLUMNS * W) subtract<ROWS>(a, i, j, terms);
        switch ((Kp - i) / W) {
            case 3: return subtract<3>(a, i, j, terms);
            case 2: return subtract<2>(a, i, j, terms);
            case 1: return subtract<1>(a, i, j, terms);
        }
    }

    template <int ROWS> void subtract(T* a, int64_t i, int64_t j, int terms) const {
        Vec<T> v[ROWS][COLUMNS] = {};
        const T* u = U.data();
        for (int n = 0; n < terms; ++n, u += Kp) {
            Vec<T> uj[COLUMNS];
#pragma GCC unroll 4
            for (int c = 0; c < COLUMNS; ++c) uj[c] = all(u[j + c]);
#pragma GCC unroll 4
            for (int r = 0; r < ROWS; ++r) {
                const Vec<T> ui = load(u + i + r * W);
#pragma GCC unroll 4
                for (int c = 0; c < COLUMNS; ++c) v[r][c] += ui * uj[c];
            }
        }
#pragma GCC unroll 4
        for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 4
            for (int c = 0; c < COLUMNS; ++c) {
                T* to = a + (r * COLUMNS + c) * W;
                store(to, load(to) - v[r][c]);
            }
    }

    // N terms that wait, from u on: what they take from P x and P b.
    template <int N> void correct(const T* u, const T* x, const T* b, T* Px, T* Pb) const {
        Vec<T> ux[N] = {}, ub[N] = {};
        for (int64_t k = 0; k < Kp; k += W) {
            const Vec<T> xk = load(x + k), bk = load(b + k);
#pragma GCC unroll 4
            for (int n = 0; n < N; ++n) {
                const Vec<T> uk = load(u + n * Kp + k);
                ux[n] += uk * xk, ub[n] += uk * bk;
            }
        }
#pragma GCC unroll 4
        for (int n = 0; n < N; ++n) ux[n] = all(sum<T>(ux[n])), ub[n] = all(sum<T>(ub[n]));
        for (int64_t k = 0; k < Kp; k += W) {
            Vec<T> px = load(Px + k), pb = load(Pb + k);
#pragma GCC unroll 4
            for (int n = 0; n < N; ++n) {
                const Vec<T> uk = load(u + n * Kp + k);
                px -= uk * ux[n], pb -= uk * ub[n];
            }
            store(Px + k, px);
            store(Pb + k, pb);
        }
    }

    int64_t K, Kp;
    int most;
    Buffer<T> panels, U;  // U: (most, Kp)
    int used_ = 0;
};

extern template class Inverse<double>;
extern template class Inverse<float>;

}  // namespace DOMKL_ISA
}  // namespace domkl
