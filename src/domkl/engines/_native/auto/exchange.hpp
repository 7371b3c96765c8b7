// Exchange: the messages of all rows in one process, where each arrives in the round in which it was sent.
//
//     theta -> sent -> judged by `Trust` -> edges settle -> combined -> duals move
//
// To the bits of `domkl.exchange`, so that a device has those of the simulator: see CMakeLists.txt.
#pragma once
#include <vector>

#include "../buffer.hpp"
#include "edges.hpp"

namespace domkl::DOMKL_ISA {

template <class T> class Exchange {
  public:
    Exchange(Fields& of, const Sizes& n);

    // Makes a row's message of its parameters.
    void send(int64_t j);
    // All have sent one.
    void begin() { duals.begin(); }
    // The neighbours of a row, the most that a row has, their messages (n,), each (m, K), and its own.
    int64_t count(int64_t j) const { return int64_t(near.of(j).size()); }
    int64_t most() const { return near.most(); }
    const T* const* messages(int64_t j) const { return from.data() + first[j]; }
    const T* message(int64_t j) const { return sent.data() + j * size; }
    // The same of the parameters themselves, before they are sent.
    const T* theta(int64_t j) const { return theta_ + j * size; }
    int64_t neighbour(int64_t j, int64_t k) const { return near.sender(near.of(j)[k]); }

    // Combines what neighbours sent to a row, which uses some of it (n,), with the duals' step; scratch:
    // (4, m, K) and (n,) flags.
    Pulled<T> combine(int64_t j, const bool* used, T* to, bool* moving);
    // All have combined.
    void finish() { duals.finish(); }

  private:
    // Takes moves of edges' duals (m, K) out of a row's.
    void take_back(int64_t j, const T* moves);

    int64_t J, size;
    T half, largest;
    Neighbours near;
    NetworkDuals<T> duals;
    Buffer<T> sent;               // (J, m, K)
    std::vector<int64_t> first;   // of each row's messages
    std::vector<const T*> from;   // each end's message, row by row
    std::vector<char> is_within;  // whether a row's parameters were sent as they are
    T *theta_, *lam, *side;
    double* uses;  // (E,) how often each end used its message
};

extern template class Exchange<double>;
extern template class Exchange<float>;

}  // namespace domkl::DOMKL_ISA
