// The engine's door to Python: checks shapes, picks the instruction set, lets go of the interpreter's lock.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <numpy/arrayobject.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine.hpp"
#include "limits.hpp"
#include "weigh.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace domkl {

bool runs(const std::string& isa) {
    if (isa == "baseline") return true;
#if defined(DOMKL_X86)
    __builtin_cpu_init();
    if (isa == "avx2") return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (isa == "avx512")
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vl");
#endif
    return false;
}

std::string best() {
    for (const char* isa : {"avx512", "avx2"})
        if (runs(isa)) return isa;
    return "baseline";
}

template <class T, class Make> auto dispatch(const std::string& isa, Make make) {
    if (!runs(isa)) throw std::invalid_argument("this processor does not run " + isa);
#if defined(DOMKL_X86)
    if (isa == "avx512") return make(avx512::engine<T>, avx512::device<T>, avx512::inverses<T>);
    if (isa == "avx2") return make(avx2::engine<T>, avx2::device<T>, avx2::inverses<T>);
#endif
    return make(baseline::engine<T>, baseline::device<T>, baseline::inverses<T>);
}

template <class T> using In = nb::ndarray<const T, nb::device::cpu>;
template <class T> using Stored = nb::ndarray<const T, nb::c_contig, nb::device::cpu>;
template <class T> using Out = nb::ndarray<T, nb::c_contig, nb::device::cpu>;
using Index = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void require(bool good, const char* what) {
    if (!good) throw std::invalid_argument(what);
}

Loss loss_of(const std::string& name) {
    if (name == "logistic") return Loss::logistic;
    return name == "huber" ? Loss::huber : Loss::squared;
}

Rule rule_of(const std::string& name) {
    if (name == "messages") return Rule::messages;
    return name == "local" ? Rule::local : Rule::neighbours;
}

template <class T> using Frequencies = nb::ndarray<const T, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
template <class T> using Sample = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// Everything about a learner's step that a network and a device share.
struct Rates {
    double rho, eta, eta_g, mu;
    std::string loss;
    double delta, reg;
    std::string rule;

    template <class T>
    Setting with(const Frequencies<T>& V, int64_t J, const int64_t* first, const int64_t* near,
                 const int64_t* reverse, bool newton, bool keep, int threads) const {
        return {J,
                int64_t(V.shape(0)),
                int64_t(V.shape(1)),
                int64_t(V.shape(2)),
                first,
                near,
                reverse,
                rho,
                eta,
                eta_g,
                mu,
                loss_of(loss),
                delta,
                reg,
                rule_of(rule),
                newton,
                keep,
                threads};
    }
};

template <class T> class NetworkHandle {
  public:
    NetworkHandle(Frequencies<T> V, Index first, Index near, Index reverse, const Rates& rates, bool newton,
                  bool keep, int threads, const std::string& isa)
        : newton(newton) {
        J = int64_t(first.shape(0)) - 1, P = int64_t(V.shape(0)), D = int64_t(V.shape(1)),
        d = int64_t(V.shape(2));
        require(J >= 1 && near.shape(0) == reverse.shape(0), "a graph needs learners, and edges both ways");
        const Setting setting =
            rates.with<T>(V, J, first.data(), near.data(), reverse.data(), newton, keep, threads);
        engine = dispatch<T>(isa, [&](auto make, auto, auto) { return make(setting, V.data()); });
    }

    void advance(In<T> x, In<T> y, int64_t history, int64_t delay, int64_t start,
                 nb::ndarray<T, nb::ndim<2>, nb::device::cpu> y_hat, Out<double> squares, Out<double> gaps,
                 Out<double> kernel_squares, Out<double> kernel_gaps) {
        const int64_t rounds = int64_t(y_hat.shape(1));
        require(x.ndim() == 3 && y.ndim() == 2 && int64_t(x.shape(0)) == J && int64_t(x.shape(2)) == d,
                "x must be (J, B, d)");
        require(d == 1 || x.stride(2) == 1, "the features of a sample must lie side by side");
        require(
            int64_t(x.shape(1)) == history + rounds && y.shape(1) == x.shape(1) && int64_t(y.shape(0)) == J,
            "x and y must match");
        require(history >= std::min(start, delay), "too little history for the delay");
        require(int64_t(y_hat.shape(0)) == J && (rounds == 1 || y_hat.stride(1) == 1),
                "y_hat must be (J, B)");
        require(int64_t(squares.size()) == J && int64_t(gaps.size()) == J, "sums must be (J,)");
        require(int64_t(kernel_squares.size()) == J * P && int64_t(kernel_gaps.size()) == J * P,
                "sums must be (J, P)");
        const Block<T> block{rounds,
                             delay,
                             start,
                             x.data() + history * x.stride(1),
                             y.data() + history * y.stride(1),
                             x.stride(0),
                             x.stride(1),
                             y.stride(0),
                             y.stride(1),
                             y_hat.data(),
                             y_hat.stride(0),
                             squares.data(),
                             gaps.data(),
                             kernel_squares.data(),
                             kernel_gaps.data()};
        nb::gil_scoped_release release;
        engine->advance(block);
    }

    void state(Out<T> theta, Out<T> lam) const {
        require(int64_t(theta.size()) == J * P * 2 * D && theta.size() == lam.size(),
                "state must be (J, P, 2D)");
        engine->state(theta.data(), lam.data());
    }

    void weights(Out<double> L, Out<double> q) const {
        require(int64_t(L.size()) == J * P && int64_t(q.size()) == J * P, "weights must be (J, P)");
        std::copy_n(engine->L(), J * P, L.data());
        std::copy_n(engine->q(), J * P, q.data());
    }

    void inverse(int64_t p, Out<T> dense) {
        check(p, int64_t(dense.size()));
        engine->inverse(p, dense.data());
    }

    void replace(int64_t p, Stored<T> dense, double keep) {
        check(p, int64_t(dense.size()));
        engine->replace(p, dense.data(), T(keep));
    }

  private:
    void check(int64_t p, int64_t size) const {
        require(newton && p >= 0 && p < P && size == J * 4 * D * D,
                "a kernel's inverses are (J, 2D, 2D), of the second-order step");
    }

    int64_t J, P, D, d;
    bool newton;
    std::unique_ptr<Engine<T>> engine;
};

