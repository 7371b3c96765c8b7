#include "thread_pool.hpp"

#include <unistd.h>

#include <chrono>

namespace domkl {

using Clock = std::chrono::steady_clock;

// Longer than rows spend in Python between two calls.
constexpr std::chrono::microseconds POLL_TIME{150};
constexpr int POLLS_PER_CLOCK = 16;

static void pause() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

template <class Done> void SpinCondition::wait(const Done& done) {
    for (const auto end = Clock::now() + POLL_TIME; Clock::now() < end;)
        for (int k = 0; k < POLLS_PER_CLOCK; ++k) {
            if (done()) return;
            pause();
        }
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, done);
}

template <class Change> void SpinCondition::notify(const Change& change) {
    {
        std::lock_guard<std::mutex> lock(mutex);
        change();
    }
    changed.notify_all();
}

ThreadPool::ThreadPool(int64_t threads) : process(getpid()) {
    for (int64_t k = 1; k < threads; ++k) workers.emplace_back([this, k] { serve(k); });
}

ThreadPool::~ThreadPool() {
    started.notify([&] { stopping = true; });
    for (auto& worker : workers) worker.join();
}

bool ThreadPool::in_own_process() const { return getpid() == process; }

void ThreadPool::run(int64_t n, const Task& task) {
    job = &task;
    unfinished = n;
    started.notify([&] { open = (((open >> 32) + 1) << 32) + uint64_t(n); });
    run_tasks(0);
    finished.wait([&] { return unfinished == 0; });
}

void ThreadPool::serve(int64_t thread) {
    for (uint64_t last = 0;;) {
        started.wait([&] { return stopping || open >> 32 != last; });
        if (stopping) return;
        last = open >> 32;
        run_tasks(thread);
    }
}

// `run` cannot return before a taken task is done, so `job` stays valid while the task runs.
void ThreadPool::run_tasks(int64_t thread) {
    for (uint64_t now = open; uint32_t(now) > 0;) {
        if (!open.compare_exchange_weak(now, now - 1)) continue;
        (*job)(thread, int64_t(uint32_t(now)) - 1);
        now = open;
        if (--unfinished == 0 && thread > 0) finished.notify([] {});
    }
}

ThreadPool& LazyThreadPool::get(int64_t threads) {
    drop_after_fork();
    if (!pool || pool->size() != threads) {
        pool = nullptr;  // the old threads end before the new ones start
        pool = std::make_unique<ThreadPool>(threads);
    }
    return *pool;
}

void LazyThreadPool::drop_after_fork() {
    if (pool && !pool->in_own_process()) static_cast<void>(pool.release());
}

}  // namespace domkl
