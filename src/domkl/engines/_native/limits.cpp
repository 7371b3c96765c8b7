// The machine's limit, compiled with the engine's own flags for each instruction set.
//
// Every loop works on numbers that the compiler cannot know and leaves its result where it must be
// written, so that nothing is optimised away; none is faster than it would be inside the engine.
#include "limits.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "sincos.hpp"

namespace domkl {
namespace DOMKL_ISA {

using Clock = std::chrono::steady_clock;

constexpr int LANES = 12;   // independent sums: more than latency times ports, and they fit 16 registers
constexpr int ROW = 512;    // elements of a row in L1
constexpr int NEAR = 3;     // neighbours' rows in one pass
constexpr int PASSES = 64;  // between two looks at the clock

template <class T> T* aligned(std::vector<char>& room, size_t n) {
    room.resize(n * sizeof(T) + 64);
    return reinterpret_cast<T*>((reinterpret_cast<uintptr_t>(room.data()) + 63) / 64 * 64);
}

template <class T> class Work {  // one thread's numbers
  public:
    explicit Work(const Trial& trial) : loop(trial.loop) {
        n = loop == Loop::triad || loop == Loop::read
                ? std::max<int64_t>(trial.bytes / int64_t(sizeof(T)) / 64 * 64, 64)
                : ROW;
        a = aligned<T>(room[0], n);
        b = aligned<T>(room[1], n);
        const int64_t third = loop == Loop::vector ? NEAR * n : loop == Loop::read ? 64 : n;
        c = aligned<T>(room[2], third);
        for (int64_t k = 0; k < n; ++k) a[k] = T(0.5), b[k] = T(0.001 * (k % 999));
        std::fill_n(c, third, T(0.25));
    }

    double pass() {  // returns how much work it was
        switch (loop) {
            case Loop::fma: return fma();
            case Loop::sincos: return repeat([this] { sincos_(); }, n);
            case Loop::vector: return repeat([this] { vector(); }, 2 * NEAR * n);
            case Loop::stored: return repeat([this] { stored(); }, n);
            case Loop::read: read(); return double(n) * sizeof(T);
            default: triad(); return 3.0 * double(n) * sizeof(T);
        }
    }

  private:
    static constexpr int W = WIDTH<T>;

    template <class F> static double repeat(F once, int64_t each) {
        for (int k = 0; k < PASSES; ++k) {
            once();
            std::atomic_signal_fence(std::memory_order_seq_cst);  // each pass reads and writes anew
        }
        return double(PASSES) * double(each);
    }

    double fma() {
        constexpr int TURNS = 4096;
        const Vec<T> factor = load(a), term = load(b);
        Vec<T> x[LANES];
#pragma GCC unroll 12
        for (int i = 0; i < LANES; ++i) x[i] = all(T(i));
        for (int k = 0; k < TURNS; ++k) {
#pragma GCC unroll 12
            for (int i = 0; i < LANES; ++i) x[i] = x[i] * factor + term;
        }
#pragma GCC unroll 12
        for (int i = 0; i < LANES; ++i) store(c + i * W, x[i]);
        std::atomic_signal_fence(std::memory_order_seq_cst);
        return double(TURNS) * LANES * W;
    }

    void sincos_() {  // as the engine does: both scaled, both stored
        const Vec<T> scale = load(b + W);
#pragma GCC unroll 2
        for (int64_t k = 0; k < n; k += W) {
            Vec<T> s, co;
            sincos<T>(load(b + k), scale, s, co);
            store(a + k, s);
            store(c + k, co);
        }
    }

    void vector() {  // as with neighbours: of each number that is loaded a sum and a product
        Vec<T> product[NEAR][2] = {}, total[NEAR][2] = {};
        for (int64_t k = 0; k < n; k += 2 * W) {
#pragma GCC unroll 2
            for (int u = 0; u < 2; ++u) {
                const Vec<T> z = load(b + k + u * W);
#pragma GCC unroll 3
                for (int i = 0; i < NEAR; ++i) {
                    const Vec<T> near = load(c + i * n + k + u * W);
                    total[i][u] += near;
                    product[i][u] += near * z;
                }
            }
        }
#pragma GCC unroll 3
        for (int i = 0; i < NEAR; ++i)
            store(a + i * W, product[i][0] + product[i][1] + total[i][0] + total[i][1]);
    }

    void stored() {  // load, load, FMA, store
        const Vec<T> factor = load(c);
#pragma GCC unroll 4
        for (int64_t k = 0; k < n; k += W) store(a + k, load(b + k) * factor + load(c + k));
    }

    void triad() {
        const Vec<T> factor = all(T(0.5));
        for (int64_t k = 0; k < n; k += W) store(a + k, load(b + k) + factor * load(c + k));
        std::atomic_signal_fence(std::memory_order_seq_cst);
    }

    void read() {  // numbers that are only read, each once
        constexpr int SUMS = 8;
        Vec<T> total[SUMS] = {};
        for (int64_t k = 0; k + SUMS * W <= n; k += SUMS * W) {
#pragma GCC unroll 8
            for (int i = 0; i < SUMS; ++i) total[i] += load(b + k + i * W);
        }
        for (int i = 1; i < SUMS; ++i) total[0] += total[i];
        store(c, total[0]);
        std::atomic_signal_fence(std::memory_order_seq_cst);
    }

    Loop loop;
    int64_t n;
    std::vector<char> room[3];
    T *a, *b, *c;
};

template <class T> double measure(Work<T>& work, double seconds) {
    double done = 0, elapsed = 0;
    const auto start = Clock::now();
    while (elapsed < seconds) {
        done += work.pass();
        elapsed = std::chrono::duration<double>(Clock::now() - start).count();
    }
    return done / elapsed;
}

template <class T> double rate(const Trial& trial) {
    std::vector<double> rates(trial.threads);
    std::atomic<int> ready{0};
    auto one = [&](int me) {
        Work<T> work(trial);
        work.pass();
        for (++ready; ready < trial.threads;) std::this_thread::yield();
        rates[me] = measure(work, trial.seconds);
    };
    std::vector<std::thread> others;
    for (int k = 1; k < trial.threads; ++k) others.emplace_back(one, k);
    one(0);
    for (auto& other : others) other.join();
    double total = 0;
    for (double r : rates) total += r;
    return total;
}
template double rate<double>(const Trial&);
template double rate<float>(const Trial&);

}  // namespace DOMKL_ISA
}  // namespace domkl
