// Where threads wait for each other, asleep.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <mutex>

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
    void wait() { wait([] {}); }

  private:
    std::mutex mutex;
    std::condition_variable met;
    int64_t expected, come = 0, number = 0;
};

}  // namespace DOMKL_ISA
}  // namespace domkl
