// Aligned, zeroed memory that can be moved but not copied.
#pragma once
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace domkl::DOMKL_ISA {

// From this size on, memory is mapped by the system: it is zero already, and returned at once when freed.
constexpr size_t LARGE = size_t(1) << 22;

// Huge pages make scattered reads faster, as they need fewer page table entries; they cost more to map.
enum class Pages { small, huge };

// An array of n numbers.
template <class T> class Buffer {
  public:
    Buffer() = default;
    explicit Buffer(size_t n, Pages pages = Pages::small) : size_(n) {
        if (n == 0) return;
        if (n > (size_t(1) << 48)) throw std::bad_alloc();
        data_ = static_cast<T*>(large() ? map(bytes(), pages) : std::aligned_alloc(64, bytes()));
        if (!data_) throw std::bad_alloc();
        if (!large()) std::memset(static_cast<void*>(data_), 0, bytes());
    }
    Buffer(Buffer&& other) noexcept { swap(other); }
    Buffer& operator=(Buffer&& other) noexcept {
        Buffer old(std::move(other));
        swap(old);
        return *this;
    }
    ~Buffer() {
        if (!data_) return;
        if (large()) unmap(data_, bytes());
        else std::free(data_);
    }

    void swap(Buffer& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
    }
    T* data() { return data_; }
    const T* data() const { return data_; }
    size_t size() const { return size_; }

  private:
    size_t bytes() const { return (size_ * sizeof(T) + 63) / 64 * 64; }

#ifdef __linux__
    bool large() const { return bytes() >= LARGE; }
    static void* map(size_t bytes, Pages pages) {
        void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (mapped == MAP_FAILED) return nullptr;
        if (pages == Pages::huge) madvise(mapped, bytes, MADV_HUGEPAGE);
        return mapped;
    }
    static void unmap(void* data, size_t bytes) { munmap(data, bytes); }
#else
    bool large() const { return false; }
    static void* map(size_t, Pages) { return nullptr; }
    static void unmap(void*, size_t) {}
#endif

    T* data_ = nullptr;
    size_t size_ = 0;
};

}  // namespace domkl::DOMKL_ISA
