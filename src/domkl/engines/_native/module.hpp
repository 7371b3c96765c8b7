// What the Python bindings share: types of arrays, checks of arguments, the learners' rates.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <stdexcept>
#include <string>

#include "engine.hpp"

namespace domkl {

namespace nb = nanobind;
using namespace nb::literals;

template <class T> using Strided = nb::ndarray<const T, nb::device::cpu>;
template <class T> using In = nb::ndarray<const T, nb::c_contig, nb::device::cpu>;
template <class T> using In1 = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T> using In2 = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T> using In3 = nb::ndarray<const T, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
template <class T> using Out = nb::ndarray<T, nb::c_contig, nb::device::cpu>;

// Throws a ValueError unless an argument is good.
inline void require(bool good, const char* message) {
    if (!good) throw std::invalid_argument(message);
}

// The parameters of the local step and of Hedge that networks and devices share.
struct Rates {
    double rho, eta, eta_g, mu;
    std::string loss;
    double delta, reg;
    std::string rule;

    // All settings of a run with frequencies of the shape (P, D, d).
    Settings with(int64_t P, int64_t D, int64_t d, int64_t J, const int64_t* first, const int64_t* neighbours,
                  const int64_t* reverse, bool newton, bool keep_state, int threads) const;
};

// Each adds its classes or functions to the extension module.
void declare_networks(nb::module_& m);
void declare_inverses(nb::module_& m);
void declare_devices(nb::module_& m);
void declare_rounds(nb::module_& m);
void declare_limits(nb::module_& m);

}  // namespace domkl
