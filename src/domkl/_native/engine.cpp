// A network, by blocks of rounds, kernel by kernel.
//
// Kernels meet only in Hedge, so each runs through the whole block by itself: features of 64 samples at
// a time, then the local steps of those samples. What Hedge needs, each kernel's predictions at each
// learner and across each edge, is kept and used afterwards, round by round.
#include "engine.hpp"

#include <atomic>
#include <stdexcept>
#include <thread>

#include "features.hpp"
#include "step.hpp"

namespace domkl {
namespace DOMKL_ISA {

constexpr int64_t ROOM = int64_t(1) << 28;  // bytes for the states of kernels at work

template <class T> class Network final : public Engine<T> {
  public:
    Network(const Setting& setting, const T* V) : set(setting), V(setting, V), theta(set.P), mu(set.P), f(set.P), e(set.P), loss(set.P) {
        first.assign(set.first, set.first + set.J + 1);
        near.assign(set.near, set.near + first.back());
        reverse.assign(set.reverse, set.reverse + first.back());
        for (int64_t j = 0; j < set.J; ++j) pulls.emplace_back(set, double(degree(j)));
        L_.assign(set.J * set.P, 0.0);
        q_.assign(set.J * set.P, 1.0 / double(set.P));
        if (set.rule == Rule::messages) messages.assign(near.size() * set.P, 0.0);
    }

    void advance(const Block<T>& block) override {
        std::atomic<int64_t> next{0};
        auto work = [&] {
            Scratch scratch;
            for (int64_t p; (p = next++) < set.P;) kernel(p, block, scratch);
        };
        std::vector<std::thread> others;
        for (int64_t k = 1; k < side_by_side(); ++k) others.emplace_back(work);
        work();
        for (auto& other : others) other.join();
        hedge(block);
    }

    void state(T* out_theta, T* out_lam) const override {
        for (int64_t j = 0; j < set.J; ++j)
            for (int64_t p = 0; p < set.P; ++p) {
                const int64_t to = (j * set.P + p) * 2 * V.D;
                if (!theta[p].size()) continue;
                V.unpad(theta[p].data() + j * V.K, out_theta + to, T(1));
                const Buffer<T> m = complete_dual(p, j);
                V.unpad(m.data(), out_lam + to, T(pulls[j].c));
            }
    }

    const double* L() const override { return L_.data(); }
    const double* q() const override { return q_.data(); }

  private:
    struct Scratch {
        Buffer<T> next, z, past, v, old_theta, old_mu;
    };

    int64_t degree(int64_t j) const { return first[j + 1] - first[j]; }
    bool stores_losses(const Block<T>& block) const { return block.delay > 0 || set.reg > 0; }
    bool learns(const Block<T>& block, int64_t t) const { return block.start + t >= block.delay; }

    // Kernels at a time: as many as threads, unless their states would fill the memory that `keep` saves.
    int64_t side_by_side() const {
        const int64_t each = 3 * set.J * V.K * int64_t(sizeof(T)), most = std::min<int64_t>(set.threads, set.P);
        return set.keep ? most : std::clamp<int64_t>(ROOM / each, 1, most);
    }

    static void fit(Buffer<T>& buffer, size_t size) {
        if (buffer.size() != size) buffer = Buffer<T>(size);
    }

    // A zeroed buffer; the old one again where there is one.
    static Buffer<T> blank(Buffer<T>& old, size_t size) {
        if (old.size() != size) return Buffer<T>(size);
        std::memset(static_cast<void*>(old.data()), 0, size * sizeof(T));
        return std::move(old);
    }

    void kernel(int64_t p, const Block<T>& block, Scratch& scratch) {
        const size_t cells = size_t(block.rounds) * set.J, size = size_t(set.J) * V.K;
        fit(f[p], cells);
        fit(e[p], size_t(block.rounds) * near.size());
        if (stores_losses(block)) fit(loss[p], cells);
        if (!theta[p].size()) {
            theta[p] = blank(scratch.old_theta, size);
            mu[p] = blank(scratch.old_mu, size);
        }
        fit(scratch.next, size);
        fit(scratch.z, TILE * V.K);
        if (block.delay) fit(scratch.past, TILE * V.K);
        fit(scratch.v, V.K);
        for (int64_t row = 0; row < int64_t(cells); row += TILE) tile(p, block, scratch, row, std::min<int64_t>(TILE, cells - row));
        if (set.keep) return;
        scratch.old_theta = std::move(theta[p]);  // for the next kernel, which begins at zero
        scratch.old_mu = std::move(mu[p]);
    }

    void tile(int64_t p, const Block<T>& block, Scratch& scratch, int64_t row, int64_t n) {
        const T *now[TILE], *past[TILE];
        for (int64_t r = 0; r < n; ++r) {
            const int64_t t = (row + r) / set.J, j = (row + r) % set.J;
            now[r] = block.x + j * block.x_learner + t * block.x_round;
            past[r] = learns(block, t) ? now[r] - block.delay * block.x_round : now[r];
        }
        features(now, int(n), V.d, V.kernel(p), V.Dp, V.scale.data(), scratch.z.data());
        if (block.delay) features(past, int(n), V.d, V.kernel(p), V.Dp, V.scale.data(), scratch.past.data());
        for (int64_t r = 0; r < n; ++r) {
            const int64_t t = (row + r) / set.J, j = (row + r) % set.J;
            const T* z = scratch.z.data() + r * V.K;
            if (!learns(block, t)) continue;  // nothing has been learnt: all predictions are zero
            step(p, block, scratch, t, j, z, block.delay ? scratch.past.data() + r * V.K : z);
            if (j == set.J - 1) theta[p].swap(scratch.next);
        }
    }

    void step(int64_t p, const Block<T>& block, Scratch& scratch, int64_t t, int64_t j, const T* z, const T* past) {
        T* edge = e[p].data() + t * int64_t(near.size()) + first[j];
        T* guess = f[p].data() + t * set.J + j;
        auto run = set.reg > 0 ? (block.delay ? sweep<T, true, true> : sweep<T, false, true>)
                               : (block.delay ? sweep<T, true, false> : sweep<T, false, false>);
        const bool move_dual = block.start + t > block.delay;  // not before the first exchange
        const Scores s = run(theta[p].data(), V.K, j, near.data() + first[j], degree(j), pulls[j], move_dual, z, past,
                             mu[p].data() + j * V.K, scratch.v.data(), edge, guess);
        const double y = label(block, t - block.delay, j);
        move(scratch.v.data(), past, T(pulls[j].push(set, s.u, s.f, y)), scratch.next.data() + j * V.K, V.K);
        if (stores_losses(block)) loss[p].data()[t * set.J + j] = T(value(set, s.f, y) + set.reg * s.norm);
    }

    static double label(const Block<T>& block, int64_t t, int64_t j) {
        return double(block.y[j * block.y_learner + t * block.y_round]);
    }

    // ---- Hedge, after all kernels have run through the block ----

    void hedge(const Block<T>& block) {
        std::vector<double> total(set.J * set.P);
        for (int64_t t = 0; t < block.rounds; ++t) {
            const bool blank = !learns(block, t);
            for (int64_t j = 0; j < set.J; ++j) record(block, t, j, blank);
            if (blank) continue;
            exchanged = true;
            for (int64_t j = 0; j < set.J; ++j) add_losses(block, t, j);
            totals(total);
            for (int64_t j = 0; j < set.J; ++j) weigh(total.data() + j * set.P, set.P, set.eta_g, q_.data() + j * set.P);
        }
    }

    void record(const Block<T>& block, int64_t t, int64_t j, bool blank) {
        const int64_t P = set.P;
        const double deg = double(degree(j)), y = label(block, t, j);
        double y_hat = 0, others = 0;
        for (int64_t p = 0; p < P; ++p) {
            const double fp = blank ? 0 : double(f[p].data()[t * set.J + j]);
            const T* edge = e[p].data() + t * int64_t(near.size());
            double seen = 0;
            for (int64_t i = first[j]; !blank && i < first[j + 1]; ++i) {
                seen += double(edge[i]);
                others += q_[near[i] * P + p] * double(edge[i]);
            }
            y_hat += q_[j * P + p] * fp;
            block.kernel_squares[j * P + p] += (fp - y) * (fp - y);
            block.kernel_gaps[j * P + p] += (deg * fp - seen) * (deg * fp - seen);
        }
        block.y_hat[j * block.y_hat_learner + t] = T(y_hat);
        block.squares[j] += (y_hat - y) * (y_hat - y);
        block.gaps[j] += (deg * y_hat - others) * (deg * y_hat - others);
    }

    void add_losses(const Block<T>& block, int64_t t, int64_t j) {
        const bool stored = stores_losses(block);
        const double y = label(block, t, j);
        const int64_t at = t * set.J + j;
        for (int64_t p = 0; p < set.P; ++p)
            L_[j * set.P + p] += stored ? double(loss[p].data()[at]) : value(set, double(f[p].data()[at]), y);
    }

    // The losses that enter the exponent: own, plus what the rule counts of the others, summed in order.
    void totals(std::vector<double>& total) {
        const int64_t P = set.P;
        if (set.rule == Rule::local) std::copy(L_.begin(), L_.end(), total.begin());
        for (int64_t j = 0; set.rule != Rule::local && j < set.J; ++j)
            for (int64_t p = 0; p < P; ++p) {
                double others = 0;
                for (int64_t i = first[j]; i < first[j + 1]; ++i)
                    others += set.rule == Rule::neighbours ? L_[near[i] * P + p] : messages[i * P + p];
                total[j * P + p] = L_[j * P + p] + others;
            }
        if (set.rule != Rule::messages) return;
        std::vector<double> sent(messages.size());
        for (size_t i = 0; i < near.size(); ++i)
            for (int64_t p = 0; p < P; ++p) sent[i * P + p] = total[near[i] * P + p] - messages[reverse[i] * P + p];
        messages.swap(sent);
    }

    // mu of one learner and kernel, with the dual step that the next round would have made.
    Buffer<T> complete_dual(int64_t p, int64_t j) const {
        Buffer<T> m(V.K);
        const T *th = theta[p].data(), *lag = mu[p].data() + j * V.K;
        const Vec<T> h = all(T(exchanged ? pulls[j].pull : 0)), n = all(T(degree(j)));
        for (int64_t k = 0; k < V.K; k += WIDTH<T>) {
            Vec<T> s = {};
            for (int64_t i = first[j]; i < first[j + 1]; ++i) s += load(th + near[i] * V.K + k);
            store(m.data() + k, dual<T>(load(lag + k), h, n, load(th + j * V.K + k), s));
        }
        return m;
    }

    Setting set;
    Dictionary<T> V;
    std::vector<int64_t> first, near, reverse;
    std::vector<Pulls> pulls;            // (J,)
    std::vector<Buffer<T>> theta, mu;    // for each kernel (J, K)
    std::vector<Buffer<T>> f, e, loss;   // for each kernel, of the current block
    std::vector<double> L_, q_, messages;
    bool exchanged = false;              // whether any theta has been exchanged
};

// The same learner, alone: row 0 of theta is its own, the others are what it last heard.
template <class T> class Lone final : public Device<T> {
  public:
    Lone(const Setting& setting, const T* V)
        : set(setting), V(setting, V), deg(setting.first[1]), pulls(setting, double(deg)), theta(set.P * (1 + deg) * this->V.K),
          next(set.P * this->V.K), mu(set.P * this->V.K), z(set.P * this->V.K), v(this->V.K), x_(set.d) {
        for (int64_t i = 0; i < deg; ++i) near.push_back(1 + i);
        edge.resize(deg + 1);
        f.resize(set.P);
        L_.assign(set.P, 0.0);
        new_L.assign(set.P, 0.0);
        q_.assign(set.P, 1.0 / double(set.P));
    }

    double predict(const T* x) override {
        look(x);
        double y_hat = 0;
        for (int64_t p = 0; p < set.P; ++p) y_hat += q_[p] * double(dot(own(p), z.data() + p * V.K, V.K));
        return double(T(y_hat));
    }

    double observe(const T* x, double y, T* out_theta, double* out_L) override {
        look(x);
        auto run = set.reg > 0 ? sweep<T, false, true> : sweep<T, false, false>;
        double y_hat = 0, zero = 0;
        for (int64_t p = 0; p < set.P; ++p) {
            const T* zp = z.data() + p * V.K;
            const Scores s = run(rows(p), V.K, 0, near.data(), deg, pulls, false, zp, zp, mu.data() + p * V.K, v.data(), edge.data(), &f[p]);
            y_hat += q_[p] * double(f[p]);
            T* to = next.data() + p * V.K;
            move(v.data(), zp, T(pulls.push(set, s.u, s.f, y)), to, V.K);
            const double lost = value(set, s.f, y) + set.reg * s.norm;
            out_L[p] = new_L[p] = L_[p] + (set.reg > 0 ? double(T(lost)) : lost);
            V.unpad(to, out_theta + p * 2 * V.D, T(1));
            zero += new_L[p] * 0;  // not 0 once a loss is infinite or no number
        }
        if (zero != 0) throw std::invalid_argument("the losses overflowed");
        return double(T(y_hat));
    }

    void hear(int64_t i, const T* heard) override {
        for (int64_t p = 0; p < set.P; ++p) V.pad(heard + p * 2 * V.D, rows(p) + (1 + i) * V.K);
    }

    void close(const bool* heard, const double* total) override {
        L_ = new_L;
        weigh(total, set.P, set.eta_g, q_.data());
        if (deg == 0) return theta.swap(next);
        int64_t count = 0;
        for (int64_t i = 0; i < deg; ++i) count += heard[i];
        const Vec<T> h = all(T(pulls.pull)), n = all(T(count));
        for (int64_t p = 0; p < set.P; ++p) {
            T *mine = rows(p), *m = mu.data() + p * V.K;
            const T* fresh = next.data() + p * V.K;
            for (int64_t k = 0; k < V.K; k += WIDTH<T>) {
                Vec<T> s = {};
                for (int64_t i = 0; i < deg; ++i)
                    if (heard[i]) s += load(mine + (1 + i) * V.K + k);
                store(mine + k, load(fresh + k));
                store(m + k, dual<T>(load(m + k), h, n, load(fresh + k), s));
            }
        }
    }

    void state(T* out_theta, T* out_lam, T* out_sum) const override {
        for (int64_t p = 0; p < set.P; ++p) {
            const int64_t to = p * 2 * V.D;
            const T* mine = theta.data() + p * (1 + deg) * V.K;
            V.unpad(mine, out_theta + to, T(1));
            V.unpad(mu.data() + p * V.K, out_lam + to, T(pulls.c));
            std::fill_n(out_sum + to, 2 * V.D, T(0));
            std::vector<T> row(2 * V.D);
            for (int64_t i = 0; i < deg; ++i) {
                V.unpad(mine + (1 + i) * V.K, row.data(), T(1));
                for (int64_t k = 0; k < 2 * V.D; ++k) out_sum[to + k] += row[k];
            }
        }
    }

    void keep(T* out_theta, T* out_mu) const override {
        for (int64_t p = 0; p < set.P; ++p) {
            V.unpad(theta.data() + p * (1 + deg) * V.K, out_theta + p * 2 * V.D, T(1));
            V.unpad(mu.data() + p * V.K, out_mu + p * 2 * V.D, T(1));
        }
    }

    void resume(const T* new_theta, const T* new_mu, const double* L, const double* q) override {
        for (int64_t p = 0; p < set.P; ++p) {
            V.pad(new_theta + p * 2 * V.D, rows(p));
            V.pad(new_mu + p * 2 * V.D, mu.data() + p * V.K);
        }
        L_.assign(L, L + set.P);
        q_.assign(q, q + set.P);
    }

    const double* L() const override { return L_.data(); }
    const double* q() const override { return q_.data(); }

  private:
    T* rows(int64_t p) { return theta.data() + p * (1 + deg) * V.K; }
    const T* own(int64_t p) { return rows(p); }

    // Features of x, unless they are those of the last x.
    void look(const T* x) {
        if (seen && std::equal(x, x + set.d, x_.data())) return;
        for (int64_t p = 0; p < set.P; ++p) features(&x, 1, V.d, V.kernel(p), V.Dp, V.scale.data(), z.data() + p * V.K);
        std::copy_n(x, set.d, x_.data());
        seen = true;
    }

    Setting set;
    Dictionary<T> V;
    int64_t deg;
    Pulls pulls;
    Buffer<T> theta, next, mu, z, v, x_;
    std::vector<int64_t> near;
    std::vector<T> edge, f;
    std::vector<double> L_, new_L, q_;
    bool seen = false;
};

template <class T> std::unique_ptr<Engine<T>> engine(const Setting& setting, const T* V) {
    return std::make_unique<Network<T>>(setting, V);
}
template <class T> std::unique_ptr<Device<T>> device(const Setting& setting, const T* V) {
    return std::make_unique<Lone<T>>(setting, V);
}
template std::unique_ptr<Engine<double>> engine(const Setting&, const double*);
template std::unique_ptr<Engine<float>> engine(const Setting&, const float*);
template std::unique_ptr<Device<double>> device(const Setting&, const double*);
template std::unique_ptr<Device<float>> device(const Setting&, const float*);

}  // namespace DOMKL_ISA
}  // namespace domkl
