// The limits' door to Python.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <stdexcept>
#include <string>

#include "limits.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace domkl {

bool runs(const std::string& isa);  // module.cpp

static Loop loop_of(const std::string& name) {
    if (name == "fma") return Loop::fma;
    if (name == "sincos") return Loop::sincos;
    if (name == "vector") return Loop::vector;
    if (name == "stored") return Loop::stored;
    if (name == "triad") return Loop::triad;
    if (name == "read") return Loop::read;
    throw std::invalid_argument("no loop is called " + name);
}

template <class T> static double on(const std::string& isa, const Trial& trial) {
    if (!runs(isa)) throw std::invalid_argument("this processor does not run " + isa);
#if defined(DOMKL_X86)
    if (isa == "avx512") return avx512::rate<T>(trial);
    if (isa == "avx2") return avx2::rate<T>(trial);
#endif
    return baseline::rate<T>(trial);
}

static double limit(const std::string& loop, const std::string& isa, bool single, double seconds, int threads,
                    int64_t bytes) {
    if (threads < 1 || threads > 1024 || bytes < 0 || bytes > (int64_t(1) << 40) ||
        !(seconds >= 0 && seconds < 3600))
        throw std::invalid_argument("threads, bytes or seconds cannot be used");
    const Trial trial{loop_of(loop), seconds, threads, bytes};
    nb::gil_scoped_release release;
    return single ? on<float>(isa, trial) : on<double>(isa, trial);
}

void declare_limits(nb::module_& m) {
    m.def("limit", &limit, "loop"_a, "isa"_a, nb::kw_only(), "single"_a = false, "seconds"_a = 0.05,
          "threads"_a = 1, "bytes"_a = 0,
          "Work per second of one of the engine's loops, all threads together.");
}

}  // namespace domkl
