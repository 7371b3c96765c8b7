#include "crew.hpp"

#include <unistd.h>

#include <chrono>

namespace domkl {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::microseconds MOMENT{
    150};                  // more than a learner's time, in Python, between two products
constexpr int LOOKS = 16;  // between two looks at the clock

static void pause() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

template <class Done> void Bell::wait(const Done& done) {
    for (const auto end = Clock::now() + MOMENT; Clock::now() < end;)
        for (int k = 0; k < LOOKS; ++k) {
            if (done()) return;
            pause();
        }
    std::unique_lock<std::mutex> lock(mutex);
    rung.wait(lock, done);
}

template <class Happen> void Bell::ring(const Happen& happen) {
    {
        std::lock_guard<std::mutex> lock(mutex);
        happen();
    }
    rung.notify_all();
}

Crew::Crew(int64_t threads) : home(getpid()) {
    for (int64_t me = 1; me < threads; ++me) others.emplace_back([this, me] { serve(me); });
}

Crew::~Crew() {
    start.ring([&] { ended = true; });
    for (auto& other : others) other.join();
}

bool Crew::here() const { return getpid() == home; }

void Crew::share(int64_t n, const Work& work) {
    job = &work;
    left = n;
    start.ring([&] { open = (((open >> 32) + 1) << 32) + uint64_t(n); });
    take(0);
    end.wait([&] { return left == 0; });
}

void Crew::serve(int64_t me) {
    for (uint64_t last = 0;;) {
        start.wait([&] { return ended || open >> 32 != last; });
        if (ended) return;
        last = open >> 32;
        take(me);
    }
}

// A task that is taken keeps `share` from returning: until it is done, the job is that of its number.
void Crew::take(int64_t me) {
    for (uint64_t now = open; uint32_t(now) > 0;) {
        if (!open.compare_exchange_weak(now, now - 1)) continue;
        (*job)(me, int64_t(uint32_t(now)) - 1);
        now = open;
        if (--left == 0 && me > 0) end.ring([] {});
    }
}

Crew& Crewed::of(int64_t threads) {
    let_go();
    if (!crew_ || crew_->size() != threads) {
        crew_ = nullptr;
        crew_ = std::make_unique<Crew>(threads);
    }
    return *crew_;
}

void Crewed::let_go() {
    if (crew_ && !crew_->here()) static_cast<void>(crew_.release());
}

}  // namespace domkl
