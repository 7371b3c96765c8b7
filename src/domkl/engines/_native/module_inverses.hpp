// The second-order step's matrices for Python: checks shapes and releases the interpreter's lock.
#pragma once
#include <memory>

#include "engine.hpp"
#include "module.hpp"

namespace domkl {

// Inverses64 and Inverses32: n matrices (K, K), its own or a device's.
template <class T> class InversesHandle {
  public:
    InversesHandle(int64_t n, int64_t K, const std::string& isa);
    InversesHandle(std::shared_ptr<Inverses<T>> shared, int64_t n, int64_t K)
        : n(n), K(K), matrices(std::move(shared)) {}

    void diagonal(In<T> x);
    void dense(Out<T> out);
    void replace(In<T> from);
    void keep(Out<T> half, Out<T> terms) const;
    void resume(In<T> half, In<T> terms);
    // Of one of the matrices: replace it, write its half and terms, which returns how many are in use, and
    // the inverse of that.
    void put(int64_t i, In<T> from);
    int keep_one(int64_t i, Out<T> half, Out<T> terms) const;
    void resume_one(int64_t i, In<T> half, In<T> terms);
    int waiting() const { return matrices->capacity(); }
    int used() const { return matrices->pending(); }

    const std::shared_ptr<Inverses<T>>& shared() const { return matrices; }

  private:
    void check_one(int64_t i, size_t size, int64_t each) const {
        require(i >= 0 && i < n && int64_t(size) == each, "one of the matrices, and arrays that fit K");
    }
    void check_size(size_t size, int64_t each) const {
        require(int64_t(size) == n * each, "arrays must fit n and K");
    }

    int64_t n, K;
    std::shared_ptr<Inverses<T>> matrices;
};

}  // namespace domkl
