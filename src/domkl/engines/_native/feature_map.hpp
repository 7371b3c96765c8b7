// The frequencies of all kernels, and the padding of rows to whole vectors.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "buffer.hpp"
#include "engine.hpp"
#include "features.hpp"

namespace domkl::DOMKL_ISA {

// Maps samples to random features. A row of features or of theta has D sines and D cosines, each padded with
// zeros to Dp, a multiple of the vector's width; K = 2 Dp.
template <class T> struct FeatureMap {
    int64_t P, D, d, Dp, K;
    Buffer<T> packed, scale;
    T reach;

    DOMKL_COLD FeatureMap(const Settings& settings, const T* V)
        : P(settings.P), D(settings.D), d(settings.d) {
        constexpr int W = WIDTH<T>;
        Dp = (D + W - 1) / W * W;
        K = 2 * Dp;
        packed = Buffer<T>(P * d * Dp);
        for (int64_t p = 0; p < P; ++p) pack(V + p * D * d, packed.data() + p * d * Dp);
        reach = largest_input(V);
        scale = Buffer<T>(Dp);  // zero in the padding
        std::fill_n(scale.data(), D, T(1 / std::sqrt(double(D))));
    }

    // The features z (n, K) of n samples for kernel p.
    void apply(int64_t p, const T* const* x, int n, T* z) const {
        for (int i = 0; i < n; ++i)
            if (is_far(x[i])) return apply_clamped(p, x, n, z);
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
    // Up to this input, no angle has more quarter turns than sincos can count.
    DOMKL_COLD T largest_input(const T* V) const {
        double most = 0;
        for (int64_t i = 0; i < P * D; ++i, V += d) {
            double sum = 0;
            for (int64_t k = 0; k < d; ++k) sum += std::abs(double(V[k]));
            most = std::max(most, sum);
        }
        return T(std::min(double(Rounder<T>::most) / std::max(most, 1e-300), 1e30));
    }
    bool is_far(const T* x) const {
        int far = 0;  // counted, not returned at once, so that it is computed by whole vectors
        for (int64_t k = 0; k < d; ++k) far |= !(std::abs(x[k]) <= reach);
        return far;
    }
    // Angles that large have lost their quarters anyway; of clamped inputs, sin and cos stay within [-1, 1].
    DOMKL_COLD void apply_clamped(int64_t p, const T* const* x, int n, T* z) const {
        std::vector<T> near(d);
        for (int i = 0; i < n; ++i) {
            for (int64_t k = 0; k < d; ++k) near[k] = std::clamp(x[i][k], -reach, reach);
            const T* row = near.data();
            random_features(&row, 1, d, packed.data() + p * d * Dp, Dp, scale.data(), z + i * K);
        }
    }
    // (D, d) in radians to (d, Dp) in quarter turns.
    DOMKL_NOINLINE void pack(const T* from, T* to) const {
        const double quarter = 2 / 3.14159265358979323846;
        for (int64_t i = 0; i < D; ++i, ++to)
            for (int64_t k = 0; k < d; ++k) to[k * Dp] = T(double(*from++) * quarter);
    }
};

}  // namespace domkl::DOMKL_ISA
