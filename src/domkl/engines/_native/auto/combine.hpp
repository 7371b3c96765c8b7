// Neighbours: who receives from whom, with which weights, and how the parameters that arrive are combined.
#pragma once
#include <algorithm>
#include <vector>

#include "fields.hpp"

namespace domkl::DOMKL_ISA {

// What a row's neighbours sent, as the rule "pull" combines it: sums and the mean (m, K).
template <class T> struct Pulled {
    const T *near, *moved, *mean;
    double moving, weight;
};

// Two ends for each edge of a network, each with the row that receives there and the one that sends.
class Neighbours {
  public:
    Neighbours(Fields& of, const Sizes& n) : ends(n.J) {
        const int64_t E = int64_t(of.number("E"));
        int64_t* rows;
        of.get("near.rows", E, rows);
        of.get("near.senders", E, senders);
        of.get("near.weights", E, weights);
        of.get("near.weight", n.J, weight);
        for (int64_t e = 0; e < E; ++e) ends[rows[e]].push_back(e);
        for (const auto& of_row : ends) most_ = std::max(most_, int64_t(of_row.size()));
    }

    // The ends of a row, in the order of its neighbours, and the most that a row has.
    const std::vector<int64_t>& of(int64_t j) const { return ends[j]; }
    int64_t most() const { return most_; }
    int64_t sender(int64_t e) const { return senders[e]; }
    double weight_of(int64_t e) const { return weights[e]; }

    // Combines what was sent to the n ends of a row, each (size,). `moving`: those whose duals move; `used`:
    // those whose message is used; the own parameters stand for others, and count in no mean. Writes near,
    // moved and mean to `to` (3, size).
    template <class T>
    Pulled<T> pull(int64_t j, int64_t size, const T* own, const T* const* sent, const bool* moving,
                   const bool* used, T* to) const {
        T *near = to, *moved = near + size, *mean = moved + size;
        double moves = 0, counted = 0;
        std::fill_n(to, 3 * size, T(0));
        for (int64_t e : ends[j]) {
            const T by = T(weights[e]);
            add(by, *used ? *sent : own, size, near);
            if (*moving) add(by, *sent, size, moved), moves += weights[e];
            if (*used) add(by, *sent, size, mean), counted += weights[e];
            ++sent, ++moving, ++used;
        }
        const T many = T(std::max(counted, 1e-9));
        for (int64_t k = 0; k < size; ++k) mean[k] = T(counted) == 0 ? own[k] : mean[k] / many;
        return {near, moved, mean, moves, weight[j]};
    }

  private:
    template <class T> static void add(T by, const T* x, int64_t size, T* __restrict to) {
        for (int64_t k = 0; k < size; ++k) to[k] += by * x[k];
    }

    std::vector<std::vector<int64_t>> ends;
    int64_t most_ = 0;
    int64_t* senders;
    double *weights, *weight;
};

}  // namespace domkl::DOMKL_ISA
