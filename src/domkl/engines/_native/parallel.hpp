// Threads for one long piece of work, and what they wait on without polling.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace domkl::DOMKL_ISA {

// Runs work(0), ... work(n - 1) on n threads, of which the caller's is one, and joins them.
template <class Work> void run_threads(int64_t n, const Work& work) {
    std::vector<std::thread> others;
    for (int64_t k = 1; k < n; ++k) others.emplace_back(work, k);
    work(0);
    for (auto& other : others) other.join();
}

// A barrier for n threads, used any number of times.
class Barrier {
  public:
    explicit Barrier(int64_t n) : expected(n) {}

    // Returns when all threads have arrived; the last one runs `last` before any of them continues.
    template <class Last> void wait(const Last& last) {
        std::unique_lock<std::mutex> lock(mutex);
        const int64_t mine = phase;
        if (++arrived < expected) return complete.wait(lock, [&] { return phase != mine; });
        last();
        arrived = 0;
        ++phase;
        complete.notify_all();
    }
    void wait() {
        wait([] {});
    }

  private:
    std::mutex mutex;
    std::condition_variable complete;
    int64_t expected, arrived = 0, phase = 0;
};

// Rounds that each kernel has completed, for a thread that continues where another one stops.
class Progress {
  public:
    explicit Progress(int64_t kernels) : rounds(kernels, 0) {}

    // Records that kernel p has completed so many rounds.
    void set(int64_t p, int64_t round) {
        std::lock_guard<std::mutex> lock(mutex);
        rounds[p] = round;
        changed.notify_all();
    }
    // Returns when kernel p has completed so many rounds.
    void wait(int64_t p, int64_t round) {
        std::unique_lock<std::mutex> lock(mutex);
        changed.wait(lock, [&] { return rounds[p] >= round; });
    }

  private:
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<int64_t> rounds;
};

}  // namespace domkl::DOMKL_ISA