template <class T> class InversesHandle {
  public:
    InversesHandle(int64_t n, int64_t K, const std::string& isa) : n(n), K(K) {
        require(n >= 1 && K >= 1 && n < (int64_t(1) << 32) && K < (int64_t(1) << 24),
                "n and K must be above 0");
        many = dispatch<T>(isa, [&](auto, auto, auto make) { return make(n, K); });
    }

    // Those of a device, which goes on with them.
    InversesHandle(std::shared_ptr<Inverses<T>> shared, int64_t n, int64_t K)
        : n(n), K(K), many(std::move(shared)) {}

    void diagonal(Stored<T> x) {
        require(int64_t(x.size()) == n, "the diagonal must be (n,)");
        many->diagonal(x.data());
    }

    void times(Stored<T> x, Stored<T> b, Out<T> Px, Out<T> Pb, int threads) {
        fits(x.size(), K), fits(b.size(), K), fits(Px.size(), K), fits(Pb.size(), K);
        require(threads >= 1, "threads must be at least 1");
        nb::gil_scoped_release release;
        many->times(x.data(), b.data(), Px.data(), Pb.data(), threads);
    }

    bool learn(Stored<T> theta, Stored<T> theta_sum, Stored<T> lam, Stored<T> m, Stored<T> z, Stored<T> h,
               Stored<T> ky, Stored<T> L, Stored<T> deg, double pull, Out<T> next, Out<T> next_m,
               int threads) {
        for (size_t size :
             {theta.size(), theta_sum.size(), lam.size(), m.size(), z.size(), next.size(), next_m.size()})
            fits(size, K);
        for (size_t size : {h.size(), ky.size(), L.size()}) fits(size, 1);
        require(threads >= 1, "threads must be at least 1");
        const Round<T> round{theta.data(), theta_sum.data(), lam.data(),   m.data(),   z.data(),
                             h.data(),     ky.data(),        L.data(),     deg.data(), share(deg.size()),
                             T(pull),      next.data(),      next_m.data()};
        nb::gil_scoped_release release;
        return many->learn(round, threads);
    }

    // The end of a round: lam' (n, K) and, from the losses that count, q'; its few operations need no
    // instruction set.
    void close(Stored<T> theta, Stored<T> theta_sum, Stored<T> lam, Stored<T> total, Stored<T> deg,
               double pull, double eta_g, Out<T> next, Out<T> q) const {
        for (size_t size : {theta.size(), theta_sum.size(), lam.size(), next.size()}) fits(size, K);
        fits(total.size(), 1), fits(q.size(), 1);
        require(total.ndim() > 0, "total must be (..., P)");
        const int64_t each = share(deg.size()), P = int64_t(total.shape(total.ndim() - 1));
        const T *now = theta.data(), *sum = theta_sum.data(), *last = lam.data(), by = T(pull);
        T* to = next.data();
        for (int64_t i = 0; i < n; ++i)
            for (const T *end = now + K, d = deg.data()[i / each]; now < end;)
                *to++ = *last++ + by * (d * *now++ - *sum++);
        std::vector<double> losses(total.data(), total.data() + n), weights(n);
        for (int64_t i = 0; i < n; i += P) weigh(&losses[i], P, eta_g, &weights[i]);
        std::copy(weights.begin(), weights.end(), q.data());
    }

    void lower(Stored<T> u) {
        fits(u.size(), K);
        many->lower(u.data());
    }

    void dense(Out<T> out) {
        fits(out.size(), K * K);
        many->dense(out.data());
    }

    void replace(Stored<T> from) {
        fits(from.size(), K * K);
        many->replace(from.data());
    }

    void keep(Out<T> half, Out<T> terms) const {
        fits(half.size(), K * (K + 1) / 2), fits(terms.size(), many->waiting() * K);
        many->keep(half.data(), terms.data());
    }

    void resume(Stored<T> half, Stored<T> terms) {
        const int64_t used = int64_t(terms.size()) / (n * K);
        fits(half.size(), K * (K + 1) / 2), fits(terms.size(), used * K);
        many->resume(half.data(), terms.data(), used);
    }

    int waiting() const { return many->waiting(); }
    int used() const { return many->used(); }

  private:
    void fits(size_t size, int64_t each) const {
        require(int64_t(size) == n * each, "arrays must fit n and K");
    }

    // How many kernels each of so many learners has.
    int64_t share(size_t learners) const {
        require(learners > 0 && n % int64_t(learners) == 0, "deg must fit n");
        return n / int64_t(learners);
    }

    int64_t n, K;
    std::shared_ptr<Inverses<T>> many;
};

