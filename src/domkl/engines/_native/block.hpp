// What the local steps of a network and its Hedge share: the graph, samples of a block, predictions.
#pragma once
#include <cstdint>
#include <vector>

#include "buffer.hpp"
#include "engine.hpp"

namespace domkl::DOMKL_ISA {

// The directed edges of a network, learner by learner.
struct Graph {
    std::vector<int64_t> first, neighbours, reverse;  // as in Settings

    explicit Graph(const Settings& settings)
        : first(settings.first, settings.first + settings.J + 1),
          neighbours(settings.neighbours, settings.neighbours + first.back()),
          reverse(settings.reverse, settings.reverse + first.back()) {}

    int64_t edges() const { return int64_t(neighbours.size()); }
    int64_t degree(int64_t j) const { return first[j + 1] - first[j]; }
};

// Predictions of each kernel in the current block, from which Hedge computes its weights.
template <class T> struct Predictions {
    std::vector<Buffer<T>> own;     // for each kernel (rounds, J): theta_j . z_j
    std::vector<Buffer<T>> across;  // for each kernel (rounds, E): theta of the neighbour . z_j
    std::vector<Buffer<T>> loss;    // for each kernel (rounds, J), where `stores_losses`

    explicit Predictions(int64_t P) : own(P), across(P), loss(P) {}
};

// Whether the loss of a round cannot be computed from the round's predictions.
template <class T> bool stores_losses(const Settings& settings, const Block<T>& block) {
    return block.delay > 0 || settings.reg > 0;
}

// Whether the label that round t learns from has arrived. If not, theta and all predictions are zero.
template <class T> bool learns(const Block<T>& block, int64_t t) { return block.start + t >= block.delay; }

// The label of learner j in round t.
template <class T> double label(const Block<T>& block, int64_t t, int64_t j) {
    return double(block.y[j * block.y_learner + t * block.y_round]);
}

}  // namespace domkl::DOMKL_ISA
