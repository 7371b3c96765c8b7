// The local steps of all learners of a network, kernel by kernel.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "block.hpp"
#include "feature_map.hpp"
#include "inverse.hpp"
#include "newton.hpp"
#include "parallel.hpp"
#include "schedule.hpp"
#include "step.hpp"

namespace domkl::DOMKL_ISA {

constexpr int64_t CACHE_BYTES = int64_t(1) << 24;      // of theta, beyond which rows are prefetched
constexpr int64_t MAX_STATE_BYTES = int64_t(1) << 28;  // of kernels that run at the same time

// The state of every learner and kernel. Kernels do not depend on each other, so each runs through a whole
// block by itself: the features of TILE samples at a time, then the local steps of those samples.
template <class T> class Kernels {
  public:
    DOMKL_COLD Kernels(const Settings& settings, const Graph& graph, const T* V)
        : settings(settings), graph(graph), map(settings, V), predictions_(settings.P), theta(settings.P),
          mu(settings.P), m(settings.P), inverses(settings.P) {
        prefetches = settings.J * map.K * int64_t(sizeof(T)) > CACHE_BYTES;
        for (int64_t j = 0; j < settings.J; ++j) coef.emplace_back(settings, double(graph.degree(j)));
    }

    // Runs all kernels through the block: whole kernels, a thread each, then those whose learners are shared.
    void advance(const Block<T>& block) {
        const int64_t whole = whole_kernels(), n = std::clamp<int64_t>(whole, 1, settings.threads);
        const std::vector<Part> parts = divide_kernels(whole, n, block.rounds);
        std::atomic<int64_t> next{0};
        std::vector<Spare> spares(n);
        Progress progress(whole);
        run_threads(n, [&](int64_t thread) {
            Scratch scratch;
            for (int64_t i; (i = next++) < int64_t(parts.size());) {
                progress.wait(parts[i].p, parts[i].from);
                run_part(parts[i], block, scratch, spares[thread]);
                progress.set(parts[i].p, parts[i].to);
            }
        });
        for (int64_t p = whole; p < settings.P; ++p) run_shared(p, block, spares[0]);
        exchanged = exchanged || learns(block, block.rounds - 1);
    }

    // The kernels' predictions in the last block.
    const Predictions<T>& predictions() const { return predictions_; }

    // Writes theta and lam (J, P, 2D), except of kernels whose state was dropped.
    DOMKL_COLD void state(T* out_theta, T* out_lam) const {
        Buffer<T> dual(map.K);
        for (int64_t j = 0; j < settings.J; ++j)
            for (int64_t p = 0; p < settings.P; ++p) {
                const int64_t to = (j * settings.P + p) * 2 * map.D;
                if (!theta[p].size()) continue;
                map.unpad(theta[p].data() + j * map.K, out_theta + to, T(1));
                complete_dual(p, j, dual.data());
                map.unpad(dual.data(), out_lam + to, T(coef[j].c));
            }
    }

  private:
    struct Scratch {  // of a thread
        Buffer<T> z, past, v, newton;
    };
    struct Spare {  // of a running kernel: theta' of this round, and memory of the kernel before to use again
        Buffer<T> next, theta, mu;
    };

    // Kernels that run at the same time, a thread each. All threads share the learners of the other kernels:
    // of the remainder, or of all, if so many states would need more memory than dropping them saves.
    int64_t whole_kernels() const {
        const int64_t each = (settings.newton ? 4 + map.D : 3) * settings.J * map.K * int64_t(sizeof(T));
        if (!settings.keep_state && settings.threads * each > MAX_STATE_BYTES) return 0;
        return threads_per_round(settings) < settings.threads ? settings.P
                                                              : settings.P - settings.P % settings.threads;
    }

    // Some rounds of one kernel, by one thread.
    void run_part(const Part& part, const Block<T>& block, Scratch& scratch, Spare& spare) {
        const int64_t p = part.p, last = part.to * settings.J;
        begin_kernel(p, block, spare);
        prepare(block, scratch);
        for (int64_t row = part.from * settings.J; row < last; row += TILE)
            run_tile(p, block, scratch, spare.next, row, std::min<int64_t>(TILE, last - row),
                     [&] { theta[p].swap(spare.next); });
        if (part.to == block.rounds) end_kernel(p, spare);
    }

    // One kernel by several threads, each with some of the learners.
    void run_shared(int64_t p, const Block<T>& block, Spare& spare) {
        begin_kernel(p, block, spare);
        const int64_t n = threads_per_round(settings);
        Barrier barrier(n);
        run_threads(n, [&](int64_t thread) {
            Scratch scratch;
            prepare(block, scratch);
            const int64_t from = settings.J * thread / n, to = settings.J * (thread + 1) / n;
            for (int64_t t = 0; t < block.rounds; ++t) {
                for (int64_t j = from; j < to; j += TILE)
                    run_tile(p, block, scratch, spare.next, t * settings.J + j,
                             std::min<int64_t>(TILE, to - j), [] {});
                barrier.wait([&] {
                    if (learns(block, t)) theta[p].swap(spare.next);
                });
            }
        });
        end_kernel(p, spare);
    }

    static void resize(Buffer<T>& buffer, size_t size, Pages pages = Pages::small) {
        if (buffer.size() != size) buffer = Buffer<T>(size, pages);
    }

    // A zeroed buffer, in the old one's memory if it fits.
    static Buffer<T> zeroed(Buffer<T>& old, size_t size, Pages pages) {
        if (old.size() != size) return Buffer<T>(size, pages);
        std::memset(static_cast<void*>(old.data()), 0, size * sizeof(T));
        return std::move(old);
    }

    // Allocates what a kernel needs for the block, and its state before the first one.
    void begin_kernel(int64_t p, const Block<T>& block, Spare& spare) {
        const size_t cells = size_t(block.rounds) * settings.J, size = size_t(settings.J) * map.K;
        resize(predictions_.own[p], cells);
        resize(predictions_.across[p], size_t(block.rounds) * graph.edges());
        if (stores_losses(settings, block)) resize(predictions_.loss[p], cells);
        if (!theta[p].size()) {
            theta[p] = zeroed(spare.theta, size, Pages::huge);
            mu[p] = zeroed(spare.mu, size, Pages::small);
            if (settings.newton) begin_newton(p);
        }
        resize(spare.next, size, Pages::huge);
    }

    DOMKL_COLD void begin_newton(int64_t p) {
        m[p] = Buffer<T>(size_t(settings.J) * row_width(map));
        for (int64_t j = 0; j < settings.J; ++j) {
            inverses[p].emplace_back(2 * map.D);
            inverses[p].back().set_diagonal(T(1 / initial_diagonal(settings, double(graph.degree(j)))));
        }
    }

    // Allocates a thread's memory.
    void prepare(const Block<T>& block, Scratch& scratch) const {
        resize(scratch.z, TILE * map.K);
        if (block.delay) resize(scratch.past, TILE * map.K);
        resize(scratch.v, map.K);
        if (settings.newton) resize(scratch.newton, 6 * row_width(map));
    }

    // Drops the kernel's state if it is no longer needed.
    void end_kernel(int64_t p, Spare& spare) {
        if (settings.keep_state) return;
        spare.theta = std::move(theta[p]);  // for the next kernel
        spare.mu = std::move(mu[p]);
        inverses[p].clear();
    }

    // Up to TILE samples, in order of rounds and of learners within a round.
    template <class EndRound>
    void run_tile(int64_t p, const Block<T>& block, Scratch& scratch, Buffer<T>& next, int64_t row, int64_t n,
                  const EndRound& end_round) {
        const T *now[TILE], *past[TILE];
        int64_t t = row / settings.J, j = row % settings.J;
        auto advance = [&] { return ++j < settings.J ? false : (j = 0, ++t, true); };  // whether a round ends
        for (int64_t r = 0; r < n; ++r, advance()) {
            now[r] = block.x + j * block.x_learner + t * block.x_round;
            past[r] = learns(block, t) ? now[r] - block.delay * block.x_round : now[r];
        }
        map.apply(p, now, int(n), scratch.z.data());
        if (block.delay) map.apply(p, past, int(n), scratch.past.data());
        t = row / settings.J, j = row % settings.J;
        for (int64_t r = 0; r < n; ++r) {
            const T* z = scratch.z.data() + r * map.K;
            const bool learnt = learns(block, t);
            if (learnt)
                step(p, block, scratch, next.data(), t, j, z,
                     block.delay ? scratch.past.data() + r * map.K : z);
            if (advance() && learnt) end_round();
        }
    }

    // Learner j's predictions at z and its step at `past`, the features of the sample to learn from.
    void step(int64_t p, const Block<T>& block, Scratch& scratch, T* next, int64_t t, int64_t j, const T* z,
              const T* past) {
        T* edge = predictions_.across[p].data() + t * graph.edges() + graph.first[j];
        T* prediction = predictions_.own[p].data() + t * settings.J + j;
        T* v = scratch.v.data();
        const auto run = sweep_for<T>(block.delay > 0, prefetches && j + AHEAD < settings.J);
        const bool move_dual = block.start + t > block.delay;  // not before the first exchange
        const Scores s = run(theta[p].data(), map.K, j, graph.neighbours.data(), graph.first.data() + j,
                             coef[j], move_dual, z, past, mu[p].data() + j * map.K, v, edge, prediction);
        const double y = label(block, t - block.delay, j);
        if (settings.newton)
            second_order(p, j, Parabola(settings, s.f, y), y, past, scratch, next + j * map.K);
        else take_step(v, past, T(coef[j].step_length(settings, s.u, s.f, y)), next + j * map.K, map.K);
        if (!stores_losses(settings, block)) return;
        predictions_.loss[p].data()[t * settings.J + j] =
            T(settings.newton ? loss_value(settings, s.f, y)
                              : penalised_loss(settings, s.f, y, theta[p].data() + j * map.K, map.K));
    }

    void second_order(int64_t p, int64_t j, const Parabola& top, double y, const T* past, Scratch& scratch,
                      T* to) {
        T* mine = m[p].data() + j * row_width(map);
        newton_step(inverses[p][j], map, top, y, past, scratch.v.data(), mine, mine, scratch.newton.data(),
                    to);
        inverses[p][j].downdate();
    }

    // mu of one learner and kernel after the dual step that the next round would take.
    void complete_dual(int64_t p, int64_t j, T* to) const {
        const T *rows = theta[p].data(), *dual = mu[p].data() + j * map.K;
        const Vec<T> h = broadcast(T(exchanged ? coef[j].pull : 0)), n = broadcast(T(graph.degree(j)));
        for (int64_t k = 0; k < map.K; k += WIDTH<T>) {
            Vec<T> s = {};
            for (int64_t i = graph.first[j]; i < graph.first[j + 1]; ++i)
                s += load(rows + graph.neighbours[i] * map.K + k);
            store(to + k, dual_step<T>(load(dual + k), h, n, load(rows + j * map.K + k), s));
        }
    }

    const Settings& settings;
    const Graph& graph;
    FeatureMap<T> map;
    Predictions<T> predictions_;
    std::vector<Coefficients> coef;                 // (J,)
    std::vector<Buffer<T>> theta, mu, m;            // for each kernel (J, K), (J, K), (J, row_width)
    std::vector<std::vector<Inverse<T>>> inverses;  // for each kernel (J,)
    bool prefetches;                                // whether theta is too large for the cache
    bool exchanged = false;                         // whether any theta has been exchanged
};

}  // namespace domkl::DOMKL_ISA
