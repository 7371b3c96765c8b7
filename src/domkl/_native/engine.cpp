// A block of rounds, kernel by kernel.
//
// Kernels meet only in Hedge, so each runs through the whole block by itself: features of 64 samples at
// a time (matrix product, then sin and cos in registers), then the local steps of those samples. What
// Hedge needs, each kernel's predictions at each learner and across each edge, is kept and used
// afterwards, round by round.
//
// In a round, with mu = lam/c, s = sum of the neighbours' theta, h = rho/(2c):
//   mu    += h (deg theta - s)                        the dual step of the round before: one gather serves both
//   v      = own theta + pull s - mu                  own = (eta + rho deg/2)/c, pull = rho/(2c)
//   theta' = v - (a/c) z                              a solves the one-dimensional problem at z . v
#include "engine.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <new>
#include <thread>
#include <vector>

#include "sincos.hpp"

namespace domkl {
namespace DOMKL_ISA {

template <class T> class Buffer {  // aligned, zeroed, movable
  public:
    Buffer() = default;
    explicit Buffer(size_t n) : size_(n) {
        if (n == 0) return;
        if (n > (size_t(1) << 48)) throw std::bad_alloc();
        const size_t bytes = (n * sizeof(T) + 63) / 64 * 64;
        data_ = static_cast<T*>(std::aligned_alloc(64, bytes));
        if (!data_) throw std::bad_alloc();
        std::memset(data_, 0, bytes);
    }
    Buffer(Buffer&& other) noexcept { swap(other); }
    Buffer& operator=(Buffer&& other) noexcept { swap(other); return *this; }
    ~Buffer() { std::free(data_); }
    void swap(Buffer& other) noexcept { std::swap(data_, other.data_); std::swap(size_, other.size_); }
    T* data() { return data_; }
    const T* data() const { return data_; }
    size_t size() const { return size_; }

  private:
    T* data_ = nullptr;
    size_t size_ = 0;
};

// ---- features ---------------------------------------------------------------------------------

constexpr int ROWS = DOMKL_BYTES == 64 ? 8 : 4;  // as many sums as the registers hold
constexpr int TILE = 64;

// Angles of R samples against C vectors of frequencies, then sin and cos, while all is in registers.
template <class T, int R, int C>
inline void angles(const T* const* x, int64_t d, const T* V, int64_t Dp, const T* scale, T* z, int64_t K) {
    constexpr int W = WIDTH<T>;
    Vec<T> sums[R][C] = {};
    for (int64_t k = 0; k < d; ++k) {
        Vec<T> v[C];
#pragma GCC unroll 8
        for (int c = 0; c < C; ++c) v[c] = load(V + k * Dp + c * W);
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) {
            const Vec<T> xk = all(x[r][k]);
#pragma GCC unroll 8
            for (int c = 0; c < C; ++c) sums[r][c] += xk * v[c];
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
        for (int c = 0; c < C; ++c) {
            Vec<T> s, co;
            sincos<T>(sums[r][c], load(scale + c * W), s, co);
            store(z + r * K + c * W, s);
            store(z + r * K + Dp + c * W, co);
        }
    }
}

template <class T, int C>
void columns(const T* const* x, int n, int64_t d, const T* V, int64_t Dp, const T* scale, T* z, int64_t K) {
    int r = 0;
    for (; r + ROWS <= n; r += ROWS) angles<T, ROWS, C>(x + r, d, V, Dp, scale, z + r * K, K);
    for (; r + 2 <= n; r += 2) angles<T, 2, C>(x + r, d, V, Dp, scale, z + r * K, K);
    for (; r < n; ++r) angles<T, 1, C>(x + r, d, V, Dp, scale, z + r * K, K);
}

// z (n, K) of n samples for one kernel; V (d, Dp) in quarter turns.
template <class T>
void features(const T* const* x, int n, int64_t d, const T* V, int64_t Dp, const T* scale, T* z) {
    constexpr int W = WIDTH<T>;
    const int64_t K = 2 * Dp;
    int64_t left = Dp / W, at = 0;
    while (left > 0) {
        const int C = left == 4 ? 2 : int(std::min<int64_t>(left, 3));
        const int64_t o = at * W;
        if (C == 3) columns<T, 3>(x, n, d, V + o, Dp, scale + o, z + o, K);
        if (C == 2) columns<T, 2>(x, n, d, V + o, Dp, scale + o, z + o, K);
        if (C == 1) columns<T, 1>(x, n, d, V + o, Dp, scale + o, z + o, K);
        at += C;
        left -= C;
    }
}

// ---- losses -----------------------------------------------------------------------------------

inline double sigmoid(double x) { return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); }
inline double logistic_slope(double s, double y) { return -y * sigmoid(-y * s); }

inline double slope(const Setting& set, double s, double y) {
    if (set.loss == Loss::logistic) return logistic_slope(s, y);
    const double g = 2 * (s - y);
    return set.loss == Loss::huber ? std::clamp(g, -2 * set.delta, 2 * set.delta) : g;
}

inline double value(const Setting& set, double s, double y) {
    if (set.loss == Loss::logistic) {
        const double m = -y * s;
        return m > 0 ? m + std::log1p(std::exp(-m)) : std::log1p(std::exp(m));
    }
    const double r = std::fabs(s - y);
    return set.loss == Loss::huber && r > set.delta ? set.delta * (2 * r - set.delta) : r * r;
}

// Newton's method on c s + g'(s) = u inside the bracket that |g'| <= 1 gives.
inline double logistic_prox(double u, double c, double y) {
    double low = (u - 1) / c, high = (u + 1) / c, s = u / c;
    for (int k = 0; k < 100; ++k) {
        const double g = logistic_slope(s, y), h = c * s + g - u;
        if (h == 0) break;
        (h < 0 ? low : high) = s;
        double next = s - h / (c + std::fabs(g) * (1 - std::fabs(g)));
        if (!(next > low && next < high)) next = (low + high) / 2;
        if (std::fabs(next - s) <= 1e-15 * std::fabs(s)) break;
        s = next;
    }
    return logistic_slope(s, y);
}

inline double prox(const Setting& set, double u, double c, double y) {
    if (set.loss == Loss::logistic) return logistic_prox(u, c, y);
    const double a = 2 * (u - c * y) / (c + 2);
    return set.loss == Loss::huber ? std::clamp(a, -2 * set.delta, 2 * set.delta) : a;
}

// ---- the engine -------------------------------------------------------------------------------

template <class T> class Network final : public Engine<T> {
  public:
    Network(const Setting& setting, const T* V) : set(setting) {
        first.assign(set.first, set.first + set.J + 1);
        near.assign(set.near, set.near + first.back());
        reverse.assign(set.reverse, set.reverse + first.back());
        pack(V);
        theta.resize(set.P);
        mu.resize(set.P);
        L_.assign(set.J * set.P, 0.0);
        q_.assign(set.J * set.P, 1.0 / double(set.P));
        if (set.rule == Rule::messages) messages.assign(near.size() * set.P, 0.0);
        pulls();
    }

    void advance(const Block<T>& block) override {
        const size_t cells = size_t(block.rounds) * set.J, edges = size_t(block.rounds) * near.size();
        f.resize(set.P);
        e.resize(set.P);
        loss.resize(set.P);
        std::atomic<int64_t> next{0};
        auto work = [&] {
            Scratch scratch;
            for (int64_t p; (p = next++) < set.P;) {
                if (f[p].size() != cells) f[p] = Buffer<T>(cells);
                if (e[p].size() != edges) e[p] = Buffer<T>(edges);
                if (stores_losses(block) && loss[p].size() != cells) loss[p] = Buffer<T>(cells);
                kernel(p, block, scratch);
                if (!set.keep) theta[p] = Buffer<T>(), mu[p] = Buffer<T>();
            }
        };
        side_by_side(work);
        hedge(block);
    }

    void state(T* out_theta, T* out_lam) const override {
        for (int64_t j = 0; j < set.J; ++j)
            for (int64_t p = 0; p < set.P; ++p) {
                const int64_t to = (j * set.P + p) * 2 * set.D;
                unpad(theta[p], j, out_theta + to, T(1));
                // mu lags one dual step behind: theta and its neighbours' sums complete it.
                unpad(mu[p], j, out_lam + to, T(c[j]));
                if (started) complete_dual(p, j, out_lam + to);
            }
    }

    const double* L() const override { return L_.data(); }
    const double* q() const override { return q_.data(); }

  private:
    struct Scratch {
        Buffer<T> next, z, past, v;
    };

    bool stores_losses(const Block<T>& block) const { return block.delay > 0 || set.reg > 0; }

    void pack(const T* V) {
        constexpr int W = WIDTH<T>;
        Dp = (set.D + W - 1) / W * W;
        K = 2 * Dp;
        packed = Buffer<T>(set.P * set.d * Dp);
        const double quarter = 2 / 3.14159265358979323846;
        for (int64_t p = 0; p < set.P; ++p)
            for (int64_t i = 0; i < set.D; ++i)
                for (int64_t k = 0; k < set.d; ++k)
                    packed.data()[(p * set.d + k) * Dp + i] = T(V[(p * set.D + i) * set.d + k] * quarter);
        scale = Buffer<T>(Dp);  // zero where D was filled up to whole vectors
        std::fill_n(scale.data(), set.D, T(1 / std::sqrt(double(set.D))));
    }

    void pulls() {
        for (int64_t j = 0; j < set.J; ++j) {
            const double deg = double(first[j + 1] - first[j]);
            if (set.mu > 0) {
                c.push_back(1);
                own.push_back(1 - 2 * set.mu * set.reg);
                pull.push_back(0);
                continue;
            }
            c.push_back(set.eta + set.rho * deg + 2 * set.reg);
            own.push_back((set.eta + set.rho * deg / 2) / c[j]);
            pull.push_back(set.rho / 2 / c[j]);
        }
    }

    template <class F> void side_by_side(F work) {
        std::vector<std::thread> others;
        const int64_t most = std::min<int64_t>(set.threads, set.P);
        for (int64_t k = 1; k < most; ++k) others.emplace_back(work);
        work();
        for (auto& other : others) other.join();
    }

    void kernel(int64_t p, const Block<T>& block, Scratch& scratch) {
        const size_t size = size_t(set.J) * K;
        if (!theta[p].size()) theta[p] = Buffer<T>(size), mu[p] = Buffer<T>(size);
        if (scratch.next.size() != size) scratch.next = Buffer<T>(size);
        if (!scratch.z.size()) {
            scratch.z = Buffer<T>(TILE * K);
            scratch.past = Buffer<T>(TILE * K);
            scratch.v = Buffer<T>(K);
        }
        const int64_t rows = block.rounds * set.J;
        for (int64_t row = 0; row < rows; row += TILE) tile(p, block, scratch, row, std::min<int64_t>(TILE, rows - row));
    }

    void tile(int64_t p, const Block<T>& block, Scratch& scratch, int64_t row, int64_t n) {
        const T* now[TILE];
        const T* past[TILE];
        for (int64_t r = 0; r < n; ++r) {
            const int64_t t = (row + r) / set.J, j = (row + r) % set.J;
            now[r] = block.x + j * block.x_learner + t * block.x_round;
            past[r] = block.start + t >= block.delay ? now[r] - block.delay * block.x_round : now[r];
        }
        const T* V = packed.data() + p * set.d * Dp;
        features(now, int(n), set.d, V, Dp, scale.data(), scratch.z.data());
        if (block.delay) features(past, int(n), set.d, V, Dp, scale.data(), scratch.past.data());
        for (int64_t r = 0; r < n; ++r) {
            const int64_t t = (row + r) / set.J, j = (row + r) % set.J;
            const T* z = scratch.z.data() + r * K;
            const bool learns = block.start + t >= block.delay;
            step(p, block, scratch, t, j, z, block.delay ? scratch.past.data() + r * K : z, learns);
            if (j == set.J - 1 && learns) theta[p].swap(scratch.next);
        }
    }

    // Predict at z, then learn the sample whose features are `past`.
    void step(int64_t p, const Block<T>& block, Scratch& scratch, int64_t t, int64_t j, const T* z, const T* past, bool learns) {
        const T* th = theta[p].data();
        T* edge = e[p].data() + t * int64_t(near.size()) + first[j];
        T* guess = f[p].data() + t * set.J + j;
        if (!learns) {
            *guess = 0;  // nothing has been learnt yet
            return;
        }
        const bool dual = block.start + t > block.delay;
        const int64_t* nb = near.data() + first[j];
        const int64_t deg = first[j + 1] - first[j];
        T* m = mu[p].data() + j * K;
        T* v = scratch.v.data();
        const double y = double(block.y[j * block.y_learner + (t - block.delay) * block.y_round]);
        T u, fp, norm;
        if (block.delay)
            sweep<true>(th, j, nb, deg, z, past, m, v, dual, edge, guess, u, fp, norm);
        else
            sweep<false>(th, j, nb, deg, z, past, m, v, dual, edge, guess, u, fp, norm);
        const double a = set.mu > 0 ? set.mu * slope(set, double(fp), y) : prox(set, c[j] * double(u), c[j], y) / c[j];
        if (stores_losses(block))
            loss[p].data()[t * set.J + j] = T(value(set, double(fp), y) + set.reg * double(norm));
        const Vec<T> pushed = all(T(-a));
        T* out = scratch.next.data() + j * K;
        for (int64_t k = 0; k < K; k += WIDTH<T>) store(out + k, load(v + k) + pushed * load(past + k));
    }

    // All that needs the old estimates, in one pass over them.
    template <bool DELAYED>
    void sweep(const T* th, int64_t j, const int64_t* nb, int64_t deg, const T* z, const T* past, T* m, T* v, bool dual,
               T* edge, T* guess, T& u_out, T& fp_out, T& norm_out) const {
        // Neighbours in pairs of registers' worth: four at a time keeps sums and products in registers.
        const T* mine = th + j * K;
        const Vec<T> own_ = all(T(own[j])), pull_ = all(T(pull[j])), h = all(T(dual ? pull[j] : 0)), n = all(T(deg));
        constexpr int W = WIDTH<T>;
        int64_t i = 0;
        Vec<T> f_ = {}, fp = {}, u = {}, norm = {};
        bool begun = false;
        for (; i + 4 < deg; i += 4) {  // all but the last four or fewer: add into v
            gather<4>(th, nb + i, z, v, begun, edge + i);
            begun = true;
        }
        const int64_t rest = deg - i;
        const T* t0 = rest > 0 ? th + nb[i] * K : mine;
        const T* t1 = rest > 1 ? th + nb[i + 1] * K : mine;
        const T* t2 = rest > 2 ? th + nb[i + 2] * K : mine;
        const T* t3 = rest > 3 ? th + nb[i + 3] * K : mine;
        Vec<T> e0 = {}, e1 = {}, e2 = {}, e3 = {};
        auto body = [&](auto count) {
            constexpr int N = decltype(count)::value;
            for (int64_t k = 0; k < K; k += W) {
                const Vec<T> zk = load(z + k), tk = load(mine + k);
                Vec<T> s = begun ? load(v + k) : Vec<T>{};
                if constexpr (N > 0) { const Vec<T> a = load(t0 + k); s += a; e0 += a * zk; }
                if constexpr (N > 1) { const Vec<T> a = load(t1 + k); s += a; e1 += a * zk; }
                if constexpr (N > 2) { const Vec<T> a = load(t2 + k); s += a; e2 += a * zk; }
                if constexpr (N > 3) { const Vec<T> a = load(t3 + k); s += a; e3 += a * zk; }
                const Vec<T> mk = load(m + k) + h * (n * tk - s);
                const Vec<T> vk = own_ * tk + pull_ * s - mk;
                store(m + k, mk);
                store(v + k, vk);
                f_ += tk * zk;
                if constexpr (DELAYED) {
                    const Vec<T> pk = load(past + k);
                    fp += tk * pk;
                    u += vk * pk;
                } else {
                    u += vk * zk;
                }
                norm += tk * tk;
            }
        };
        switch (rest) {
            case 0: body(std::integral_constant<int, 0>{}); break;
            case 1: body(std::integral_constant<int, 1>{}); break;
            case 2: body(std::integral_constant<int, 2>{}); break;
            case 3: body(std::integral_constant<int, 3>{}); break;
            default: body(std::integral_constant<int, 4>{}); break;
        }
        if (rest > 0) edge[i] = sum<T>(e0);
        if (rest > 1) edge[i + 1] = sum<T>(e1);
        if (rest > 2) edge[i + 2] = sum<T>(e2);
        if (rest > 3) edge[i + 3] = sum<T>(e3);
        *guess = sum<T>(f_);
        u_out = sum<T>(u);
        fp_out = DELAYED ? sum<T>(fp) : *guess;
        norm_out = sum<T>(norm);
    }

    template <int N> void gather(const T* th, const int64_t* nb, const T* z, T* s, bool begun, T* edge) const {
        Vec<T> products[N] = {};
        for (int64_t k = 0; k < K; k += WIDTH<T>) {
            const Vec<T> zk = load(z + k);
            Vec<T> total = begun ? load(s + k) : Vec<T>{};
#pragma GCC unroll 4
            for (int i = 0; i < N; ++i) {
                const Vec<T> a = load(th + nb[i] * K + k);
                total += a;
                products[i] += a * zk;
            }
            store(s + k, total);
        }
        for (int i = 0; i < N; ++i) edge[i] = sum<T>(products[i]);
    }

    // ---- Hedge, after all kernels have run through the block ----------------------------------

    void hedge(const Block<T>& block) {
        std::vector<double> total(set.J * set.P);
        for (int64_t t = 0; t < block.rounds; ++t) {
            for (int64_t j = 0; j < set.J; ++j) record(block, t, j);
            if (block.start + t < block.delay) continue;
            started = true;
            for (int64_t j = 0; j < set.J; ++j) add_losses(block, t, j);
            totals(total);
            for (int64_t j = 0; j < set.J; ++j) weigh(total.data() + j * set.P, q_.data() + j * set.P);
        }
    }

    void record(const Block<T>& block, int64_t t, int64_t j) {
        const int64_t begin = first[j], end = first[j + 1], P = set.P;
        const double deg = double(end - begin), y = double(block.y[j * block.y_learner + t * block.y_round]);
        const bool blank = block.start + t < block.delay;
        double y_hat = 0, others = 0;
        for (int64_t p = 0; p < P; ++p) {
            const double fp = double(f[p].data()[t * set.J + j]);
            const T* edge = e[p].data() + t * int64_t(near.size());
            double seen = 0;
            if (!blank)
                for (int64_t i = begin; i < end; ++i) {
                    seen += double(edge[i]);
                    others += q_[near[i] * P + p] * double(edge[i]);
                }
            y_hat += q_[j * P + p] * fp;
            block.kernel_squares[j * P + p] += (fp - y) * (fp - y);
            const double gap = deg * fp - seen;
            block.kernel_gaps[j * P + p] += gap * gap;
        }
        block.y_hat[j * block.y_hat_learner + t] = T(y_hat);
        block.squares[j] += (y_hat - y) * (y_hat - y);
        block.gaps[j] += (deg * y_hat - others) * (deg * y_hat - others);
    }

    void add_losses(const Block<T>& block, int64_t t, int64_t j) {
        const double y = double(block.y[j * block.y_learner + t * block.y_round]);
        const bool stored = stores_losses(block);
        for (int64_t p = 0; p < set.P; ++p) {
            const int64_t at = t * set.J + j;
            L_[j * set.P + p] += stored ? double(loss[p].data()[at]) : value(set, double(f[p].data()[at]), y);
        }
    }

    void totals(std::vector<double>& total) {
        const int64_t P = set.P;
        std::copy(L_.begin(), L_.end(), total.begin());
        if (set.rule == Rule::local) return;
        for (int64_t j = 0; j < set.J; ++j)
            for (int64_t i = first[j]; i < first[j + 1]; ++i)
                for (int64_t p = 0; p < P; ++p)
                    total[j * P + p] += set.rule == Rule::neighbours ? L_[near[i] * P + p] : messages[i * P + p];
        if (set.rule != Rule::messages) return;
        std::vector<double> sent(messages.size());
        for (size_t i = 0; i < near.size(); ++i)
            for (int64_t p = 0; p < P; ++p) sent[i * P + p] = total[near[i] * P + p] - messages[reverse[i] * P + p];
        messages.swap(sent);
    }

    void weigh(const double* total, double* q) const {
        double least = total[0], all_ = 0;
        for (int64_t p = 1; p < set.P; ++p) least = std::min(least, total[p]);
        for (int64_t p = 0; p < set.P; ++p) all_ += q[p] = std::exp((least - total[p]) / set.eta_g);
        for (int64_t p = 0; p < set.P; ++p) q[p] /= all_;
    }

    // ---- handing the state out ------------------------------------------------------------------

    void unpad(const Buffer<T>& from, int64_t j, T* to, T factor) const {
        if (!from.size()) return;
        const T* row = from.data() + j * K;
        for (int64_t k = 0; k < set.D; ++k) to[k] = factor * row[k], to[set.D + k] = factor * row[Dp + k];
    }

    void complete_dual(int64_t p, int64_t j, T* lam) const {
        if (!theta[p].size() || set.mu > 0) return;
        const T half = T(set.rho / 2), n = T(first[j + 1] - first[j]);
        const T* th = theta[p].data();
        for (int64_t k = 0; k < 2 * set.D; ++k) {
            const int64_t at = k < set.D ? k : k - set.D + Dp;
            T s = 0;
            for (int64_t i = first[j]; i < first[j + 1]; ++i) s += th[near[i] * K + at];
            lam[k] += half * (n * th[j * K + at] - s);
        }
    }

    Setting set;
    std::vector<int64_t> first, near, reverse;
    int64_t Dp = 0, K = 0;
    Buffer<T> packed, scale;
    std::vector<Buffer<T>> theta, mu;    // for each kernel (J, K)
    std::vector<Buffer<T>> f, e, loss;   // for each kernel, of the current block
    std::vector<double> c, own, pull;    // (J,)
    std::vector<double> L_, q_, messages;
    bool started = false;
};

template <class T> std::unique_ptr<Engine<T>> make(const Setting& setting, const T* V) {
    return std::make_unique<Network<T>>(setting, V);
}
template std::unique_ptr<Engine<double>> make(const Setting&, const double*);
template std::unique_ptr<Engine<float>> make(const Setting&, const float*);

}  // namespace DOMKL_ISA
}  // namespace domkl
