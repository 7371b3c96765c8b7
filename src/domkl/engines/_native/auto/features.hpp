// Features: z = [sin V u / sqrt(D), cos V u / sqrt(D), 1, ranges / sqrt(d)], u the inputs as two maps see
// them.
#pragma once
#include "../buffer.hpp"
#include "../sincos.hpp"
#include "scale.hpp"

namespace domkl::DOMKL_ISA {

template <class T> class Features {
  public:
    Features(Fields& of, const Sizes& n)
        : d(n.d), D(int64_t(of.number("features.D"))), linear(of.number("features.linear") > 0),
          wide((D + BLOCK - 1) / BLOCK * BLOCK), a(of.number("features.spread", 0)),
          b(of.number("features.spread", 1)), turns(2 * d * wide), root(T(1 / std::sqrt(double(D)))) {
        T* V;  // (2 d, D)
        of.get("features.VT", 2 * d * D, V);
        for (int64_t k = 0; k < 2 * d; ++k)
            for (int64_t r = 0; r < D; ++r) turns.data()[k * wide + r] = T(V[k * D + r] * QUARTERS);
    }

    int64_t inputs() const { return 2 * d; }

    // Features z (K,), from inputs; u (2 d,) is scratch.
    void operator()(const Inputs& x, T* u, T* z) const {
        for (int64_t i = 0; i < d; ++i) u[i] = T(clipped(x.ranges[i], -1.5, 1.5) * a);
        for (int64_t i = 0; i < d; ++i) u[d + i] = T(x.ranks[i] * b);
        for (int64_t r = 0; r < D; r += BLOCK) cosines(r, u, z);
        z[2 * D] = 1;
        if (!linear) return;
        const T by = T(1 / std::sqrt(double(d)));
        for (int64_t i = 0; i < d; ++i) z[2 * D + 1 + i] = u[i] * by;
    }

  private:
    static constexpr int VECTORS = 4, BLOCK = VECTORS * WIDTH<T>;
    static constexpr double QUARTERS = 0.63661977236758134308;  // 2 / pi

    // sin and cos of BLOCK angles from r on. In quarter turns, as `sincos` has them.
    void cosines(int64_t r, const T* u, T* z) const {
        constexpr int W = WIDTH<T>;
        Vec<T> angle[VECTORS] = {};
        const T* v = turns.data() + r;
        for (int64_t k = 0; k < 2 * d; ++k, v += wide)
            for (int i = 0; i < VECTORS; ++i) angle[i] += load(v + i * W) * u[k];
        for (int i = 0; i < VECTORS && r + i * W < D; ++i) {
            Vec<T> s, c;
            sincos<T>(angle[i], broadcast(root), s, c);
            const int64_t at = r + i * W;
            if (at + W <= D) {
                store_loose(z + at, s), store_loose(z + D + at, c);
                continue;
            }
            for (int64_t k = 0; at + k < D; ++k) z[at + k] = s[k], z[D + at + k] = c[k];
        }
    }

    int64_t d, D;
    bool linear;
    int64_t wide;  // D, rounded up
    double a, b;
    Buffer<T> turns;  // (2 d, wide) V', in quarter turns
    T root;
};

}  // namespace domkl::DOMKL_ISA
