// Threads that stay: for work of some dozen microseconds, again and again, starting a thread would cost more.
//
// Who waits looks for a moment, and then sleeps. Tasks are taken one by one: what a thread that is not awake
// yet has not taken, the caller does itself. Free of any instruction set.
#pragma once
#include <sys/types.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace domkl {

// Where threads look for a moment, and then sleep, until something has happened.
class Bell {
  public:
    template <class Done> void wait(const Done& done);
    template <class Happen> void ring(const Happen& happen);  // makes it happen

  private:
    std::mutex mutex;
    std::condition_variable rung;
};

class Crew {
  public:
    using Work = std::function<void(int64_t me, int64_t i)>;  // must not throw

    explicit Crew(int64_t threads);
    ~Crew();

    int64_t size() const { return 1 + int64_t(others.size()); }
    bool here() const;  // whether this is the process that the threads are in, and not one forked from it

    // work(me, i) for every i below n < 2^32; me, below `size`, tells which thread it is.
    void share(int64_t n, const Work& work);

  private:
    void serve(int64_t me);
    void take(int64_t me);

    const pid_t home;
    const Work* job = nullptr;
    std::atomic<uint64_t> open{0};  // the number of the job, and how many of its tasks nobody has taken
    std::atomic<int64_t> left{0};   // tasks that are not done
    std::atomic<bool> ended{false};
    Bell start, end;
    std::vector<std::thread> others;
};

// A crew that is made when it is first needed, ends with its owner, and is made anew after a fork.
class Crewed {
  public:
    ~Crewed() { let_go(); }
    Crew& of(int64_t threads);

  private:
    void let_go();  // of what a forked process has left of its parent's: those threads cannot be joined

    std::unique_ptr<Crew> crew_;
};

}  // namespace domkl
