// P = M^-1 of one learner and kernel, after terms h z z^T were added to M; one half of it is stored.
//
// The lower half lies in panels of COLUMNS columns, each from its diagonal block downwards, vector by vector
// in the order in which it is read. Terms u u^T wait beside it: most rounds read the panels once and write
// nothing; when enough have come, a round subtracts all of them from each panel just before it is read. Only
// diagonal blocks hold both halves, and both get the same operations: P is symmetric to the last bit.
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
    explicit Inverse(int64_t K)
        : K(K), Kp(padded(K)), most(waiting(K)), numbers(begin(Kp) + most * Kp),
          U(numbers.data() + begin(Kp)) {}

    static int64_t padded(int64_t K) { return (K + W - 1) / W * W; }

    // How many terms may wait. Each costs every round a little; the longer the columns, the less it shows. In
    // float32 more do: each rounding of P then has more terms to serve (with 8, P would be half as wrong
    // again).
    static int waiting(int64_t K) { return K >= 256 ? 32 : sizeof(T) == 8 ? 8 : 16; }

    // P x and P b, all of length Kp and zero beyond K. `rest` (2 Kp) is for what rows get from columns: added
    // at once, it would be single numbers in vectors that are read next, and these would wait for them.
    DOMKL_ONCE void times(const T* x, const T* b, T* Px, T* Pb, T* rest) {
        const int due = full() ? used_ : 0;
        const int64_t end = Kp;
        correct(due ? 0 : used_, x, b, Px, Pb);
        sweep([&](T* a, int64_t i, int64_t j) {
            if (due) subtract(a, i, j, due);
            multiply(a, i, j, x, b, Px, Pb, rest);
        });
        used_ -= due;
        for (int64_t k = 0; k < end; k += W) {
            store(Px + k, load(Px + k) + load(rest + k));
            store(Pb + k, load(Pb + k) + load(rest + end + k));
        }
    }

    // From P x and P b, which `times` gave: u of the next term, for M' = M + h x x^T, and P' b = P b - u
    // (u.b). `lower` then makes P' = P - u u^T. Returns 0, or what is no number where one of them overflows.
    DOMKL_ONCE T solve(double h, const T* x, const T* b, const T* Px, T* Pb) {
        const int64_t end = Kp;
        T* u = next();
        Vec<T> xPx = {}, bPx = {}, zero = {}, none = {};
        for (int64_t k = 0; k < end; k += W) {
            const Vec<T> px = load(Px + k);
            xPx += px * load(x + k), bPx += px * load(b + k);
        }
        const T root = T(std::sqrt(h / (1 + h * double(sum<T>(xPx)))));
        const Vec<T> by = all(root), ub = all(root * sum<T>(bPx));
        for (int64_t k = 0; k < end; k += W) {
            const Vec<T> uk = by * load(Px + k), pb = load(Pb + k) - ub * uk;
            store(u + k, uk);
            store(Pb + k, pb);
            zero += uk * T(0), none += pb * T(0);
        }
        return sum<T>(zero + none);
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

    // P = x on the diagonal of a new one, which holds nothing else.
    void diagonal(T x) {
        sweep([&](T* a, int64_t i, int64_t j) {
            for (int c = 0; c < COLUMNS && j + c < K; ++c) a[c * W + j + c - i] = x;
        });
    }

    // The numbers at and below the diagonal, row by row, without the terms that wait: those are (waiting, K).
    // What is kept does not tell whether `times` was asked meanwhile.
    DOMKL_SELDOM void keep(T* half, T* terms) {
        if (full()) settle();
        for (int64_t i = 0; i < K; ++i)
            for (int64_t j = 0; j <= i; ++j) *half++ = at(i, j);
        for (int64_t n = 0; n < most; ++n) std::copy_n(U + n * Kp, K, terms + n * K);
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
    T* next() {
        return U + used_ * Kp;
    }  // where a term is written, unless they are full, which they never are after `times`

    static constexpr int W = WIDTH<T>;
    static constexpr int FOUR = 4, MOST = 32;                 // terms at once, and that may wait
    static constexpr int COLUMNS = DOMKL_BYTES > 16 ? 4 : 2;  // as many as the registers hold sums for

    // Numbers that are stored before those of column j; of column Kp: all.
    int64_t begin(int64_t j) const {
        const int64_t block = j / W, left = j % W / COLUMNS;
        return W * (block * Kp - W * (block * (block - 1) / 2)) + left * COLUMNS * (Kp - block * W);
    }
    T& at(int64_t i, int64_t j) {
        return numbers.data()[begin(j) + ((i / W - j / W) * COLUMNS + j % COLUMNS) * W + i % W];
    }
    void set(int64_t i, int64_t j, T x) {
        at(i, j) = x;
        if (i / W == j / W) at(j, i) = x;
    }

    // work(panel, its first row, its first column) of every panel, in order.
    template <class Work> void sweep(const Work& work) {
        T* a = numbers.data();
        for (int64_t j = 0; j < Kp; j += COLUMNS) {
            const int64_t i = j / W * W;
            work(a, i, j);
            a += (Kp - i) * COLUMNS;
        }
    }

    // Rows i and below of columns j.., with x and with b, each number for its row and for its column.
    void multiply(const T* a, int64_t i, int64_t j, const T* x, const T* b, T* Px, T* Pb, T* rest) const {
        Vec<T> xj[COLUMNS], bj[COLUMNS], s[2 * COLUMNS] = {};
#pragma GCC unroll 4
        for (int c = 0; c < COLUMNS; ++c) xj[c] = all(x[j + c]), bj[c] = all(b[j + c]);
        Vec<T> px = load(Px + i), pb = load(Pb + i);
#pragma GCC unroll 4
        for (int c = 0; c < COLUMNS; ++c, a += W)
            px += load(a) * xj[c], pb += load(a) * bj[c];  // both halves lie there
        store(Px + i, px);
        store(Pb + i, pb);
        const int64_t end = Kp;
#pragma GCC unroll 2
        for (i += W; i < end; i += W) {
            const Vec<T> xi = load(x + i), bi = load(b + i);
            px = load(Px + i), pb = load(Pb + i);
#pragma GCC unroll 4
            for (int c = 0; c < COLUMNS; ++c, a += W) {
                const Vec<T> v = load(a);
                px += v * xj[c];
                s[c] += v * xi;
                pb += v * bj[c];
                s[COLUMNS + c] += v * bi;
            }
            store(Px + i, px);
            store(Pb + i, pb);
        }
        add_up<COLUMNS>(s, rest + j, rest + Kp + j);
    }

    // The sums of N vectors for x and of N more for b. Spoils s.
    template <int N> static void add_up(Vec<T>* s, T* to_x, T* to_b) {
        if constexpr (2 * N <= W) {
            const Vec<T> both = sums<T, 2 * N>(s);
            spread<N, W / 2 / N>(both, 0, to_x), spread<N, W / 2 / N>(both, W / 2, to_b);
        } else if constexpr (N <= W) {
            spread<N, W / N>(sums<T, N>(s), 0, to_x), spread<N, W / N>(sums<T, N>(s + N), 0, to_b);
        } else {
            for (int n = 0; n < N; ++n) to_x[n] = sum<T>(s[n]), to_b[n] = sum<T>(s[N + n]);
        }
    }
    // N lanes of v, STEP apart.
    template <int N, int STEP> static void spread(Vec<T> v, int from, T* to) {
        if constexpr (STEP == 1) std::memcpy(to, reinterpret_cast<const T*>(&v) + from, N * sizeof(T));
        else {
#pragma GCC unroll 4
            for (int n = 0; n < N; ++n) to[n] = v[from + n * STEP];
        }
    }

    // All terms that wait from the same part: their sum at once, as each alone may be too small to change P.
    void subtract(T* a, int64_t i, int64_t j, int terms) const {
        constexpr int ROWS = COLUMNS == 4 ? 3 : 4;  // as many sums as the registers hold
        for (; i + ROWS * W <= Kp; i += ROWS * W, a += ROWS * COLUMNS * W) subtract<ROWS>(a, i, j, terms);
        switch ((Kp - i) / W) {
            case 3: return subtract<3>(a, i, j, terms);
            case 2: return subtract<2>(a, i, j, terms);
            case 1: return subtract<1>(a, i, j, terms);
        }
    }

    template <int ROWS> void subtract(T* a, int64_t i, int64_t j, int terms) const {
        Vec<T> v[ROWS][COLUMNS] = {};
        const T* u = U;
        for (int n = 0; n < terms; ++n, u += Kp) {
            Vec<T> ui[ROWS];
#pragma GCC unroll 4
            for (int r = 0; r < ROWS; ++r) ui[r] = load(u + i + r * W);
#pragma GCC unroll 4
            for (int c = 0; c < COLUMNS; ++c) {
                const Vec<T> uj = all(u[j + c]);
#pragma GCC unroll 4
                for (int r = 0; r < ROWS; ++r) v[r][c] += ui[r] * uj;
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

    // What the terms that wait take from P x and P b, which begin with it.
    void correct(int terms, const T* x, const T* b, T* Px, T* Pb) const {
        T ux[MOST], ub[MOST];
        for (int n = 0; n < terms; n += FOUR) products(U + n * Kp, x, b, ux + n, ub + n);
        int64_t k = 0;
        for (; k + 4 * W <= Kp; k += 4 * W) correct<4>(terms, k, ux, ub, Px + k, Pb + k);
        for (; k < Kp; k += W) correct<1>(terms, k, ux, ub, Px + k, Pb + k);
    }

    // Four terms, from u on, times x and times b; those that are not used come to nothing.
    void products(const T* u, const T* x, const T* b, T* ux, T* ub) const {
        const int64_t end = Kp;
        Vec<T> s[2 * FOUR] = {};
        for (int64_t k = 0; k < end; k += W) {
            const Vec<T> xk = load(x + k), bk = load(b + k);
#pragma GCC unroll 4
            for (int n = 0; n < FOUR; ++n) {
                const Vec<T> uk = load(u + n * end + k);
                s[n] += uk * xk, s[FOUR + n] += uk * bk;
            }
        }
        add_up<FOUR>(s, ux, ub);
    }

    template <int ROWS> void correct(int terms, int64_t k, const T* ux, const T* ub, T* Px, T* Pb) const {
        Vec<T> px[ROWS] = {}, pb[ROWS] = {};
        const T* u = U + k;
        for (int n = 0; n < terms; ++n, u += Kp) {
            const Vec<T> by_x = all(ux[n]), by_b = all(ub[n]);
#pragma GCC unroll 4
            for (int r = 0; r < ROWS; ++r) {
                const Vec<T> uk = load(u + r * W);
                px[r] -= uk * by_x, pb[r] -= uk * by_b;
            }
        }
#pragma GCC unroll 4
        for (int r = 0; r < ROWS; ++r) store(Px + r * W, px[r]), store(Pb + r * W, pb[r]);
    }

    int64_t K, Kp;
    int most;
    Buffer<T> numbers;  // the panels, then the terms that wait
    T* U;               // those: (most, Kp)
    int used_ = 0;
};

extern template class Inverse<double>;
extern template class Inverse<float>;

}  // namespace DOMKL_ISA
}  // namespace domkl
