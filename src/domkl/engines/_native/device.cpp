// One learner of a network by itself, with the network's arithmetic: both give the same bits.
#include <algorithm>
#include <stdexcept>
#include <vector>

#include "engine.hpp"
#include "feature_map.hpp"
#include "inverses.hpp"
#include "newton.hpp"
#include "step.hpp"
#include "weights.hpp"

namespace domkl::DOMKL_ISA {

// For each kernel, row 0 of theta is the learner's own estimate; the others are those it last received.
template <class T> class DeviceImpl final : public Device<T> {
  public:
    DOMKL_COLD DeviceImpl(const Settings& given, const T* V)
        : settings(given), map(given, V), deg(given.first[1]), first{0, deg}, coef(given, double(deg)),
          theta(settings.P * (1 + deg) * map.K), next(settings.P * map.K), mu(settings.P * map.K),
          z(settings.P * map.K), v(map.K), last_x(settings.d) {
        for (int64_t i = 0; i < deg; ++i) neighbours.push_back(1 + i);
        edge.resize(deg + 1);
        f.resize(settings.P);
        L_.assign(settings.P, 0.0);
        next_L.assign(settings.P, 0.0);
        q_.assign(settings.P, 1.0 / double(settings.P));
        if (settings.newton) begin_newton();
    }

    double predict(const T* x) override {
        compute_features(x);
        return double(T(mixture()));
    }

    double observe(const T* x, double y, T* out_theta, double* out_L) override {
        compute_features(x);
        const auto run = sweep_for<T>(false, false);
        double y_hat = deg == 0 ? mixture() : 0, zero = 0;
        for (int64_t p = 0; p < settings.P; ++p) {
            const T* zp = z.data() + p * map.K;
            const Scores s = deg == 0 ? sweep_alone(p)
                                      : run(rows(p), map.K, 0, neighbours.data(), first, coef, false, zp, zp,
                                            mu.data() + p * map.K, v.data(), edge.data(), &f[p]);
            if (deg > 0) y_hat += q_[p] * double(f[p]);
            T* to = next.data() + p * map.K;
            if (settings.newton) zero += second_order(p, Parabola(settings, s.f, y), y, to);
            else take_step(v.data(), zp, T(coef.step_length(settings, s.u, s.f, y)), to, map.K);
            const double loss = settings.newton ? loss_value(settings, s.f, y)
                                                : penalised_loss(settings, s.f, y, own(p), map.K);
            out_L[p] = next_L[p] = L_[p] + (settings.reg > 0 ? double(T(loss)) : loss);
            if (out_theta) map.unpad(to, out_theta + p * 2 * map.D);
            zero += next_L[p] * 0;  // no longer 0 once a loss is not finite
        }
        if (zero != 0) throw std::invalid_argument("the losses or the estimate overflowed");
        return double(T(y_hat));
    }

    void receive(int64_t i, const T* received) override {
        for (int64_t p = 0; p < settings.P; ++p) map.pad(received + p * 2 * map.D, rows(p) + (1 + i) * map.K);
    }

    void close_round(const bool* received, const double* total) override {
        mixed = false;
        L_ = next_L;
        hedge_weights(total, settings.P, settings.eta_g, q_.data());
        if (settings.newton) downdate();
        if (deg == 0) return theta.swap(next);
        int64_t count = 0;
        for (int64_t i = 0; i < deg; ++i) count += received[i];
        const Vec<T> h = broadcast(T(coef.pull)), n = broadcast(T(count));
        for (int64_t p = 0; p < settings.P; ++p) {
            T *mine = rows(p), *dual = mu.data() + p * map.K;
            const T* fresh = next.data() + p * map.K;
            for (int64_t k = 0; k < map.K; k += WIDTH<T>) {
                Vec<T> s = {};
                for (int64_t i = 0; i < deg; ++i)
                    if (received[i]) s += load(mine + (1 + i) * map.K + k);
                store(mine + k, load(fresh + k));
                store(dual + k, dual_step<T>(load(dual + k), h, n, load(fresh + k), s));
            }
        }
    }

    DOMKL_COLD void save(T* out_theta, T* out_mu) const override {
        for (int64_t p = 0; p < settings.P; ++p) {
            map.unpad(theta.data() + p * (1 + deg) * map.K, out_theta + p * 2 * map.D, T(1));
            map.unpad(mu.data() + p * map.K, out_mu + p * 2 * map.D, T(1));
        }
    }

    DOMKL_COLD void restore(const T* new_theta, const T* new_mu, const double* L, const double* q) override {
        for (int64_t p = 0; p < settings.P; ++p) {
            map.pad(new_theta + p * 2 * map.D, rows(p));
            map.pad(new_mu + p * 2 * map.D, mu.data() + p * map.K);
        }
        L_.assign(L, L + settings.P);
        q_.assign(q, q + settings.P);
        mixed = false;
    }

    const double* L() const override { return L_.data(); }
    const double* q() const override { return q_.data(); }

    DOMKL_COLD void save_m(T* to) const override {
        for (int64_t p = 0; p < settings.P; ++p)
            std::copy_n(m.data() + p * row_width(map), 2 * map.D, to + p * 2 * map.D);
    }
    DOMKL_COLD void restore_m(const T* from) override {
        for (int64_t p = 0; p < settings.P; ++p)
            std::copy_n(from + p * 2 * map.D, 2 * map.D, m.data() + p * row_width(map));
    }
    std::shared_ptr<Inverses<T>> inverses() const override { return matrices; }

  private:
    DOMKL_COLD void begin_newton() {
        const int64_t width = row_width(map);
        m = Buffer<T>(settings.P * width), next_m = Buffer<T>(settings.P * width),
        scratch = Buffer<T>(6 * width);
        matrices = std::make_shared<InverseArray<T>>(settings.P, 2 * map.D);
        for (int64_t p = 0; p < settings.P; ++p)
            (*matrices)[p].set_diagonal(T(1 / initial_diagonal(settings, double(deg))));
    }

    // Leaves m and the matrix unchanged, as the sample may still be refused. Returns 0 if theta' is finite.
    double second_order(int64_t p, const Parabola& top, double y, T* to) {
        const int64_t at = p * row_width(map);
        newton_step((*matrices)[p], map, top, y, z.data() + p * map.K, v.data(), m.data() + at,
                    next_m.data() + at, scratch.data(), to);
        return double(zero_if_finite(to, map.K));
    }
    void downdate() {
        m.swap(next_m);
        for (int64_t p = 0; p < settings.P; ++p) (*matrices)[p].downdate();
    }

    T* rows(int64_t p) { return theta.data() + p * (1 + deg) * map.K; }
    const T* own(int64_t p) { return rows(p); }

    // The features of x, unless they are known.
    void compute_features(const T* x) {
        if (has_features && std::equal(x, x + settings.d, last_x.data())) return;
        for (int64_t p = 0; p < settings.P; ++p) map.apply(p, &x, 1, z.data() + p * map.K);
        std::copy_n(x, settings.d, last_x.data());
        has_features = true, mixed = false;
    }

    // Every kernel's prediction and their mixture, unless known for this x and theta. In one loop: in a loop
    // of its own, the mixture would be compiled, and therefore rounded, differently from the network's.
    double mixture() {
        if (mixed) return mixture_;
        mixture_ = 0;
        for (int64_t p = 0; p < settings.P; ++p) {
            f[p] = dot(own(p), z.data() + p * map.K, map.K);
            mixture_ += q_[p] * double(f[p]);
        }
        mixed = true;
        return mixture_;
    }

    // What `sweep` does for a learner without neighbours, whose prediction is known.
    Scores sweep_alone(int64_t p) {
        const T* mine = own(p);
        const Vec<T> factor = broadcast(T(coef.own));
        for (int64_t k = 0; k < map.K; k += WIDTH<T>) store(v.data() + k, factor * load(mine + k));
        return {coef.own * double(f[p]), double(f[p])};
    }

    const Settings settings;
    FeatureMap<T> map;
    int64_t deg, first[2];
    Coefficients coef;
    Buffer<T> theta, next, mu, z, v, last_x;
    Buffer<T> m, next_m, scratch;  // second-order step: (P, row_width) twice, (6 row_width)
    std::shared_ptr<InverseArray<T>> matrices;
    std::vector<int64_t> neighbours;
    std::vector<T> edge, f;
    std::vector<double> L_, next_L, q_;
    bool has_features = false,
         mixed = false;  // whether z is that of last_x, and mixture_ that of z and theta
    double mixture_ = 0;
};

template <class T> std::unique_ptr<Device<T>> make_device(const Settings& settings, const T* V) {
    return std::make_unique<DeviceImpl<T>>(settings, V);
}
template std::unique_ptr<Device<double>> make_device(const Settings&, const double*);
template std::unique_ptr<Device<float>> make_device(const Settings&, const float*);

}  // namespace domkl::DOMKL_ISA