// A new NumPy array. By NumPy's own interface: through any other, making five of them takes longer than
// learning.
struct Fresh {
    Fresh(std::initializer_list<npy_intp> shape, int type)
        : array(nb::steal(PyArray_SimpleNew(int(shape.size()), shape.begin(), type))) {
        if (!array.is_valid()) nb::raise_python_error();
    }
    template <class T> T* data() const {
        return static_cast<T*>(PyArray_DATA(reinterpret_cast<PyArrayObject*>(array.ptr())));
    }

    nb::object array;
};

// The quick ways in: a call that does not fit throws at once, and Python says what is wrong with it.
template <class T> class DeviceHandle {
  public:
    DeviceHandle(Frequencies<T> V, int64_t deg, const Rates& rates, bool newton, const std::string& isa)
        : deg(deg), newton(newton) {
        P = int64_t(V.shape(0)), D = int64_t(V.shape(1)), d = int64_t(V.shape(2));
        sample.resize(d);
        const int64_t first[2] = {0, deg};
        const Setting setting = rates.with<T>(V, 1, first, nullptr, nullptr, newton, true, 1);
        device = dispatch<T>(isa, [&](auto, auto make, auto) { return make(setting, V.data()); });
    }

    double predict(nb::handle x) { return device->predict(checked(x)); }

    // y_hat, theta' (P, 2D) and L' (P,).
    nb::tuple observe(nb::handle x, double y) {
        const Fresh theta({P, 2 * D}, kind()), L({P}, NPY_DOUBLE);
        return nb::make_tuple(learn(x, y, theta, L), theta.array, L.array);
    }

    // A learner without neighbours observes and closes its round at once: the same, and the new q (P,).
    nb::tuple alone(nb::handle x, double y) {
        require(deg == 0, "only a learner without neighbours learns alone");
        const Fresh theta({P, 2 * D}, kind()), L({P}, NPY_DOUBLE), q({P}, NPY_DOUBLE);
        const double y_hat = learn(x, y, theta, L);
        device->close(nullptr, L.data<double>());
        std::copy_n(device->q(), P, q.data<double>());
        return nb::make_tuple(y_hat, theta.array, L.array, q.array);
    }

    void hear(int64_t i, nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu> theta) {
        require(i >= 0 && i < deg && int64_t(theta.size()) == P * 2 * D,
                "theta of a neighbour must be (P, 2D)");
        device->hear(i, theta.data());
    }

    void close(nb::ndarray<const bool, nb::ndim<1>, nb::c_contig, nb::device::cpu> heard,
               Sample<double> total, Out<double> q) {
        require(int64_t(heard.size()) == deg && int64_t(total.size()) == P && int64_t(q.size()) == P,
                "sizes must fit");
        device->close(heard.data(), total.data());
        std::copy_n(device->q(), P, q.data());
    }

    void state(Out<T> theta, Out<T> lam, Out<T> theta_sum, Out<double> L, Out<double> q) const {
        const int64_t size = P * 2 * D;
        require(
            int64_t(theta.size()) == size && int64_t(lam.size()) == size && int64_t(theta_sum.size()) == size,
            "state must be (P, 2D)");
        require(int64_t(L.size()) == P && int64_t(q.size()) == P, "weights must be (P,)");
        device->state(theta.data(), lam.data(), theta_sum.data());
        std::copy_n(device->L(), P, L.data());
        std::copy_n(device->q(), P, q.data());
    }

    void keep(Out<T> theta, Out<T> mu, Out<double> L, Out<double> q) const {
        fits(theta, mu, L, q);
        device->keep(theta.data(), mu.data());
        std::copy_n(device->L(), P, L.data());
        std::copy_n(device->q(), P, q.data());
    }

    void resume(Stored<T> theta, Stored<T> mu, Stored<double> L, Stored<double> q) {
        fits(theta, mu, L, q);
        device->resume(theta.data(), mu.data(), L.data(), q.data());
    }

    void past(Out<T> m) const {
        fits_past(m.size());
        device->past(m.data());
    }

    void resume_past(Stored<T> m) {
        fits_past(m.size());
        device->resume_past(m.data());
    }

    InversesHandle<T> inverses() const {
        require(newton, "only the second-order step has matrices");
        return {device->inverses(), P, 2 * D};
    }

    // From now on `ask` and `tell` take dictionaries: column k is (x[names[k]] - mean[k]) * factor[k].
    void columns(nb::tuple keys, Stored<double> mean, Stored<double> factor, Out<double> kept) {
        require(int64_t(keys.size()) == d && int64_t(mean.size()) == d && int64_t(factor.size()) == d,
                "names must be (d,)");
        require(kept.ndim() == 2 && int64_t(kept.shape(1)) == d, "rows must be (n, d)");
        names = keys, rows = kept, raw.resize(d), name.clear();
        for (nb::handle key : keys) name.push_back(key.ptr());
        centre.assign(mean.data(), mean.data() + d), unit.assign(factor.data(), factor.data() + d);
        L_out.resize(P);
    }

    // None where x is not a plain dictionary of exactly those names with finite numbers.
    nb::object ask(nb::handle x) {
        if (!read(x)) return nb::none();
        return nb::float_(device->predict(sample.data()));
    }

    // Learns (x, y) alone and keeps x in row i; false, and nothing is learnt, where `ask` says None.
    bool tell(nb::handle x, double y, int64_t i) {
        require(deg == 0 && i >= 0 && rows.ndim() == 2 && i < int64_t(rows.shape(0)) && y - y == 0,
                "i must be a row, y finite");
        if (!read(x)) return false;
        device->observe(sample.data(), double(T(y)), nullptr, L_out.data());
        device->close(nullptr, L_out.data());
        std::copy_n(raw.data(), d, rows.data() + i * d);
        return true;
    }

  private:
    bool read(nb::handle x) {
        if (name.empty() || !PyDict_CheckExact(x.ptr()) || PyDict_Size(x.ptr()) != d) return false;
        T zero = 0;
        for (int64_t k = 0; k < d; ++k) {
            PyObject* value = PyDict_GetItemWithError(x.ptr(), name[k]);
            if (value) raw[k] = PyFloat_AsDouble(value);
            if (!value || (raw[k] == -1 && PyErr_Occurred())) return PyErr_Clear(), false;
            zero += (sample[k] = T((raw[k] - centre[k]) * unit[k])) * 0;
        }
        return zero == 0;
    }

    template <class A, class B> void fits(const A& theta, const A& mu, const B& L, const B& q) const {
        require(int64_t(theta.size()) == P * 2 * D && int64_t(mu.size()) == P * 2 * D,
                "state must be (P, 2D)");
        require(int64_t(L.size()) == P && int64_t(q.size()) == P, "weights must be (P,)");
    }

    void fits_past(size_t size) const {
        require(newton && int64_t(size) == P * 2 * D, "m must be (P, 2D), of the second-order step");
    }

    static constexpr int kind() { return sizeof(T) == 8 ? NPY_DOUBLE : NPY_FLOAT; }

    double learn(nb::handle x, double y, const Fresh& theta, const Fresh& L) {
        const T* features = checked(x);
        require(y - y == 0, "y must be finite");
        return device->observe(features, double(T(y)), theta.data<T>(), L.data<double>());
    }

    // Samples come as float64, whatever the device computes in.
    const T* checked(nb::handle given) {
        auto x = reinterpret_cast<PyArrayObject*>(given.ptr());
        const bool fits = PyArray_Check(given.ptr()) && PyArray_NDIM(x) == 1 && PyArray_DIM(x, 0) == d &&
                          PyArray_TYPE(x) == NPY_DOUBLE;
        require(fits && PyArray_ISCARRAY_RO(x), "x must be (d,), float64 and contiguous");
        const double* from = static_cast<const double*>(PyArray_DATA(x));
        T zero = 0;
        for (int64_t k = 0; k < d; ++k) zero += (sample[k] = T(from[k])) * 0;  // not 0 if any x is not finite
        require(zero == 0, "x must be finite");
        return sample.data();
    }

    std::vector<T> sample;
    std::vector<PyObject*> name;  // of the columns; `names` keeps them alive
    std::vector<double> raw, centre, unit, L_out;
    nb::tuple names{nb::steal<nb::tuple>(nb::handle())};
    Out<double> rows;
    int64_t deg, P, D, d;
    bool newton;
    std::unique_ptr<Device<T>> device;
};

