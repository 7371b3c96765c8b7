// Aligned, zeroed memory that can be moved but not copied.
#pragma once
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace domkl {
namespace DOMKL_ISA {

constexpr size_t HUGE_PAGE = size_t(1) << 21;

template <class T> class Buffer {
  public:
    Buffer() = default;
    explicit Buffer(size_t n) : size_(n) {
        if (n == 0) return;
        if (n > (size_t(1) << 48)) throw std::bad_alloc();
        const size_t step = n * sizeof(T) >= 2 * HUGE_PAGE ? HUGE_PAGE : 64;
        const size_t bytes = (n * sizeof(T) + step - 1) / step * step;
        data_ = static_cast<T*>(std::aligned_alloc(step, bytes));
        if (!data_) throw std::bad_alloc();
#ifdef __linux__
        // Neighbours' rows lie anywhere in a large network: few large pages are found much faster.
        if (step == HUGE_PAGE) madvise(data_, bytes, MADV_HUGEPAGE);
#endif
        std::memset(static_cast<void*>(data_), 0, bytes);
    }
    Buffer(Buffer&& other) noexcept { swap(other); }
    Buffer& operator=(Buffer&& other) noexcept {
        Buffer gone(std::move(other));
        swap(gone);
        return *this;
    }
    ~Buffer() { std::free(data_); }

    void swap(Buffer& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
    }
    T* data() { return data_; }
    const T* data() const { return data_; }
    size_t size() const { return size_; }

  private:
    T* data_ = nullptr;
    size_t size_ = 0;
};

}  // namespace DOMKL_ISA
}  // namespace domkl
