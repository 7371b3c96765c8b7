// Several threads at one piece of work.
#pragma once
#include <cstdint>
#include <thread>
#include <vector>

namespace domkl {
namespace DOMKL_ISA {

// work(0), ... work(n - 1) at once.
template <class Work> void together(int64_t n, const Work& work) {
    std::vector<std::thread> others;
    for (int64_t k = 1; k < n; ++k) others.emplace_back(work, k);
    work(0);
    for (auto& other : others) other.join();
}

}  // namespace DOMKL_ISA
}  // namespace domkl
