// NetworkDuals: duals at all ends of a network's edges, and how both ends of an edge agree on its moves.
//
// Every message arrives, so both ends move the dual of an edge in every round, unless one refuses the other's
// parameters: then it drops its dual, under a new number, and the other end does so a round later.
#pragma once
#include "combine.hpp"

namespace domkl::DOMKL_ISA {

template <class T> class NetworkDuals {
  public:
    NetworkDuals(Fields& of, const Sizes& n)
        : E(int64_t(of.number("E"))), size(n.m * n.K), round(int64_t(of.number("duals.round"))), held(E) {
        of.get("duals.dual", E * size, dual);
        of.get("duals.settled", E * size, settled);
        of.get("duals.hoping", E, hoping);
        of.get("duals.other", E, other);
        of.get("ends.number", E, number);
        of.get("ends.theirs", E, theirs);
        of.get("ends.moved", E, moved);
        of.get("ends.before", E, before);
    }

    // Begins a round with the state of all ends, as the other ends receive it.
    void begin() {
        for (int64_t e = 0; e < E; ++e) {
            const int64_t o = other[e];
            held[e] = {number[o], theirs[o], moved[o], before[o]};
        }
    }
    // Compares both ends of an edge, of which this one `refused` what it received; adds what its row takes
    // back to `back` (m, K). Returns whether its dual moves in this round.
    bool settle(int64_t e, bool refused, T* back) const {
        const Held& at = held[e];
        const bool renamed = !refused && at.number != theirs[e];
        const bool known = hoping[e] && !refused && !renamed && at.theirs == number[e];
        if (known) hoping[e] = false;
        if (known && moved[e] != at.moved && moved[e] != at.before) undo(e, back);
        const bool stands = moved[e] != NEVER;
        if ((refused || renamed) && stands) add(dual + e * size, back);
        if (renamed) drop(e, number[e], at.number);
        if (refused && stands) drop(e, number[e] + 1, theirs[e]);
        return !refused && at.number == theirs[e] && at.theirs == number[e];
    }
    // A dual's step of a round, from the own and the received parameters (m, K).
    void move(int64_t e, bool moving, double weight, const T* own, const T* received) const {
        T *to = dual + e * size, *last = settled + e * size;
        std::copy_n(to, size, last);
        if (!moving) return;
        const T by = T(weight);
        for (int64_t k = 0; k < size; ++k) to[k] = last[k] + by * (own[k] - received[k]);
        before[e] = moved[e], moved[e] = round, hoping[e] = true;
    }
    void finish() { ++round; }

  private:
    static constexpr int64_t NEVER = -1;  // before the first round
    struct Held {
        int64_t number, theirs, moved, before;
    };

    // Takes the last move back, which did not stand at the other end.
    void undo(int64_t e, T* __restrict back) const {
        T *now = dual + e * size, *last = settled + e * size;
        for (int64_t k = 0; k < size; ++k) back[k] += now[k] - last[k];
        std::copy_n(last, size, now);
        moved[e] = before[e], before[e] = NEVER;
    }
    void drop(int64_t e, int64_t mine, int64_t his) const {
        std::fill_n(dual + e * size, size, T(0));
        number[e] = mine, theirs[e] = his;
        moved[e] = before[e] = NEVER, hoping[e] = false;
    }
    void add(const T* x, T* __restrict to) const {
        for (int64_t k = 0; k < size; ++k) to[k] += x[k];
    }

    int64_t E, size, round;
    std::vector<Held> held;
    T *dual, *settled;
    bool* hoping;
    int64_t *other, *number, *theirs, *moved, *before;
};

}  // namespace domkl::DOMKL_ISA
