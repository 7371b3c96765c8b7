// P = M^-1 of one learner and kernel, where terms h z z^T are added to M; one half of P is stored.
//
// The lower half is stored in panels of COLUMNS columns, each from its diagonal block downwards, in the order
// in which it is read. Pending terms u u^T are stored beside it: most rounds read the panels once and write
// nothing; once the terms' buffer is full, a round subtracts all of them from each panel just before reading
// it. Only diagonal blocks hold both halves, and both get the same operations, so P is exactly symmetric.
//
// Until terms are subtracted for the first time, the panels of a new P hold a diagonal and need not be read.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "buffer.hpp"
#include "vec.hpp"

namespace domkl::DOMKL_ISA {

// One symmetric (K, K) matrix P.
template <class T> class Inverse {
  public:
    explicit Inverse(int64_t K)
        : K(K), Kp(padded(K)), limit(capacity(K)), storage(offset(Kp) + limit * Kp),
          U(storage.data() + offset(Kp)) {}

    // K rounded up to a multiple of the vector's width.
    static int64_t padded(int64_t K) { return (K + W - 1) / W * W; }

    // Number of pending terms that fit. Each costs every round a little, relatively less with longer columns.
    // float32 has more of them, so that P is rounded less often: with 8, its error would be 1.5 times as
    // large.
    static int capacity(int64_t K) { return K >= 256 ? 32 : sizeof(T) == 8 ? 8 : 16; }

    // P x of R vectors x (R, Kp), zero beyond K, in one pass over P; each has the same bits whatever R is.
    // `rest` (R, Kp) collects what the upper half contributes: adding these scalars at once to vectors that
    // are read next would stall the loads.
    template <int R> DOMKL_NOINLINE void multiply(const T* x, T* Px, T* rest) {
        const int due = full() ? pending_ : 0;
        const int64_t end = R * Kp;
        apply_terms<R>(due ? 0 : pending_, x, Px);
        if (due) is_diagonal = false;
        if (is_diagonal) return add_diagonal(end, x, Px);
        for_each_panel([&](T* a, int64_t i, int64_t j) {
            if (due) subtract_terms(a, i, j, due);
            multiply_panel<R>(a, i, j, x, Px, rest);
        });
        pending_ -= due;
        for (int64_t k = 0; k < end; k += W) store(Px + k, load(Px + k) + load(rest + k));
    }

    // From the P x and P b of `multiply`: u of the next term, for M' = M + h x x^T, and P' b = P b - u (u.b)
    // in place of P b. `downdate` then makes P' = P - u u^T.
    DOMKL_NOINLINE void solve(double h, const T* x, const T* b, const T* Px, T* Pb) {
        const int64_t end = Kp;
        T* u = next();
        Vec<T> xPx = {}, bPx = {};
        for (int64_t k = 0; k < end; k += W) {
            const Vec<T> px = load(Px + k);
            xPx += px * load(x + k), bPx += px * load(b + k);
        }
        const T root = T(std::sqrt(h / (1 + h * double(sum<T>(xPx)))));
        const Vec<T> by = broadcast(root), ub = broadcast(root * sum<T>(bPx));
        for (int64_t k = 0; k < end; k += W) {
            const Vec<T> uk = by * load(Px + k), pb = load(Pb + k) - ub * uk;
            store(u + k, uk);
            store(Pb + k, pb);
        }
    }
    // P' = P - u u^T with the u of `solve`.
    void downdate() { ++pending_; }

    // P' = P - u u^T for any u (K,), at any time.
    DOMKL_COLD void downdate(const T* u) {
        if (full()) flush();
        std::fill(std::copy_n(u, K, next()), next() + Kp, T(0));
        downdate();
    }

    // Subtracts all pending terms.
    DOMKL_COLD void flush() {
        is_diagonal = false;
        for_each_panel([&](T* a, int64_t i, int64_t j) { subtract_terms(a, i, j, pending_); });
        pending_ = 0;
    }

    // Sets the diagonal of a new P, which is zero elsewhere.
    void set_diagonal(T x) {
        diagonal = x;
        for_each_panel([&](T* a, int64_t i, int64_t j) {
            for (int c = 0; c < COLUMNS && j + c < K; ++c) a[c * W + j + c - i] = x;
        });
    }

    // Writes the lower half row by row, without the pending terms, and these (capacity, K). The result does
    // not depend on whether `multiply` has been called since the last term.
    DOMKL_COLD void save(T* half, T* terms) {
        if (full()) flush();
        for (int64_t i = 0; i < K; ++i)
            for (int64_t j = 0; j <= i; ++j) *half++ = at(i, j);
        for (int64_t n = 0; n < limit; ++n) std::copy_n(U + n * Kp, K, terms + n * K);
    }
    // Inverse of `save`, from `used` terms, even if more than the capacity.
    DOMKL_COLD void restore(const T* half, const T* terms, int64_t used) {
        for (int64_t i = 0; i < K; ++i)
            for (int64_t j = 0; j <= i; ++j, ++half) set(i, j, *half);
        is_diagonal = false;
        pending_ = 0;
        for (int64_t n = 0; n < used; ++n) downdate(terms + n * K);
    }

    // Replaces P (K, K), of which only the lower half is read.
    DOMKL_COLD void replace(const T* from) {
        for (int64_t i = 0; i < K; ++i)
            for (int64_t j = 0; j <= i; ++j) set(i, j, from[i * K + j]);
        is_diagonal = false;
        pending_ = 0;
    }

    // Number of terms that are not yet subtracted.
    int pending() const { return pending_; }

  private:
    bool full() const { return pending_ == limit; }
    // Where the next term is written; `multiply` leaves space for it.
    T* next() { return U + pending_ * Kp; }

    static constexpr int W = WIDTH<T>;
    static constexpr int AT_ONCE = 4, MAX_TERMS = 32;         // terms in one pass; largest capacity
    static constexpr int COLUMNS = DOMKL_BYTES > 16 ? 4 : 2;  // as many as the registers have sums for
    // Numbers asked for before they are read: a page, where the processor itself stops to read ahead.
    static constexpr int AHEAD = 4096 / sizeof(T);

    // Index of column j's panel in the storage; for j = Kp, the size of all panels.
    int64_t offset(int64_t j) const {
        const int64_t block = j / W, left = j % W / COLUMNS;
        return W * (block * Kp - W * (block * (block - 1) / 2)) + left * COLUMNS * (Kp - block * W);
    }
    T& at(int64_t i, int64_t j) {
        return storage.data()[offset(j) + ((i / W - j / W) * COLUMNS + j % COLUMNS) * W + i % W];
    }
    void set(int64_t i, int64_t j, T x) {
        at(i, j) = x;
        if (i / W == j / W) at(j, i) = x;
    }

    // Calls work(panel, its first row, its first column) for every panel, in order.
    template <class Work> void for_each_panel(const Work& work) {
        T* a = storage.data();
        for (int64_t j = 0; j < Kp; j += COLUMNS) {
            const int64_t i = j / W * W;
            work(a, i, j);
            a += (Kp - i) * COLUMNS;
        }
    }

    // Adds the diagonal's part to n numbers of P x, and a zero, with which all panels would turn -0 into 0:
    // the bits are theirs, unless x is not finite.
    void add_diagonal(int64_t n, const T* x, T* Px) const {
        const Vec<T> by = broadcast(diagonal);
        for (int64_t k = 0; k < n; k += W) store(Px + k, load(Px + k) + by * load(x + k) + T(0));
    }

    // Rows i and below of columns j.., times x; each number counts for its row and for its column.
    template <int R> void multiply_panel(const T* a, int64_t i, int64_t j, const T* x, T* Px, T* rest) const {
        const int64_t end = Kp;
        Vec<T> xj[R][COLUMNS], px[R], s[R * COLUMNS] = {};
#pragma GCC unroll 3
        for (int r = 0; r < R; ++r) {
            px[r] = load(Px + r * end + i);
#pragma GCC unroll 4
            for (int c = 0; c < COLUMNS; ++c) {
                xj[r][c] = broadcast(x[r * end + j + c]);
                px[r] += load(a + c * W) * xj[r][c];  // holds both halves
            }
            store(Px + r * end + i, px[r]);
        }
        a += COLUMNS * W;
#pragma GCC unroll 2
        for (i += W; i < end; i += W) {
            Vec<T> xi[R];
#pragma GCC unroll 3
            for (int r = 0; r < R; ++r) xi[r] = load(x + r * end + i), px[r] = load(Px + r * end + i);
#pragma GCC unroll 4
            for (int c = 0; c < COLUMNS; ++c, a += W) {
                __builtin_prefetch(a + AHEAD);
                const Vec<T> v = load(a);
#pragma GCC unroll 3
                for (int r = 0; r < R; ++r) px[r] += v * xj[r][c], s[r * COLUMNS + c] += v * xi[r];
            }
#pragma GCC unroll 3
            for (int r = 0; r < R; ++r) store(Px + r * end + i, px[r]);
        }
        write_sums<COLUMNS, R>(s, rest + j, end);
    }

    // Writes R times the sums of N vectors, each time `apart` numbers further on. Overwrites s.
    template <int N, int R> static void write_sums(Vec<T>* s, T* to, int64_t apart) {
        constexpr int DONE = R > 1 && 2 * N <= W ? 2 : 1;
        if constexpr (DONE == 2) {
            const Vec<T> both = sums<T, 2 * N>(s);
            write_lanes<N, W / 2 / N>(both, 0, to), write_lanes<N, W / 2 / N>(both, W / 2, to + apart);
        } else if constexpr (N <= W) {
            write_lanes<N, W / N>(sums<T, N>(s), 0, to);
        } else {
            for (int n = 0; n < N; ++n) to[n] = sum<T>(s[n]);
        }
        if constexpr (R > DONE) write_sums<N, R - DONE>(s + DONE * N, to + DONE * apart, apart);
    }
    // Writes N lanes of v, STEP apart.
    template <int N, int STEP> static void write_lanes(Vec<T> v, int from, T* to) {
        if constexpr (STEP == 1) std::memcpy(to, reinterpret_cast<const T*>(&v) + from, N * sizeof(T));
        else {
#pragma GCC unroll 4
            for (int n = 0; n < N; ++n) to[n] = v[from + n * STEP];
        }
    }

    // Subtracts the pending terms from a panel. Their sum, as each alone may be too small to change P.
    void subtract_terms(T* a, int64_t i, int64_t j, int terms) const {
        constexpr int ROWS = COLUMNS == 4 ? 3 : 4;  // as many sums as fit the registers
        for (; i + ROWS * W <= Kp; i += ROWS * W, a += ROWS * COLUMNS * W)
            subtract_terms<ROWS>(a, i, j, terms);
        switch ((Kp - i) / W) {
            case 3: return subtract_terms<3>(a, i, j, terms);
            case 2: return subtract_terms<2>(a, i, j, terms);
            case 1: return subtract_terms<1>(a, i, j, terms);
        }
    }

    template <int ROWS> void subtract_terms(T* a, int64_t i, int64_t j, int terms) const {
        Vec<T> v[ROWS][COLUMNS] = {};
        const T* u = U;
        for (int n = 0; n < terms; ++n, u += Kp) {
            Vec<T> ui[ROWS];
#pragma GCC unroll 4
            for (int r = 0; r < ROWS; ++r) ui[r] = load(u + i + r * W);
#pragma GCC unroll 4
            for (int c = 0; c < COLUMNS; ++c) {
                const Vec<T> uj = broadcast(u[j + c]);
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

    // Initialises P x with what the pending terms contribute.
    template <int R> void apply_terms(int terms, const T* x, T* Px) const {
        T ux[R * MAX_TERMS];
        for (int n = 0; n < terms; n += AT_ONCE) products<R>(U + n * Kp, x, ux + n);
        int64_t k = 0;
        for (; k + 4 * W <= Kp; k += 4 * W) apply_terms<R, 4>(terms, k, ux, Px + k);
        for (; k < Kp; k += W) apply_terms<R, 1>(terms, k, ux, Px + k);
    }

    // Inner products of AT_ONCE terms, from u on, with x; those of unused terms are ignored.
    template <int R> void products(const T* u, const T* x, T* ux) const {
        const int64_t end = Kp;
        Vec<T> s[R * AT_ONCE] = {};
        for (int64_t k = 0; k < end; k += W) {
            Vec<T> xk[R];
#pragma GCC unroll 3
            for (int r = 0; r < R; ++r) xk[r] = load(x + r * end + k);
#pragma GCC unroll 4
            for (int n = 0; n < AT_ONCE; ++n) {
                const Vec<T> uk = load(u + n * end + k);
#pragma GCC unroll 3
                for (int r = 0; r < R; ++r) s[r * AT_ONCE + n] += uk * xk[r];
            }
        }
        write_sums<AT_ONCE, R>(s, ux, MAX_TERMS);
    }

    template <int R, int BLOCKS> void apply_terms(int terms, int64_t k, const T* ux, T* Px) const {
        Vec<T> px[R][BLOCKS] = {};
        const T* u = U + k;
        for (int n = 0; n < terms; ++n, u += Kp) {
            Vec<T> by[R];
#pragma GCC unroll 3
            for (int r = 0; r < R; ++r) by[r] = broadcast(ux[r * MAX_TERMS + n]);
#pragma GCC unroll 4
            for (int i = 0; i < BLOCKS; ++i) {
                const Vec<T> uk = load(u + i * W);
#pragma GCC unroll 3
                for (int r = 0; r < R; ++r) px[r][i] -= uk * by[r];
            }
        }
#pragma GCC unroll 3
        for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
            for (int i = 0; i < BLOCKS; ++i) store(Px + r * Kp + i * W, px[r][i]);
    }

    int64_t K, Kp;
    int limit;
    Buffer<T> storage;  // the panels, then the pending terms
    T* U;               // the pending terms (limit, Kp)
    int pending_ = 0;
    T diagonal = 0;           // of a new P
    bool is_diagonal = true;  // whether the panels hold only that
};

extern template class Inverse<double>;
extern template class Inverse<float>;
extern template void Inverse<double>::multiply<2>(const double*, double*, double*);
extern template void Inverse<float>::multiply<2>(const float*, float*, float*);

}  // namespace domkl::DOMKL_ISA
