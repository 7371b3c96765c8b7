// The machine's limits, compiled with the engine's own flags for each instruction set.
//
// Every loop reads values that are unknown to the compiler and stores its result, so that nothing is
// optimised away; none is faster than it would be inside the engine.
#include "limits.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "sincos.hpp"

namespace domkl::DOMKL_ISA {

using Clock = std::chrono::steady_clock;

constexpr int LANES = 12;      // independent sums: more than latency times ports, within 16 registers
constexpr int ROW = 512;       // elements of a row in L1
constexpr int NEIGHBOURS = 3;  // neighbours in one pass
constexpr int PASSES = 64;     // between two readings of the clock

// n numbers in `memory`, aligned to a cache line.
template <class T> T* aligned(std::vector<char>& memory, size_t n) {
    memory.resize(n * sizeof(T) + 64);
    return reinterpret_cast<T*>((reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64);
}

// One thread's loop and its arrays.
template <class T> class LoopRunner {
  public:
    explicit LoopRunner(const Measurement& measurement) : loop(measurement.loop) {
        n = loop == Loop::triad || loop == Loop::read
                ? std::max<int64_t>(measurement.bytes / int64_t(sizeof(T)) / 64 * 64, 64)
                : ROW;
        a = aligned<T>(memory[0], n);
        b = aligned<T>(memory[1], n);
        const int64_t third = loop == Loop::vector ? NEIGHBOURS * n : loop == Loop::read ? 64 : n;
        c = aligned<T>(memory[2], third);
        for (int64_t k = 0; k < n; ++k) a[k] = T(0.5), b[k] = T(0.001 * (k % 999));
        std::fill_n(c, third, T(0.25));
    }

    // Runs the loop for a while, and returns the amount of work.
    double pass() {
        switch (loop) {
            case Loop::fma: return fma();
            case Loop::sincos: return repeat([this] { sincos_(); }, n);
            case Loop::vector: return repeat([this] { vector(); }, 2 * NEIGHBOURS * n);
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
            std::atomic_signal_fence(std::memory_order_seq_cst);  // each pass reads and writes memory again
        }
        return double(PASSES) * double(each);
    }

    double fma() {
        constexpr int TURNS = 4096;
        const Vec<T> factor = load(a), term = load(b);
        Vec<T> x[LANES];
#pragma GCC unroll 12
        for (int i = 0; i < LANES; ++i) x[i] = broadcast(T(i));
        for (int k = 0; k < TURNS; ++k) {
#pragma GCC unroll 12
            for (int i = 0; i < LANES; ++i) x[i] = x[i] * factor + term;
        }
#pragma GCC unroll 12
        for (int i = 0; i < LANES; ++i) store(c + i * W, x[i]);
        std::atomic_signal_fence(std::memory_order_seq_cst);
        return double(TURNS) * LANES * W;
    }

    void sincos_() {  // as in the engine: both scaled, both stored
        const Vec<T> scale = load(b + W);
#pragma GCC unroll 2
        for (int64_t k = 0; k < n; k += W) {
            Vec<T> s, co;
            sincos<T>(load(b + k), scale, s, co);
            store(a + k, s);
            store(c + k, co);
        }
    }

    void vector() {  // as in a sweep: a sum and a product of each number loaded
        Vec<T> product[NEIGHBOURS][2] = {}, total[NEIGHBOURS][2] = {};
        for (int64_t k = 0; k < n; k += 2 * W) {
#pragma GCC unroll 2
            for (int u = 0; u < 2; ++u) {
                const Vec<T> z = load(b + k + u * W);
#pragma GCC unroll 3
                for (int i = 0; i < NEIGHBOURS; ++i) {
                    const Vec<T> other = load(c + i * n + k + u * W);
                    total[i][u] += other;
                    product[i][u] += other * z;
                }
            }
        }
#pragma GCC unroll 3
        for (int i = 0; i < NEIGHBOURS; ++i)
            store(a + i * W, product[i][0] + product[i][1] + total[i][0] + total[i][1]);
    }

    void stored() {  // load, load, FMA, store
        const Vec<T> factor = load(c);
#pragma GCC unroll 4
        for (int64_t k = 0; k < n; k += W) store(a + k, load(b + k) * factor + load(c + k));
    }

    void triad() {
        const Vec<T> factor = broadcast(T(0.5));
        for (int64_t k = 0; k < n; k += W) store(a + k, load(b + k) + factor * load(c + k));
        std::atomic_signal_fence(std::memory_order_seq_cst);
    }

    void read() {  // each number once, without stores
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
    std::vector<char> memory[3];
    T *a, *b, *c;
};

// Work per second of one thread.
template <class T> double measure(LoopRunner<T>& runner, double seconds) {
    double done = 0, elapsed = 0;
    const auto start = Clock::now();
    while (elapsed < seconds) {
        done += runner.pass();
        elapsed = std::chrono::duration<double>(Clock::now() - start).count();
    }
    return done / elapsed;
}

template <class T> double rate(const Measurement& measurement) {
    std::vector<double> rates(measurement.threads);
    std::atomic<int> ready{0};
    auto run = [&](int thread) {
        LoopRunner<T> runner(measurement);
        runner.pass();
        for (++ready; ready < measurement.threads;) std::this_thread::yield();
        rates[thread] = measure(runner, measurement.seconds);
    };
    std::vector<std::thread> others;
    for (int k = 1; k < measurement.threads; ++k) others.emplace_back(run, k);
    run(0);
    for (auto& other : others) other.join();
    double total = 0;
    for (double r : rates) total += r;
    return total;
}
template double rate<double>(const Measurement&);
template double rate<float>(const Measurement&);

}  // namespace domkl::DOMKL_ISA
