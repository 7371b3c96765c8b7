// The engine's door to Python: checks shapes, picks the instruction set, lets go of the interpreter's lock.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include <algorithm>
#include <stdexcept>
#include <string>

#include "engine.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace domkl {

bool runs(const std::string& isa) {
    if (isa == "baseline") return true;
#if defined(DOMKL_X86)
    __builtin_cpu_init();
    if (isa == "avx2") return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (isa == "avx512")
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#endif
    return false;
}

std::string best() {
    for (const char* isa : {"avx512", "avx2"})
        if (runs(isa)) return isa;
    return "baseline";
}

template <class T> std::unique_ptr<Engine<T>> make(const std::string& isa, const Setting& setting, const T* V) {
    if (!runs(isa)) throw std::invalid_argument("this processor does not run " + isa);
#if defined(DOMKL_X86)
    if (isa == "avx512") return avx512::make<T>(setting, V);
    if (isa == "avx2") return avx2::make<T>(setting, V);
#endif
    return baseline::make<T>(setting, V);
}

template <class T> using In = nb::ndarray<const T, nb::device::cpu>;
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

template <class T> class Handle {
  public:
    Handle(nb::ndarray<const T, nb::ndim<3>, nb::c_contig, nb::device::cpu> V, Index first, Index near, Index reverse, double rho, double eta,
           double eta_g, double mu, const std::string& loss, double delta, double reg, const std::string& rule, bool keep,
           int threads, const std::string& isa) {
        J = int64_t(first.shape(0)) - 1, P = int64_t(V.shape(0)), D = int64_t(V.shape(1)), d = int64_t(V.shape(2));
        require(J >= 1 && near.shape(0) == reverse.shape(0), "a graph needs learners, and edges both ways");
        const Setting setting{J,       P,   D,     d,   first.data(), near.data(), reverse.data(), rho,  eta,
                              eta_g,   mu,  loss_of(loss), delta, reg, rule_of(rule), keep, threads};
        engine = make<T>(isa, setting, V.data());
    }

    void advance(In<T> x, In<T> y, int64_t history, int64_t delay, int64_t start, nb::ndarray<T, nb::ndim<2>, nb::device::cpu> y_hat,
                 Out<double> squares, Out<double> gaps, Out<double> kernel_squares, Out<double> kernel_gaps) {
        const int64_t rounds = int64_t(y_hat.shape(1));
        require(x.ndim() == 3 && y.ndim() == 2 && int64_t(x.shape(0)) == J && int64_t(x.shape(2)) == d, "x must be (J, B, d)");
        require(d == 1 || x.stride(2) == 1, "the features of a sample must lie side by side");
        require(int64_t(x.shape(1)) == history + rounds && y.shape(1) == x.shape(1) && int64_t(y.shape(0)) == J, "x and y must match");
        require(history >= std::min(start, delay), "too little history for the delay");
        require(int64_t(y_hat.shape(0)) == J && (rounds == 1 || y_hat.stride(1) == 1), "y_hat must be (J, B)");
        require(int64_t(squares.size()) == J && int64_t(gaps.size()) == J, "sums must be (J,)");
        require(int64_t(kernel_squares.size()) == J * P && int64_t(kernel_gaps.size()) == J * P, "sums must be (J, P)");
        const Block<T> block{rounds,      delay,         start,          x.data() + history * x.stride(1), y.data() + history * y.stride(1),
                             x.stride(0), x.stride(1),   y.stride(0),    y.stride(1),                      y_hat.data(),
                             y_hat.stride(0), squares.data(), gaps.data(), kernel_squares.data(), kernel_gaps.data()};
        nb::gil_scoped_release release;
        engine->advance(block);
    }

    void state(Out<T> theta, Out<T> lam) const {
        require(int64_t(theta.size()) == J * P * 2 * D && theta.size() == lam.size(), "state must be (J, P, 2D)");
        engine->state(theta.data(), lam.data());
    }

    void weights(Out<double> L, Out<double> q) const {
        require(int64_t(L.size()) == J * P && int64_t(q.size()) == J * P, "weights must be (J, P)");
        std::copy_n(engine->L(), J * P, L.data());
        std::copy_n(engine->q(), J * P, q.data());
    }

  private:
    int64_t J, P, D, d;
    std::unique_ptr<Engine<T>> engine;
};

template <class T> void declare(nb::module_& m, const char* name) {
    using H = Handle<T>;
    nb::class_<H>(m, name)
        .def(nb::init<nb::ndarray<const T, nb::ndim<3>, nb::c_contig, nb::device::cpu>, Index, Index, Index, double, double, double, double,
                      const std::string&, double, double, const std::string&, bool, int, const std::string&>(),
             "V"_a, "first"_a, "near"_a, "reverse"_a, nb::kw_only(), "rho"_a, "eta"_a, "eta_g"_a, "mu"_a, "loss"_a, "delta"_a,
             "reg"_a, "rule"_a, "keep"_a, "threads"_a, "isa"_a)
        .def("advance", &H::advance)
        .def("state", &H::state)
        .def("weights", &H::weights);
}

}  // namespace domkl

NB_MODULE(_engine, m) {
    m.doc() = "domkl's native engine";
    m.def("best", &domkl::best, "The widest instruction set that this processor runs.");
    m.def("runs", &domkl::runs, "isa"_a, "Whether this processor runs an instruction set.");
    domkl::declare<double>(m, "Engine64");
    domkl::declare<float>(m, "Engine32");
}
