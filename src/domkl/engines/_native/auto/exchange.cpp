// The exchange of a network, compiled without fused products: see exchange.hpp.
#include "exchange.hpp"

namespace domkl::DOMKL_ISA {

template <class T>
Exchange<T>::Exchange(Fields& of, const Sizes& n)
    : J(n.J), size(n.m * n.K), half(T(of.number("consensus.rho") / 2)), largest(T(of.number("largest"))),
      near(of, n), duals(of, n), sent(J * size), first(J), is_within(J) {
    of.get("consensus.theta", J * size, theta_);
    of.get("consensus.lam", J * size, lam);
    of.get("consensus.side", J * size, side);
    of.get("network.used", int64_t(of.number("E")), uses);
    for (int64_t j = 0; j < J; ++j) {
        first[j] = int64_t(from.size());
        for (int64_t e : near.of(j)) from.push_back(sent.data() + near.sender(e) * size);
    }
}

template <class T> void Exchange<T>::send(int64_t j) {
    const T* own = theta(j);
    T* to = sent.data() + j * size;
    bool within = true;
    for (int64_t k = 0; k < size; ++k) {
        to[k] = std::min(std::max(own[k], -largest), largest);
        within &= to[k] == own[k];
    }
    is_within[j] = within;
}

template <class T> Pulled<T> Exchange<T>::combine(int64_t j, const bool* used, T* to, bool* moving) {
    const T *own = message(j), *const *sent = messages(j);
    const auto& ends = near.of(j);
    std::fill_n(to, size, T(0));
    for (size_t k = 0; k < ends.size(); ++k) {
        moving[k] = duals.settle(ends[k], !used[k], to);
        duals.move(ends[k], moving[k], near.weight_of(ends[k]), own, sent[k]);
        uses[ends[k]] += used[k];
    }
    take_back(j, to);
    const Pulled<T> found = near.pull(j, size, own, sent, moving, used, to);
    if (!is_within[j]) {  // neighbours have theta as it was sent, and so must the duals that move
        T* rounded = to + 3 * size;
        for (int64_t k = 0; k < size; ++k) rounded[k] = (theta(j)[k] - own[k]) * T(found.moving);
        take_back(j, rounded);
    }
    return found;
}

template <class T> void Exchange<T>::take_back(int64_t j, const T* moves) {
    T *l = lam + j * size, *s = side + j * size;
    for (int64_t k = 0; k < size; ++k) {
        const T back = half * moves[k];
        l[k] -= back, s[k] += back;
    }
}

template class Exchange<double>;
template class Exchange<float>;

}  // namespace domkl::DOMKL_ISA
