// The frequencies of all kernels, and the padding of rows to whole vectors.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "buffer.hpp"
#include "engine.hpp"
#include "features.hpp"

namespace domkl::DOMKL_ISA {

// Maps samples to random features. A row of features or of theta has D sines and D cosines, each padded with
// zeros to Dp, a multiple of the vector's width; K = 2 Dp.
template <class T> struct FeatureMap {
    int64_t P, D, d, Dp, K;
    Buffer<T> packed, scale;

    DOMKL_COLD FeatureMap(const Settings& settings, const T* V)
        : P(settings.P), D(settings.D), d(settings.d) {
        constexpr int W = WIDTH<T>;
        Dp = (D + W - 1) / W * W;
        K = 2 * Dp;
        packed = Buffer<T>(P * d * Dp);
        for (int64_t p = 0; p < P; ++p) pack(V + p * D * d, packed.data() + p * d * Dp);
        scale = Buffer<T>(Dp);  // zero in the padding
        std::fill_n(scale.data(), D, T(1 / std::sqrt(double(D))));
    }

    // The features z (n, K) of n samples for kernel p.
    void apply(int64_t p, const T* const* x, int n, T* z) const {
        random_features(x, n, d, packed.data() + p * d * Dp, Dp, scale.data(), z);
    }

    // A row without its padding, times a factor: 2D numbers.
    void unpad(const T* row, T* to, T factor) const {
        for (int64_t k = 0; k < D; ++k) to[k] = factor * row[k], to[D + k] = factor * row[Dp + k];
    }
    void unpad(const T* row, T* to) const {
        std::memcpy(to, row, D * sizeof(T));
        std::memcpy(to + D, row + Dp, D * sizeof(T));
    }
    // Like `unpad`, by whole vectors: writes up to one vector more than 2D numbers.
    void unpad_vectors(const T* row, T* to) const {
        for (int64_t k = 0; k < Dp; k += WIDTH<T>) store(to + k, load(row + k));
        for (int64_t k = Dp; k < K; k += WIDTH<T>) std::memcpy(to + D - Dp + k, row + k, sizeof(Vec<T>));
    }
    // A row with its padding, which is zero already, from 2D numbers.
    void pad(const T* row, T* to) const {
        for (int64_t k = 0; k < D; ++k) to[k] = row[k], to[Dp + k] = row[D + k];
    }
    // Like `pad`, by whole vectors: reads up to one vector more than 2D numbers, and writes the padding.
    void pad_vectors(const T* row, T* to) const {
        for (int64_t k = 0; k < Dp; k += WIDTH<T>) store(to + k, load(row + k));
        for (int64_t k = Dp; k < K; k += WIDTH<T>) std::memcpy(to + k, row + D - Dp + k, sizeof(Vec<T>));
        for (int64_t k = D; k < Dp; ++k) to[k] = to[Dp + k] = 0;
    }

  private:
    // (D, d) in radians to (d, Dp) in quarter turns.
    DOMKL_NOINLINE void pack(const T* from, T* to) const {
        const double quarter = 2 / 3.14159265358979323846;
        for (int64_t i = 0; i < D; ++i, ++to)
            for (int64_t k = 0; k < d; ++k) to[k * Dp] = T(double(*from++) * quarter);
    }
};

}  // namespace domkl::DOMKL_ISA
