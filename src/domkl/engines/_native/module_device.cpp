// Devices for Python. Calls are short, so arguments are checked as cheaply as possible: one that does not fit
// throws at once, and the Python code explains what is wrong with it.
#include <algorithm>
#include <initializer_list>
#include <memory>
#include <vector>

#include "isa.hpp"
#include "module.hpp"
#include "module_inverses.hpp"

#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <numpy/arrayobject.h>

namespace domkl {

// A new NumPy array, by NumPy's own interface: by any other, creating five of them takes longer than
// learning.
struct NewArray {
    NewArray(std::initializer_list<npy_intp> shape, int type)
        : array(nb::steal(PyArray_SimpleNew(int(shape.size()), shape.begin(), type))) {
        if (!array.is_valid()) nb::raise_python_error();
    }
    template <class T> T* data() const {
        return static_cast<T*>(PyArray_DATA(reinterpret_cast<PyArrayObject*>(array.ptr())));
    }

    nb::object array;
};

// Reads samples from dictionaries: column k is (x[keys[k]] - mean[k]) * factor[k].
template <class T> class DictReader {
  public:
    DictReader() = default;
    DictReader(nb::tuple names, const double* mean, const double* factor)
        : keys(names), mean(mean, mean + names.size()), factor(factor, factor + names.size()),
          raw_(names.size()) {
        for (nb::handle name : names) key.push_back(name.ptr());
    }

    // False unless x is a plain dictionary of exactly those keys with finite numbers.
    bool read(nb::handle x, T* sample) {
        const int64_t d = int64_t(key.size());
        if (d == 0 || !PyDict_CheckExact(x.ptr()) || PyDict_Size(x.ptr()) != d) return false;
        T zero = 0;
        for (int64_t k = 0; k < d; ++k) {
            PyObject* value = PyDict_GetItemWithError(x.ptr(), key[k]);
            if (value) raw_[k] = PyFloat_AsDouble(value);
            if (!value || (raw_[k] == -1 && PyErr_Occurred())) return PyErr_Clear(), false;
            zero += (sample[k] = T((raw_[k] - mean[k]) * factor[k])) * 0;  // no longer 0 if not finite
        }
        return zero == 0;
    }

    // The last sample as it was in the dictionary.
    const std::vector<double>& raw() const { return raw_; }

  private:
    nb::tuple keys{nb::steal<nb::tuple>(nb::handle())};  // keeps those of `key` alive
    std::vector<PyObject*> key;
    std::vector<double> mean, factor, raw_;
};

// Device64 and Device32.
template <class T> class DeviceHandle {
  public:
    DeviceHandle(In3<T> V, int64_t deg, const Rates& rates, bool newton, const std::string& isa)
        : deg(deg), newton(newton) {
        P = int64_t(V.shape(0)), D = int64_t(V.shape(1)), d = int64_t(V.shape(2));
        sample.resize(d), next_L.resize(P);
        const int64_t first[2] = {0, deg};
        const Settings settings = rates.with(P, D, d, 1, first, nullptr, nullptr, newton, true, 1);
        device = factories<T>(isa).device(settings, V.data());
    }

    double predict(nb::handle x) { return device->predict(checked(x)); }

    // y_hat, theta' (P, 2D) and L' (P,).
    nb::tuple observe(nb::handle x, double y) {
        const NewArray theta({P, 2 * D}, dtype()), L({P}, NPY_DOUBLE);
        return nb::make_tuple(learn(x, y, theta, L), theta.array, L.array);
    }

    // `observe` and `close` in one call, for a learner without neighbours; returns also the new q (P,).
    nb::tuple alone(nb::handle x, double y) {
        require(deg == 0, "only a learner without neighbours learns alone");
        const NewArray theta({P, 2 * D}, dtype()), L({P}, NPY_DOUBLE), q({P}, NPY_DOUBLE);
        const double y_hat = learn(x, y, theta, L);
        device->close_round(nullptr, L.data<double>());
        std::copy_n(device->q(), P, q.data<double>());
        return nb::make_tuple(y_hat, theta.array, L.array, q.array);
    }

    void hear(int64_t i, In2<T> theta) {
        require(i >= 0 && i < deg && int64_t(theta.size()) == P * 2 * D,
                "theta of a neighbour must be (P, 2D)");
        device->receive(i, theta.data());
    }

    void close(In1<bool> received, In1<double> total, Out<double> q) {
        require(int64_t(received.size()) == deg && int64_t(total.size()) == P && int64_t(q.size()) == P,
                "sizes must fit");
        device->close_round(received.data(), total.data());
        std::copy_n(device->q(), P, q.data());
    }

    void keep(Out<T> theta, Out<T> mu, Out<double> L, Out<double> q) const {
        check_state(theta, mu, L, q);
        device->save(theta.data(), mu.data());
        write_weights(L, q);
    }

    void resume(In<T> theta, In<T> mu, In<double> L, In<double> q) {
        check_state(theta, mu, L, q);
        device->restore(theta.data(), mu.data(), L.data(), q.data());
    }

    void past(Out<T> m) const {
        check_m(m.size());
        device->save_m(m.data());
    }

    void resume_past(In<T> m) {
        check_m(m.size());
        device->restore_m(m.data());
    }

    InversesHandle<T> inverses() const {
        require(newton, "only the second-order step has matrices");
        return {device->inverses(), P, 2 * D};
    }

    // From now on `ask` and `tell` take dictionaries, and `tell` keeps its samples in the rows (n, d) given.
    void columns(nb::tuple names, In<double> mean, In<double> factor, Out<double> samples) {
        require(int64_t(names.size()) == d && int64_t(mean.size()) == d && int64_t(factor.size()) == d,
                "names must be (d,)");
        require(samples.ndim() == 2 && int64_t(samples.shape(1)) == d, "rows must be (n, d)");
        reader = DictReader<T>(names, mean.data(), factor.data()), rows = samples;
    }

    // The prediction; None for an x that the reader refuses.
    nb::object ask(nb::handle x) {
        if (!reader.read(x, sample.data())) return nb::none();
        return nb::float_(device->predict(sample.data()));
    }

    // Learns (x, y) without neighbours and keeps x in row i; false, without learning, if `ask` returns None.
    bool tell(nb::handle x, double y, int64_t i) {
        require(deg == 0 && i >= 0 && rows.ndim() == 2 && i < int64_t(rows.shape(0)) && y - y == 0,
                "i must be a row, y finite");
        if (!reader.read(x, sample.data())) return false;
        device->observe(sample.data(), double(T(y)), nullptr, next_L.data());
        device->close_round(nullptr, next_L.data());
        std::copy_n(reader.raw().data(), d, rows.data() + i * d);
        return true;
    }

  private:
    template <class A, class B> void check_state(const A& theta, const A& mu, const B& L, const B& q) const {
        require(int64_t(theta.size()) == P * 2 * D && int64_t(mu.size()) == P * 2 * D,
                "state must be (P, 2D)");
        require(int64_t(L.size()) == P && int64_t(q.size()) == P, "weights must be (P,)");
    }

    void check_m(size_t size) const {
        require(newton && int64_t(size) == P * 2 * D, "m must be (P, 2D), of the second-order step");
    }

    void write_weights(Out<double>& L, Out<double>& q) const {
        std::copy_n(device->L(), P, L.data());
        std::copy_n(device->q(), P, q.data());
    }

    static constexpr int dtype() { return sizeof(T) == 8 ? NPY_DOUBLE : NPY_FLOAT; }

    double learn(nb::handle x, double y, const NewArray& theta, const NewArray& L) {
        const T* features = checked(x);
        require(y - y == 0, "y must be finite");
        return device->observe(features, double(T(y)), theta.data<T>(), L.data<double>());
    }

    // The sample in the device's precision; it comes in float64.
    const T* checked(nb::handle given) {
        auto x = reinterpret_cast<PyArrayObject*>(given.ptr());
        const bool fits = PyArray_Check(given.ptr()) && PyArray_NDIM(x) == 1 && PyArray_DIM(x, 0) == d &&
                          PyArray_TYPE(x) == NPY_DOUBLE;
        require(fits && PyArray_ISCARRAY_RO(x), "x must be (d,), float64 and contiguous");
        const double* from = static_cast<const double*>(PyArray_DATA(x));
        T zero = 0;
        for (int64_t k = 0; k < d; ++k) zero += (sample[k] = T(from[k])) * 0;  // no longer 0 if not finite
        require(zero == 0, "x must be finite");
        return sample.data();
    }

    std::vector<T> sample;
    std::vector<double> next_L;
    DictReader<T> reader;
    Out<double> rows;
    int64_t deg, P, D, d;
    bool newton;
    std::unique_ptr<Device<T>> device;
};

template <class T> static void declare(nb::module_& m, const char* name) {
    using H = DeviceHandle<T>;
    nb::class_<H>(m, name)
        .def(nb::init<In3<T>, int64_t, const Rates&, bool, const std::string&>(), "V"_a, "deg"_a, "rates"_a,
             nb::kw_only(), "newton"_a, "isa"_a)
        .def("predict", &H::predict)
        .def("observe", &H::observe)
        .def("alone", &H::alone)
        .def("columns", &H::columns)
        .def("ask", &H::ask)
        .def("tell", &H::tell)
        .def("hear", &H::hear)
        .def("close", &H::close)
        .def("keep", &H::keep)
        .def("resume", &H::resume)
        .def("past", &H::past)
        .def("resume_past", &H::resume_past)
        .def("inverses", &H::inverses);
}

void declare_devices(nb::module_& m) {
    if (_import_array() < 0) nb::raise_python_error();
    declare<double>(m, "Device64");
    declare<float>(m, "Device32");
}

}  // namespace domkl
