// Where threads wait for each other, asleep.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

namespace domkl {
namespace DOMKL_ISA {

class Meeting {
  public:
    explicit Meeting(int64_t n) : expected(n) {}

    // Returns when all have come; the last one does `last` before anyone goes on.
    template <class Last> void wait(const Last& last) {
        std::unique_lock<std::mutex> lock(mutex);
        const int64_t mine = number;
        if (++come < expected) return met.wait(lock, [&] { return number != mine; });
        last();
        come = 0;
        ++number;
        met.notify_all();
    }
    void wait() {
        wait([] {});
    }

  private:
    std::mutex mutex;
    std::condition_variable met;
    int64_t expected, come = 0, number = 0;
};

// How far kernels have come, for whoever goes on where another thread ends.
class Progress {
  public:
    explicit Progress(int64_t kernels) : rounds(kernels, 0) {}

    void tell(int64_t p, int64_t round) {
        std::lock_guard<std::mutex> lock(mutex);
        rounds[p] = round;
        told.notify_all();
    }
    void wait(int64_t p, int64_t round) {
        std::unique_lock<std::mutex> lock(mutex);
        told.wait(lock, [&] { return rounds[p] >= round; });
    }

  private:
    std::mutex mutex;
    std::condition_variable told;
    std::vector<int64_t> rounds;
};

}  // namespace DOMKL_ISA
}  // namespace domkl
