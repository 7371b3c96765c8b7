// Hedge of all learners, over the rounds of a block that all kernels have completed.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "block.hpp"
#include "losses.hpp"
#include "parallel.hpp"
#include "schedule.hpp"
#include "vec.hpp"
#include "weights.hpp"

namespace domkl::DOMKL_ISA {

// Accumulates the kernels' losses, weights the kernels by them and mixes their predictions.
template <class T> class Hedge {
  public:
    DOMKL_COLD Hedge(const Settings& settings, const Graph& graph) : settings(settings), graph(graph) {
        L_.assign(settings.J * settings.P, 0.0);
        q_.assign(settings.J * settings.P, 1.0 / double(settings.P));
        if (settings.rule == Rule::messages) messages.assign(graph.edges() * settings.P, 0.0);
    }

    // Writes the block's y_hat and adds to its sums.
    void advance(const Block<T>& block, const Predictions<T>& predictions) {
        const int64_t J = settings.J, P = settings.P;
        const int64_t n = settings.rule == Rule::messages ? 1 : threads_per_round(settings);
        std::vector<double> total(J * P);
        Barrier barrier(n);
        run_threads(n, [&](int64_t thread) {
            const int64_t from = J * thread / n, to = J * (thread + 1) / n;
            for (int64_t t = 0; t < block.rounds; ++t) {
                const bool blank = !learns(block, t);
                for (int64_t j = from; j < to; ++j) record(block, predictions, t, j, blank);
                for (int64_t j = from; !blank && j < to; ++j) add_losses(block, predictions, t, j);
                barrier.wait();  // all have read the weights and written the losses
                if (!blank) sum_losses(total, from, to);
                for (int64_t j = from; !blank && j < to; ++j)
                    hedge_weights(total.data() + j * P, P, settings.eta_g, q_.data() + j * P);
                barrier.wait();
            }
        });
    }

    // Accumulated losses and weights (J, P).
    const double* L() const { return L_.data(); }
    const double* q() const { return q_.data(); }

  private:
    // The mixture of learner j in round t, its error, and its disagreement with the neighbours.
    void record(const Block<T>& block, const Predictions<T>& predictions, int64_t t, int64_t j, bool blank) {
        const int64_t P = settings.P;
        const double deg = double(graph.degree(j)), y = label(block, t, j);
        double y_hat = 0, others = 0;
        for (int64_t p = 0; p < P; ++p) {
            const double fp = blank ? 0 : double(predictions.own[p].data()[t * settings.J + j]);
            const T* edge = predictions.across[p].data() + t * graph.edges();
            double seen = 0;
            for (int64_t i = graph.first[j]; !blank && i < graph.first[j + 1]; ++i) {
                seen += double(edge[i]);
                others += q_[graph.neighbours[i] * P + p] * double(edge[i]);
            }
            y_hat += q_[j * P + p] * fp;
            block.kernel_squares[j * P + p] += (fp - y) * (fp - y);
            block.kernel_gaps[j * P + p] += (deg * fp - seen) * (deg * fp - seen);
        }
        block.y_hat[j * block.y_hat_learner + t] = T(y_hat);
        block.squares[j] += (y_hat - y) * (y_hat - y);
        block.gaps[j] += (deg * y_hat - others) * (deg * y_hat - others);
    }

    // Adds the losses of round t to learner j's.
    void add_losses(const Block<T>& block, const Predictions<T>& predictions, int64_t t, int64_t j) {
        const bool stored = stores_losses(settings, block);
        const double y = label(block, t, j);
        const int64_t at = t * settings.J + j;
        for (int64_t p = 0; p < settings.P; ++p)
            L_[j * settings.P + p] += stored ? double(predictions.loss[p].data()[at])
                                             : loss_value(settings, double(predictions.own[p].data()[at]), y);
    }

    // The losses that enter the exponent: the learner's own plus those that the rule counts, summed in order.
    void sum_losses(std::vector<double>& total, int64_t from, int64_t to) {
        const int64_t P = settings.P;
        if (settings.rule == Rule::local)
            std::copy(&L_[from * P], &L_[from * P] + (to - from) * P, &total[from * P]);
        for (int64_t j = from; settings.rule != Rule::local && j < to; ++j)
            for (int64_t p = 0; p < P; ++p) {
                double others = 0;
                for (int64_t i = graph.first[j]; i < graph.first[j + 1]; ++i)
                    others += settings.rule == Rule::neighbours ? L_[graph.neighbours[i] * P + p]
                                                                : messages[i * P + p];
                total[j * P + p] = L_[j * P + p] + others;
            }
        if (settings.rule == Rule::messages) send_messages(total);
    }

    // What each neighbour knows of losses beyond this edge. One thread does all, as messages cross each
    // other.
    void send_messages(const std::vector<double>& total) {
        const int64_t P = settings.P;
        std::vector<double> sent(messages.size());
        for (int64_t i = 0; i < graph.edges(); ++i)
            for (int64_t p = 0; p < P; ++p)
                sent[i * P + p] = total[graph.neighbours[i] * P + p] - messages[graph.reverse[i] * P + p];
        messages.swap(sent);
    }

    const Settings& settings;
    const Graph& graph;
    std::vector<double> L_, q_;    // (J, P)
    std::vector<double> messages;  // (E, P)
};

}  // namespace domkl::DOMKL_ISA
