// The engine's interface to its Python bindings, independent of the instruction set.
//
// Shapes are in comments: J learners, P kernels, D random features, d inputs, E directed edges. docs/math.md
// has the symbols and derives the steps. A prime marks the value after the round: theta'.
#pragma once
#include <cstdint>
#include <memory>

namespace domkl {

// The loss of a prediction.
enum class Loss { squared, huber, logistic };

// Whose losses enter a learner's Hedge.
enum class Rule { neighbours, messages, local };

// What stays the same during a run.
struct Settings {
    int64_t J, P, D, d;         // learners, kernels, random features, inputs
    const int64_t* first;       // (J + 1,) index of each learner's first edge in `neighbours`
    const int64_t* neighbours;  // (E,) learner by learner
    const int64_t* reverse;     // (E,) index of the same edge in the opposite direction
    double rho, eta, eta_g;     // penalty of disagreement, proximity, temperature of Hedge
    double mu;                  // above 0: plain gradient descent with this step size (OMKL)
    Loss loss;
    double delta, reg;  // threshold of the Huber loss; ridge penalty
    Rule rule;
    bool newton;      // whether the local step is of second order
    bool keep_state;  // whether the state is needed after the first block
    int threads;
};

// One block of rounds. The caller owns the arrays; x and y reach back `delay` rounds before the block.
template <class T> struct Block {
    int64_t rounds, delay, start;  // start: number of rounds before the block
    const T* x;                    // x of learner j in round t: x + j * x_learner + t * x_round
    const T* y;
    int64_t x_learner, x_round, y_learner, y_round;
    T* y_hat;  // (J, rounds)
    int64_t y_hat_learner;
    double *squares, *gaps;                // (J,) sums over rounds, added to
    double *kernel_squares, *kernel_gaps;  // (J, P)
};

// All learners of a network.
template <class T> class Network {
  public:
    virtual ~Network() = default;
    // Runs all learners through the rounds of a block.
    virtual void advance(const Block<T>& block) = 0;
    // Writes the estimates and their duals (J, P, 2D).
    virtual void state(T* theta, T* lam) const = 0;
    // Accumulated losses (J, P).
    virtual const double* L() const = 0;
    // Weights of the kernels (J, P).
    virtual const double* q() const = 0;

    // Writes M^-1 of kernel p (J, 2D, 2D). Second-order step only.
    virtual void inverse(int64_t p, T* dense) = 0;
    // Replaces M^-1 of kernel p (J, 2D, 2D), and multiplies its m by `factor`. Second-order step only.
    virtual void replace(int64_t p, const T* dense, T factor) = 0;
};

// n symmetric (K, K) matrices P = M^-1 of the second-order step; inverse.hpp describes their storage.
template <class T> class Inverses {
  public:
    virtual ~Inverses() = default;
    // Sets the diagonals (n,) of new matrices, which are zero elsewhere.
    virtual void set_diagonal(const T* x) = 0;
    // Writes P (n, K, K).
    virtual void dense(T* out) = 0;
    // Replaces P (n, K, K).
    virtual void replace(const T* from) = 0;
    // Writes the lower halves (n, K (K + 1) / 2) and the terms (n, capacity, K), of which `pending` are in
    // use.
    virtual void save(T* half, T* terms) = 0;
    // Inverse of `save`, from terms (n, used, K) that are all in use.
    virtual void restore(const T* half, const T* terms, int64_t used) = 0;
    // The same of one matrix, whose terms are its own; `save` returns how many are in use.
    virtual void replace(int64_t i, const T* from) = 0;
    virtual int save(int64_t i, T* half, T* terms) = 0;
    virtual void restore(int64_t i, const T* half, const T* terms, int64_t used) = 0;
    // Number of terms that fit beside a matrix before they are subtracted.
    virtual int capacity() const = 0;
    // Number of terms that are not yet subtracted.
    virtual int pending() const = 0;
};

// One learner, which receives its neighbours' estimates from outside.
template <class T> class Device {
  public:
    virtual ~Device() = default;
    // The prediction at x (d,).
    virtual double predict(const T* x) = 0;
    // Returns the prediction; writes L' (P,) and, unless it is null, theta' (P, 2D). Ended by `close_round`.
    virtual double observe(const T* x, double y, T* theta, double* L) = 0;
    // Stores neighbour i's theta' (P, 2D).
    virtual void receive(int64_t i, const T* theta) = 0;
    // Ends the round: which neighbours count (deg,), and the losses that enter Hedge (P,).
    virtual void close_round(const bool* received, const double* total) = 0;
    // Writes the estimate, its dual and the sum of the neighbours' estimates (P, 2D).
    virtual void state(T* theta, T* lam, T* theta_sum) const = 0;
    // Writes the estimate and its scaled dual mu = lam / c (P, 2D).
    virtual void save(T* theta, T* mu) const = 0;
    // Inverse of `save`, with L and q (P,); the neighbours' estimates have to be received again.
    virtual void restore(const T* theta, const T* mu, const double* L, const double* q) = 0;
    // Accumulated losses (P,).
    virtual const double* L() const = 0;
    // Weights of the kernels (P,).
    virtual const double* q() const = 0;

    // Writes m (P, 2D). Second-order step only.
    virtual void save_m(T* m) const = 0;
    // Inverse of `save_m`.
    virtual void restore_m(const T* m) = 0;
    // The P matrices M^-1, which the device continues to use. Second-order step only.
    virtual std::shared_ptr<Inverses<T>> inverses() const = 0;
};

// Each instruction set has its own implementations; V are the frequencies (P, D, d).
#define DOMKL_DECLARE(ISA)                                                                             \
    namespace ISA {                                                                                    \
    template <class T> std::unique_ptr<Network<T>> make_network(const Settings& settings, const T* V); \
    template <class T> std::unique_ptr<Device<T>> make_device(const Settings& settings, const T* V);   \
    template <class T> std::unique_ptr<Inverses<T>> make_inverses(int64_t n, int64_t K);               \
    }
DOMKL_DECLARE(baseline)
DOMKL_DECLARE(avx2)
DOMKL_DECLARE(avx512)

}  // namespace domkl
