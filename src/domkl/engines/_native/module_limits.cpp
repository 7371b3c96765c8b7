// The machine's limits for Python.
#include "isa.hpp"
#include "limits.hpp"
#include "module.hpp"

namespace domkl {

static Loop loop_named(const std::string& name) {
    if (name == "fma") return Loop::fma;
    if (name == "sincos") return Loop::sincos;
    if (name == "vector") return Loop::vector;
    if (name == "stored") return Loop::stored;
    if (name == "triad") return Loop::triad;
    if (name == "read") return Loop::read;
    throw std::invalid_argument("no loop is called " + name);
}

template <class T> static double rate_on(const std::string& isa, const Measurement& measurement) {
    require_isa(isa);
#if defined(DOMKL_X86)
    if (isa == "avx512") return avx512::rate<T>(measurement);
    if (isa == "avx2") return avx2::rate<T>(measurement);
#endif
    return baseline::rate<T>(measurement);
}

static double limit(const std::string& loop, const std::string& isa, bool single, double seconds, int threads,
                    int64_t bytes) {
    require(threads >= 1 && threads <= 1024 && bytes >= 0 && bytes <= (int64_t(1) << 40) && seconds >= 0 &&
                seconds < 3600,
            "threads, bytes or seconds cannot be used");
    const Measurement measurement{loop_named(loop), seconds, threads, bytes};
    nb::gil_scoped_release release;
    return single ? rate_on<float>(isa, measurement) : rate_on<double>(isa, measurement);
}

void declare_limits(nb::module_& m) {
    m.def("limit", &limit, "loop"_a, "isa"_a, nb::kw_only(), "single"_a = false, "seconds"_a = 0.05,
          "threads"_a = 1, "bytes"_a = 0,
          "Work per second of one of the engine's loops, all threads together.");
}

}  // namespace domkl