template <class T>
void declare(nb::module_& m, const char* network, const char* device, const char* inverses) {
    using N = NetworkHandle<T>;
    nb::class_<N>(m, network)
        .def(nb::init<Frequencies<T>, Index, Index, Index, const Rates&, bool, bool, int,
                      const std::string&>(),
             "V"_a, "first"_a, "near"_a, "reverse"_a, "rates"_a, nb::kw_only(), "newton"_a, "keep"_a,
             "threads"_a, "isa"_a)
        .def("advance", &N::advance)
        .def("state", &N::state)
        .def("weights", &N::weights)
        .def("inverse", &N::inverse)
        .def("replace", &N::replace);
    using I = InversesHandle<T>;
    nb::class_<I>(m, inverses)
        .def(nb::init<int64_t, int64_t, const std::string&>(), "n"_a, "K"_a, nb::kw_only(), "isa"_a)
        .def("diagonal", &I::diagonal)
        .def("times", &I::times)
        .def("learn", &I::learn)
        .def("close", &I::close)
        .def("lower", &I::lower)
        .def("dense", &I::dense)
        .def("replace", &I::replace)
        .def("keep", &I::keep)
        .def("resume", &I::resume)
        .def("waiting", &I::waiting)
        .def("used", &I::used);
    using H = DeviceHandle<T>;
    nb::class_<H>(m, device)
        .def(nb::init<Frequencies<T>, int64_t, const Rates&, bool, const std::string&>(), "V"_a, "deg"_a,
             "rates"_a, nb::kw_only(), "newton"_a, "isa"_a)
        .def("predict", &H::predict)
        .def("observe", &H::observe)
        .def("alone", &H::alone)
        .def("columns", &H::columns)
        .def("ask", &H::ask)
        .def("tell", &H::tell)
        .def("hear", &H::hear)
        .def("close", &H::close)
        .def("state", &H::state)
        .def("keep", &H::keep)
        .def("resume", &H::resume)
        .def("past", &H::past)
        .def("resume_past", &H::resume_past)
        .def("inverses", &H::inverses);
}

}  // namespace domkl

NB_MODULE(_engine, m) {
    m.doc() = "domkl's native engine";
    nb::set_leak_warnings(false);  // a process that is told to stop need not free everything first
    if (_import_array() < 0) nb::raise_python_error();
    m.def("best", &domkl::best, "The widest instruction set that this processor runs.");
    m.def("runs", &domkl::runs, "isa"_a, "Whether this processor runs an instruction set.");
    domkl::declare_limits(m);
    nb::class_<domkl::Rates>(m, "Rates")
        .def(nb::init<double, double, double, double, std::string, double, double, std::string>(), "rho"_a,
             "eta"_a, "eta_g"_a, "mu"_a, "loss"_a, "delta"_a, "reg"_a, "rule"_a);
    domkl::declare<double>(m, "Network64", "Device64", "Inverses64");
    domkl::declare<float>(m, "Network32", "Device32", "Inverses32");
}
