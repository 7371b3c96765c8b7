// Memory: the last samples of each device, to learn from again.
#pragma once
#include "fields.hpp"
#include "numbers.hpp"

namespace domkl::DOMKL_ISA {

class Memory {
  public:
    Memory(Fields& of, const Sizes& n) : J(n.J), d(n.d), m(n.m), size(int64_t(of.number("memory.size"))) {
        of.get("memory._X", J * 2 * size * d, X);
        of.get("memory._Y", J * 2 * size * m, Y);
        of.get("memory._W", J * 2 * size, W);
        of.get("memory._end", 1, end);
        of.get("memory.count", J, count);
        of.get("memory.useful", J, useful);
        of.get("memory.fresh", J, fresh);
    }

    // Makes room for a sample of each row; samples move to the front only every `size` rounds.
    void make_room() const {
        if (*end < 2 * size) return;
        for (int64_t j = 0; j < J; ++j) {
            std::copy_n(X + (2 * j + 1) * size * d, size * d, X + 2 * j * size * d);
            std::copy_n(Y + (2 * j + 1) * size * m, size * m, Y + 2 * j * size * m);
            std::copy_n(W + (2 * j + 1) * size, size, W + 2 * j * size);
        }
        *end = size;
    }
    // Adds a sample of a row, (d,) and (m,), and how much it counts.
    void add(int64_t j, const double* x, const double* y, double weight) const {
        std::copy_n(x, d, X + (2 * j * size + *end) * d);
        std::copy_n(y, m, Y + (2 * j * size + *end) * m);
        W[2 * j * size + *end] = weight;
        ++count[j], ++useful[j], ++fresh[j];
    }
    // All rows have added one.
    void finish() const { ++*end; }

    int64_t learnt(int64_t j) const { return count[j]; }
    int64_t usable(int64_t j) const { return useful[j]; }

  private:
    int64_t J, d, m, size;
    double *X, *Y, *W;
    int64_t *end, *count, *useful, *fresh;
};

}  // namespace domkl::DOMKL_ISA
