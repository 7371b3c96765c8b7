// A pool of threads for jobs of a few dozen microseconds, for which starting new threads would cost more.
//
// A waiting thread polls for a moment before it sleeps. Tasks are taken one at a time, so the caller itself
// runs whatever the threads that are still waking up have not taken. Independent of the instruction set.
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

// A condition variable whose waiters poll for a moment before they sleep.
class SpinCondition {
  public:
    template <class Done> void wait(const Done& done);          // until done()
    template <class Change> void notify(const Change& change);  // applies the change, then wakes all

  private:
    std::mutex mutex;
    std::condition_variable changed;
};

// A fixed number of threads, of which the caller's is number 0.
class ThreadPool {
  public:
    using Task = std::function<void(int64_t thread, int64_t i)>;  // must not throw

    explicit ThreadPool(int64_t threads);
    ~ThreadPool();

    int64_t size() const { return 1 + int64_t(workers.size()); }
    bool in_own_process() const;  // false in a forked child, which has none of the threads

    // Calls task(thread, i) for every i below n < 2^32, and returns when all are done.
    void run(int64_t n, const Task& task);

  private:
    void serve(int64_t thread);
    void run_tasks(int64_t thread);

    const pid_t process;
    const Task* job = nullptr;
    std::atomic<uint64_t> open{0};       // upper half: number of the job; lower half: tasks not yet taken
    std::atomic<int64_t> unfinished{0};  // tasks that are not done
    std::atomic<bool> stopping{false};
    SpinCondition started, finished;
    std::vector<std::thread> workers;
};

// A pool that is created on first use, ends with its owner, and is created again after a fork.
class LazyThreadPool {
  public:
    ~LazyThreadPool() { drop_after_fork(); }
    // The pool, with so many threads.
    ThreadPool& get(int64_t threads);

  private:
    void drop_after_fork();  // leaks the parent's pool: its threads cannot be joined from the child

    std::unique_ptr<ThreadPool> pool;
};

}  // namespace domkl
