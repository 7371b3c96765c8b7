// A network, by blocks of rounds, kernel by kernel.
//
// Kernels meet only in Hedge, so each runs through the whole block by itself: features of 64 samples at
// a time, then the local steps of those samples. What Hedge needs, each kernel's predictions at each
// learner and across each edge, is kept and used afterwards, round by round.
#include "engine.hpp"

#include <atomic>
#include <stdexcept>

#include "features.hpp"
#include "inverses.hpp"
#include "meeting.hpp"
#include "newton.hpp"
#include "step.hpp"
#include "together.hpp"

namespace domkl {
namespace DOMKL_ISA {

constexpr int64_t FAR = int64_t(1) << 24;   // bytes of theta that caches no longer hold
constexpr int64_t SHARE = 256;              // learners that a thread has at least, where a round is shared
constexpr int64_t ROOM = int64_t(1) << 28;  // bytes for the states of kernels at work

template <class T> class Network final : public Engine<T> {
  public:
    DOMKL_SELDOM Network(const Setting& setting, const T* V)
        : set(setting), V(setting, V), theta(set.P), mu(set.P), m(set.P), inverses(set.P), f(set.P), e(set.P),
          loss(set.P) {
        far = set.J * this->V.K * int64_t(sizeof(T)) > FAR;
        first.assign(set.first, set.first + set.J + 1);
        near.assign(set.near, set.near + first.back());
        reverse.assign(set.reverse, set.reverse + first.back());
        for (int64_t j = 0; j < set.J; ++j) pulls.emplace_back(set, double(degree(j)));
        L_.assign(set.J * set.P, 0.0);
        q_.assign(set.J * set.P, 1.0 / double(set.P));
        if (set.rule == Rule::messages) messages.assign(near.size() * set.P, 0.0);
    }

    void advance(const Block<T>& block) override {
        run_kernels(block);
        hedge(block);
    }

    DOMKL_SELDOM void state(T* out_theta, T* out_lam) const override {
        Buffer<T> m(V.K);
        for (int64_t j = 0; j < set.J; ++j)
            for (int64_t p = 0; p < set.P; ++p) {
                const int64_t to = (j * set.P + p) * 2 * V.D;
                if (!theta[p].size()) continue;
                V.unpad(theta[p].data() + j * V.K, out_theta + to, T(1));
                complete_dual(p, j, m.data());
                V.unpad(m.data(), out_lam + to, T(pulls[j].c));
            }
    }

    const double* L() const override { return L_.data(); }
    const double* q() const override { return q_.data(); }

    DOMKL_SELDOM void inverse(int64_t p, T* dense) override {
        for (auto& one : inverses[p]) one.dense(dense), dense += 4 * V.D * V.D;
    }

    DOMKL_SELDOM void replace(int64_t p, const T* dense, T keep) override {
        for (auto& one : inverses[p]) one.replace(dense), dense += 4 * V.D * V.D;
        for (size_t k = 0; k < m[p].size(); ++k) m[p].data()[k] *= keep;
    }

  private:
    struct Scratch {  // of a thread
        Buffer<T> z, past, v, newton;
    };
    struct Spare {  // of a kernel at work: theta' of this round, and what the kernel before has left
        Buffer<T> next, theta, mu;
    };

    int64_t degree(int64_t j) const { return first[j + 1] - first[j]; }
    bool stores_losses(const Block<T>& block) const { return block.delay > 0 || set.reg > 0; }
    bool learns(const Block<T>& block, int64_t t) const { return block.start + t >= block.delay; }

    // Threads that the learners of a round are shared among: each must be worth a meeting at the round's end.
    int64_t sharers() const { return std::clamp<int64_t>(set.J / SHARE, 1, set.threads); }

    // Kernels that run side by side, a thread each. The others' learners are shared among all threads: those
    // left over at the end, or all, where so many states would fill the memory that `keep` saves.
    int64_t whole_kernels() const {
        const int64_t each = (set.newton ? 4 + V.D : 3) * set.J * V.K * int64_t(sizeof(T));
        if (!set.keep && set.threads * each > ROOM) return 0;
        return sharers() < set.threads ? set.P : set.P - set.P % set.threads;
    }

    struct Part {  // some rounds of a kernel
        int64_t p, from, to;
    };

    // The kernels so that n threads have as much to do, however many there are: where one is left over for
    // several threads, its first rounds come before all else and its last ones at the end.
    static std::vector<Part> parts(int64_t kernels, int64_t n, int64_t rounds) {
        std::vector<Part> early, between, late;
        std::vector<int64_t> cut(kernels, 0);
        for (int64_t i = 1; i < n; ++i) cut[i * kernels / n] = rounds - i * kernels % n * rounds / n;
        for (int64_t p = 0; p < kernels; ++p) {
            const bool whole = cut[p] == 0 || cut[p] == rounds;
            if (whole) between.push_back({p, 0, rounds});
            else early.push_back({p, 0, cut[p]}), late.push_back({p, cut[p], rounds});
        }
        early.insert(early.end(), between.begin(), between.end());
        early.insert(early.end(), late.begin(), late.end());
        return early;
    }

    void run_kernels(const Block<T>& block) {
        const int64_t whole = whole_kernels(), n = std::clamp<int64_t>(whole, 1, set.threads);
        const std::vector<Part> todo = parts(whole, n, block.rounds);
        std::atomic<int64_t> next{0};
        std::vector<Spare> spares(n);
        Progress progress(whole);
        together(n, [&](int64_t me) {
            Scratch scratch;
            for (int64_t i; (i = next++) < int64_t(todo.size());) {
                progress.wait(todo[i].p, todo[i].from);
                kernel(todo[i], block, scratch, spares[me]);
                progress.tell(todo[i].p, todo[i].to);
            }
        });
        for (int64_t p = whole; p < set.P; ++p) shared(p, block, spares[0]);
    }

    static void fit(Buffer<T>& buffer, size_t size, Pages pages = Pages::small) {
        if (buffer.size() != size) buffer = Buffer<T>(size, pages);
    }

    // A zeroed buffer; the old one again where there is one.
    static Buffer<T> blank(Buffer<T>& old, size_t size, Pages pages) {
        if (old.size() != size) return Buffer<T>(size, pages);
        std::memset(static_cast<void*>(old.data()), 0, size * sizeof(T));
        return std::move(old);
    }

    void kernel(const Part& part, const Block<T>& block, Scratch& scratch, Spare& spare) {
        const int64_t p = part.p, last = part.to * set.J;
        begin(p, block, spare);
        prepare(block, scratch);
        for (int64_t row = part.from * set.J; row < last; row += TILE)
            tile(p, block, scratch, spare.next, row, std::min<int64_t>(TILE, last - row),
                 [&] { theta[p].swap(spare.next); });
        if (part.to == block.rounds) end(p, spare);
    }

    // One kernel by several threads, each with its part of the learners.
    void shared(int64_t p, const Block<T>& block, Spare& spare) {
        begin(p, block, spare);
        const int64_t n = sharers();
        Meeting meeting(n);
        together(n, [&](int64_t me) {
            Scratch scratch;
            prepare(block, scratch);
            const int64_t from = set.J * me / n, to = set.J * (me + 1) / n;
            for (int64_t t = 0; t < block.rounds; ++t) {
                for (int64_t j = from; j < to; j += TILE)
                    tile(p, block, scratch, spare.next, t * set.J + j, std::min<int64_t>(TILE, to - j),
                         [] {});
                meeting.wait([&] {
                    if (learns(block, t)) theta[p].swap(spare.next);
                });
            }
        });
        end(p, spare);
    }

    void begin(int64_t p, const Block<T>& block, Spare& spare) {
        const size_t cells = size_t(block.rounds) * set.J, size = size_t(set.J) * V.K;
        fit(f[p], cells);
        fit(e[p], size_t(block.rounds) * near.size());
        if (stores_losses(block)) fit(loss[p], cells);
        if (!theta[p].size()) {
            theta[p] = blank(spare.theta, size, Pages::huge);
            mu[p] = blank(spare.mu, size, Pages::small);
            if (set.newton) begin_newton(p);
        }
        fit(spare.next, size, Pages::huge);
    }

    DOMKL_SELDOM void begin_newton(int64_t p) {
        m[p] = Buffer<T>(size_t(set.J) * width(V));
        for (int64_t j = 0; j < set.J; ++j) {
            inverses[p].emplace_back(2 * V.D);
            inverses[p].back().diagonal(T(1 / ridge(set, double(degree(j)))));
        }
    }

    void prepare(const Block<T>& block, Scratch& scratch) const {
        fit(scratch.z, TILE * V.K);
        if (block.delay) fit(scratch.past, TILE * V.K);
        fit(scratch.v, V.K);
        if (set.newton) fit(scratch.newton, 6 * width(V));
    }

    void end(int64_t p, Spare& spare) {
        if (set.keep) return;
        spare.theta = std::move(theta[p]);  // for the next kernel, which begins at zero
        spare.mu = std::move(mu[p]);
        inverses[p].clear();
    }

    // Up to 64 samples, in order of rounds and of learners within a round.
    template <class Turn>
    void tile(int64_t p, const Block<T>& block, Scratch& scratch, Buffer<T>& next, int64_t row, int64_t n,
              const Turn& turn) {
        const T *now[TILE], *past[TILE];
        int64_t t = row / set.J, j = row % set.J;
        auto forth = [&] { return ++j < set.J ? false : (j = 0, ++t, true); };  // whether a round ends
        for (int64_t r = 0; r < n; ++r, forth()) {
            now[r] = block.x + j * block.x_learner + t * block.x_round;
            past[r] = learns(block, t) ? now[r] - block.delay * block.x_round : now[r];
        }
        features(now, int(n), V.d, V.kernel(p), V.Dp, V.scale.data(), scratch.z.data());
        if (block.delay) features(past, int(n), V.d, V.kernel(p), V.Dp, V.scale.data(), scratch.past.data());
        t = row / set.J, j = row % set.J;
        for (int64_t r = 0; r < n; ++r) {
            const T* z = scratch.z.data() + r * V.K;
            const bool learnt = learns(block, t);  // if not, all predictions are zero
            if (learnt)
                step(p, block, scratch, next.data(), t, j, z,
                     block.delay ? scratch.past.data() + r * V.K : z);
            if (forth() && learnt) turn();
        }
    }

    void step(int64_t p, const Block<T>& block, Scratch& scratch, T* next, int64_t t, int64_t j, const T* z,
              const T* past) {
        T* edge = e[p].data() + t * int64_t(near.size()) + first[j];
        T* guess = f[p].data() + t * set.J + j;
        T* v = scratch.v.data();
        const auto run = sweep_for<T>(block.delay > 0, far && j + AHEAD < set.J);
        const bool move_dual = block.start + t > block.delay;  // not before the first exchange
        const Scores s = run(theta[p].data(), V.K, j, near.data(), first.data() + j, pulls[j], move_dual, z,
                             past, mu[p].data() + j * V.K, v, edge, guess);
        const double y = label(block, t - block.delay, j);
        if (set.newton) second(p, j, Parabola(set, s.f, y), y, past, scratch, next + j * V.K);
        else move(v, past, T(pulls[j].push(set, s.u, s.f, y)), next + j * V.K, V.K);
        if (!stores_losses(block)) return;
        loss[p].data()[t * set.J + j] =
            T(set.newton ? value(set, s.f, y) : loss_of(set, s.f, y, theta[p].data() + j * V.K, V.K));
    }

    void second(int64_t p, int64_t j, const Parabola& top, double y, const T* past, Scratch& scratch, T* to) {
        T* mine = m[p].data() + j * width(V);
        newton(inverses[p][j], V, top, y, past, scratch.v.data(), mine, mine, scratch.newton.data(), to);
        inverses[p][j].lower();
    }

    static double label(const Block<T>& block, int64_t t, int64_t j) {
        return double(block.y[j * block.y_learner + t * block.y_round]);
    }

    // ---- Hedge, after all kernels have run through the block ----

    void hedge(const Block<T>& block) {
        const int64_t n = set.rule == Rule::messages ? 1 : sharers();  // messages cross each other
        std::vector<double> total(set.J * set.P);
        Meeting meeting(n);
        together(n, [&](int64_t me) {
            const int64_t from = set.J * me / n, to = set.J * (me + 1) / n;
            for (int64_t t = 0; t < block.rounds; ++t) {
                const bool blank = !learns(block, t);
                for (int64_t j = from; j < to; ++j) record(block, t, j, blank);
                for (int64_t j = from; !blank && j < to; ++j) add_losses(block, t, j);
                meeting.wait();  // for the weights to be read, and the losses to be written, by all
                if (!blank) totals(total, from, to);
                for (int64_t j = from; !blank && j < to; ++j)
                    weigh(total.data() + j * set.P, set.P, set.eta_g, q_.data() + j * set.P);
                meeting.wait();
            }
        });
        exchanged = exchanged || learns(block, block.rounds - 1);
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
    void totals(std::vector<double>& total, int64_t from, int64_t to) {
        const int64_t P = set.P;
        if (set.rule == Rule::local)
            std::copy(&L_[from * P], &L_[from * P] + (to - from) * P, &total[from * P]);
        for (int64_t j = from; set.rule != Rule::local && j < to; ++j)
            for (int64_t p = 0; p < P; ++p) {
                double others = 0;
                for (int64_t i = first[j]; i < first[j + 1]; ++i)
                    others += set.rule == Rule::neighbours ? L_[near[i] * P + p] : messages[i * P + p];
                total[j * P + p] = L_[j * P + p] + others;
            }
        if (set.rule != Rule::messages) return;
        std::vector<double> sent(messages.size());
        for (size_t i = 0; i < near.size(); ++i)
            for (int64_t p = 0; p < P; ++p)
                sent[i * P + p] = total[near[i] * P + p] - messages[reverse[i] * P + p];
        messages.swap(sent);
    }

    // mu of one learner and kernel, with the dual step that the next round would have made.
    void complete_dual(int64_t p, int64_t j, T* m) const {
        const T *th = theta[p].data(), *lag = mu[p].data() + j * V.K;
        const Vec<T> h = all(T(exchanged ? pulls[j].pull : 0)), n = all(T(degree(j)));
        for (int64_t k = 0; k < V.K; k += WIDTH<T>) {
            Vec<T> s = {};
            for (int64_t i = first[j]; i < first[j + 1]; ++i) s += load(th + near[i] * V.K + k);
            store(m + k, dual<T>(load(lag + k), h, n, load(th + j * V.K + k), s));
        }
    }

    Setting set;
    Dictionary<T> V;
    std::vector<int64_t> first, near, reverse;
    std::vector<Pulls> pulls;                       // (J,)
    std::vector<Buffer<T>> theta, mu, m;            // for each kernel (J, K)
    std::vector<std::vector<Inverse<T>>> inverses;  // for each kernel (J,)
    std::vector<Buffer<T>> f, e, loss;              // for each kernel, of the current block
    std::vector<double> L_, q_, messages;
    bool far;                // whether neighbours' rows come from memory
    bool exchanged = false;  // whether any theta has been exchanged
};

// The same learner, alone: row 0 of theta is its own, the others are what it last heard.
template <class T> class Lone final : public Device<T> {
  public:
    DOMKL_SELDOM Lone(const Setting& setting, const T* V)
        : set(setting), V(setting, V), deg(setting.first[1]), first{0, deg}, pulls(setting, double(deg)),
          theta(set.P * (1 + deg) * this->V.K), next(set.P * this->V.K), mu(set.P * this->V.K),
          z(set.P * this->V.K), v(this->V.K), x_(set.d) {
        for (int64_t i = 0; i < deg; ++i) near.push_back(1 + i);
        edge.resize(deg + 1);
        f.resize(set.P);
        L_.assign(set.P, 0.0);
        new_L.assign(set.P, 0.0);
        q_.assign(set.P, 1.0 / double(set.P));
        if (set.newton) begin_newton();
    }

    double predict(const T* x) override {
        look(x);
        return double(T(guess()));
    }

    double observe(const T* x, double y, T* out_theta, double* out_L) override {
        look(x);
        const auto run = sweep_for<T>(false, false);
        double y_hat = deg == 0 ? guess() : 0, zero = 0;
        for (int64_t p = 0; p < set.P; ++p) {
            const T* zp = z.data() + p * V.K;
            const Scores s = deg == 0 ? alone(p)
                                      : run(rows(p), V.K, 0, near.data(), first, pulls, false, zp, zp,
                                            mu.data() + p * V.K, v.data(), edge.data(), &f[p]);
            if (deg > 0) y_hat += q_[p] * double(f[p]);
            T* to = next.data() + p * V.K;
            if (set.newton) zero += second(p, Parabola(set, s.f, y), y, to);
            else move(v.data(), zp, T(pulls.push(set, s.u, s.f, y)), to, V.K);
            const double lost = set.newton ? value(set, s.f, y) : loss_of(set, s.f, y, own(p), V.K);
            out_L[p] = new_L[p] = L_[p] + (set.reg > 0 ? double(T(lost)) : lost);
            if (out_theta) V.unpad(to, out_theta + p * 2 * V.D);  // nobody hears a learner without neighbours
            zero += new_L[p] * 0;  // not 0 once a loss is infinite or no number
        }
        if (zero != 0) throw std::invalid_argument("the losses or the estimate overflowed");
        return double(T(y_hat));
    }

    void hear(int64_t i, const T* heard) override {
        for (int64_t p = 0; p < set.P; ++p) V.pad(heard + p * 2 * V.D, rows(p) + (1 + i) * V.K);
    }

    void close(const bool* heard, const double* total) override {
        guessed = false;
        L_ = new_L;
        weigh(total, set.P, set.eta_g, q_.data());
        if (set.newton) lower();
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

    DOMKL_SELDOM void state(T* out_theta, T* out_lam, T* out_sum) const override {
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
        guessed = false;
    }

    const double* L() const override { return L_.data(); }
    const double* q() const override { return q_.data(); }

    void past(T* out) const override {
        for (int64_t p = 0; p < set.P; ++p) std::copy_n(m.data() + p * width(V), 2 * V.D, out + p * 2 * V.D);
    }
    void resume_past(const T* from) override {
        for (int64_t p = 0; p < set.P; ++p) std::copy_n(from + p * 2 * V.D, 2 * V.D, m.data() + p * width(V));
    }
    std::shared_ptr<Inverses<T>> inverses() const override { return matrices; }

  private:
    DOMKL_SELDOM void begin_newton() {
        m = Buffer<T>(set.P * width(V)), next_m = Buffer<T>(set.P * width(V)), room = Buffer<T>(6 * width(V));
        matrices = std::make_shared<Many<T>>(set.P, 2 * V.D);
        for (int64_t p = 0; p < set.P; ++p) (*matrices)[p].diagonal(T(1 / ridge(set, double(deg))));
    }

    // Leaves m and the matrix as they are: the sample may still be refused. Not 0 where theta' overflows.
    double second(int64_t p, const Parabola& top, double y, T* to) {
        const int64_t at = p * width(V);
        newton((*matrices)[p], V, top, y, z.data() + p * V.K, v.data(), m.data() + at, next_m.data() + at,
               room.data(), to);
        return double(zero_of(to, V.K));
    }
    void lower() {
        m.swap(next_m);
        for (int64_t p = 0; p < set.P; ++p) (*matrices)[p].lower();
    }

    T* rows(int64_t p) { return theta.data() + p * (1 + deg) * V.K; }
    const T* own(int64_t p) { return rows(p); }

    // Features of x, unless they are those of the last x.
    void look(const T* x) {
        if (seen && std::equal(x, x + set.d, x_.data())) return;
        for (int64_t p = 0; p < set.P; ++p)
            features(&x, 1, V.d, V.kernel(p), V.Dp, V.scale.data(), z.data() + p * V.K);
        std::copy_n(x, set.d, x_.data());
        seen = true, guessed = false;
    }

    // Every kernel's prediction and their mixture, unless known for this x and this theta. One loop: for a
    // loop of its own the mixture would be compiled otherwise than in the simulator, and round otherwise.
    double guess() {
        if (guessed) return guess_;
        guess_ = 0;
        for (int64_t p = 0; p < set.P; ++p) {
            f[p] = dot(own(p), z.data() + p * V.K, V.K);
            guess_ += q_[p] * double(f[p]);
        }
        guessed = true;
        return guess_;
    }

    // What `sweep` does for a learner without neighbours, whose prediction is known.
    Scores alone(int64_t p) {
        const T* mine = own(p);
        const Vec<T> keep = all(T(pulls.own));
        for (int64_t k = 0; k < V.K; k += WIDTH<T>) store(v.data() + k, keep * load(mine + k));
        return {pulls.own * double(f[p]), double(f[p])};
    }

    Setting set;
    Dictionary<T> V;
    int64_t deg, first[2];
    Pulls pulls;
    Buffer<T> theta, next, mu, z, v, x_;
    Buffer<T> m, next_m, room;  // (P, width) twice, (6 width); of the second-order step
    std::shared_ptr<Many<T>> matrices;
    std::vector<int64_t> near;
    std::vector<T> edge, f;
    std::vector<double> L_, new_L, q_;
    bool seen = false, guessed = false;
    double guess_ = 0;
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
