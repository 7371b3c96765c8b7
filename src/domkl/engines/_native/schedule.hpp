// How the kernels of a block are divided among threads.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "engine.hpp"

namespace domkl::DOMKL_ISA {

// Learners that a thread has at least where threads share a round: fewer are not worth a barrier.
constexpr int64_t MIN_LEARNERS = 256;

// Threads that share the learners of a round.
inline int64_t threads_per_round(const Settings& settings) {
    return std::clamp<int64_t>(settings.J / MIN_LEARNERS, 1, settings.threads);
}

// Consecutive rounds of one kernel.
struct Part {
    int64_t p, from, to;
};

// Divides whole kernels so that n threads, each taking one part after another, have equal work. A kernel that
// has to be divided between threads has its first rounds at the beginning of the list and its last at the
// end.
inline std::vector<Part> divide_kernels(int64_t kernels, int64_t n, int64_t rounds) {
    std::vector<Part> parts, whole, last;
    std::vector<int64_t> cut(kernels, 0);
    for (int64_t i = 1; i < n; ++i) cut[i * kernels / n] = rounds - i * kernels % n * rounds / n;
    for (int64_t p = 0; p < kernels; ++p) {
        if (cut[p] == 0 || cut[p] == rounds) whole.push_back({p, 0, rounds});
        else parts.push_back({p, 0, cut[p]}), last.push_back({p, cut[p], rounds});
    }
    parts.insert(parts.end(), whole.begin(), whole.end());
    parts.insert(parts.end(), last.begin(), last.end());
    return parts;
}

}  // namespace domkl::DOMKL_ISA
