// What the engine does for Python, free of any instruction set.
#pragma once
#include <cstdint>
#include <memory>

namespace domkl {

enum class Loss { squared, huber, logistic };
enum class Rule { neighbours, messages, local };

struct Setting {
    int64_t J, P, D, d;      // learners, kernels, random features, inputs
    const int64_t* first;    // (J + 1) where each learner's neighbours begin in `near`
    const int64_t* near;     // (E) neighbours, learner by learner; E counts both directions
    const int64_t* reverse;  // (E) the number of the same edge, the other way round
    double rho, eta, eta_g;  // pulls and temperature
    double mu;               // above 0: plain gradient descent with this step (OMKL)
    Loss loss;
    double delta, reg;  // of the Huber loss; ridge penalty
    Rule rule;
    bool newton;  // whether the local step is that of the second order
    bool keep;    // whether the state is needed after the first block
    int threads;
};

// One block of rounds. Arrays belong to the caller; x and y reach back `delay` rounds before the block.
template <class T> struct Block {
    int64_t rounds, delay, start;  // start: how many rounds came before
    const T* x;                    // x of learner j at round t: x + j * x_learner + t * x_round
    const T* y;
    int64_t x_learner, x_round, y_learner, y_round;
    T* y_hat;  // (J, rounds)
    int64_t y_hat_learner;
    double *squares, *gaps;                // (J,) sums over rounds, added to
    double *kernel_squares, *kernel_gaps;  // (J, P)
};

// A whole network.
template <class T> class Engine {
  public:
    virtual ~Engine() = default;
    virtual void advance(const Block<T>& block) = 0;
    virtual void state(T* theta, T* lam) const = 0;  // (J, P, 2D)
    virtual const double* L() const = 0;             // (J, P)
    virtual const double* q() const = 0;             // (J, P)

    // Of the second-order step: M^-1 of one kernel, and new ones, with m counting `keep` times as much. (J,
    // 2D, 2D)
    virtual void inverse(int64_t p, T* dense) = 0;
    virtual void replace(int64_t p, const T* dense, T keep) = 0;
};

// A round of n kernels, deg.size() learners' one after the other, in the symbols of newton.py. Everything is
// (n, K), but for h, k y and L (n,) and deg, of which each number is for `each` of the n.
template <class T> struct Round {
    const T *theta, *theta_sum, *lam, *m, *z, *h, *ky, *L, *deg;
    int64_t each;
    T pull;  // rho / 2
    T *next, *next_m;
};

// n matrices P = M^-1 of the second-order step, each symmetric and (K, K); see inverse.hpp.
template <class T> class Inverses {
  public:
    virtual ~Inverses() = default;
    virtual void diagonal(const T* x) = 0;                                      // (n,)
    virtual void times(const T* x, const T* b, T* Px, T* Pb, int threads) = 0;  // (n, K)
    // theta' and m'. P becomes the inverse of M + h z z^T if that, theta' and L are finite; otherwise it
    // stays.
    virtual bool learn(const Round<T>& round, int threads) = 0;
    virtual void lower(const T* u) = 0;        // (n, K)
    virtual void dense(T* out) = 0;            // (n, K, K)
    virtual void replace(const T* from) = 0;   // (n, K, K)
    virtual void keep(T* half, T* terms) = 0;  // (n, K (K + 1) / 2), (n, waiting, K)
    virtual void resume(const T* half, const T* terms, int64_t used) = 0;  // terms: (n, used, K)
    virtual int waiting() const = 0;
    virtual int used() const = 0;
};

// One learner of a network, which hears its neighbours from outside.
template <class T> class Device {
  public:
    virtual ~Device() = default;
    virtual double predict(const T* x) = 0;
    virtual double observe(const T* x, double y, T* theta,
                           double* L) = 0;                           // theta' (P, 2D), L' (P,); returns y_hat
    virtual void hear(int64_t i, const T* theta) = 0;                // the i-th neighbour's theta' (P, 2D)
    virtual void close(const bool* heard, const double* total) = 0;  // (deg,), (P,)
    virtual void state(T* theta, T* lam, T* theta_sum) const = 0;    // (P, 2D)
    virtual void keep(T* theta, T* mu) const = 0;                    // (P, 2D), mu = lam / c
    virtual void resume(const T* theta, const T* mu, const double* L, const double* q) = 0;
    virtual const double* L() const = 0;
    virtual const double* q() const = 0;

    // Of the second-order step: m (P, 2D), and the P matrices M^-1 that it goes on with.
    virtual void past(T* m) const = 0;
    virtual void resume_past(const T* m) = 0;
    virtual std::shared_ptr<Inverses<T>> inverses() const = 0;
};

#define DOMKL_DECLARE(ISA)                                                                    \
    namespace ISA {                                                                           \
    template <class T> std::unique_ptr<Engine<T>> engine(const Setting& setting, const T* V); \
    template <class T> std::unique_ptr<Device<T>> device(const Setting& setting, const T* V); \
    template <class T> std::unique_ptr<Inverses<T>> inverses(int64_t n, int64_t K);           \
    }
DOMKL_DECLARE(baseline)
DOMKL_DECLARE(avx2)
DOMKL_DECLARE(avx512)

}  // namespace domkl
