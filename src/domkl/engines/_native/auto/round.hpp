// A round of `Auto`: the interface to its Python bindings, independent of the instruction set.
#pragma once
#include <cstdint>
#include <memory>

#include "../engine.hpp"
#include "fields.hpp"

namespace domkl {

// What Python has to do before a network goes on; flags of an integer.
enum Due : int { nothing = 0, publish = 1, restart = 2, take = 4 };

// How many samples were learnt, and what is due: `publish` before the last round ends, or else after it.
struct Progress {
    int64_t rounds;
    int due;
};

// What a neighbourhood sent, combined.
template <class T> struct Incoming {
    const T *near, *moved, *mean;   // (J, m, K)
    const double *moving, *weight;  // (J,)
};

// J devices that learn with `Auto`. A prediction is an array of `size` numbers: y (J, m), experts (J, m, E),
// before_echo (J, m) and last (J, m, 2) of the whole mixture, then the same of that apart.
template <class T> class Round {
  public:
    virtual ~Round() = default;
    virtual int64_t size() const = 0;
    // Whether all rows have a scale, which everything below needs.
    virtual bool is_scaled() const = 0;
    // Predicts samples (J, d).
    virtual void predict(const double* x, double* prediction) = 0;
    // Writes the features (J, K) of the samples that were predicted last.
    virtual void features(T* z) const = 0;
    // Learns the samples that were predicted last with targets (J, m), NaN where one is missing, and how much
    // each counts (J,), or null; `past`: what was predicted of them when they were new, and whether the
    // mixture apart was, by experts of its own. Returns what is due.
    virtual int learn(const double* x, const double* y, const double* weight, const double* past,
                      bool has_apart) = 0;
    // Whether rows `who` (R,) use what n neighbours each sent, `theta` (R, n, m, K); `able` and `used` are
    // (R, n), as in `Trust`.
    virtual void judge(int64_t R, const int64_t* who, int64_t n, const T* theta, const bool* able,
                       bool* used) = 0;
    // The step of a round without a sample.
    virtual void rest() = 0;
    // From now on `advance` exchanges messages over this network.
    virtual void link(Fields& network) = 0;
    // Goes through rounds, samples (n, J, d) with targets (n, J, m), until something is due; writes all
    // predictions (n, size), and gaps (n, J, m): how far devices are from their neighbours.
    virtual Progress advance(int64_t n, const double* x, const double* y, double* predictions,
                             double* gaps) = 0;
    // Ends a round, in which a sample was learnt or not. Returns what is due.
    virtual int merge(const Incoming<T>& incoming, bool has_learnt) = 0;
    // The same where nobody has neighbours, after a sample.
    virtual int close() = 0;
    // Learns, and ends the round if nothing is due before.
    virtual int learn_alone(const double* x, const double* y, const double* past) = 0;
};

#define DOMKL_DECLARE_ROUND(ISA)                                                                       \
    namespace ISA {                                                                                    \
    template <class T>                                                                                 \
    std::unique_ptr<Round<T>> make_round(Fields& fields, std::shared_ptr<Inverses<T>> Q, int threads); \
    }
DOMKL_DECLARE_ROUND(baseline)
DOMKL_DECLARE_ROUND(avx2)
DOMKL_DECLARE_ROUND(avx512)

}  // namespace domkl
