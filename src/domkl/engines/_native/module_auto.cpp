// Rounds of `Auto` for Python: they work in place on the arrays of its concepts, which they keep alive.
#include <nanobind/stl/optional.h>

#include <memory>
#include <string>
#include <vector>

#include "auto/round.hpp"
#include "isa.hpp"
#include "module.hpp"
#include "module_inverses.hpp"

namespace domkl {

// Arrays and numbers of Python objects: "recent.fade" is the attribute fade of the object called recent.
class PythonFields final : public Fields {
  public:
    explicit PythonFields(nb::dict concepts) : concepts(concepts) {}

    double number(const char* name, int place) override {
        nb::object found = named(name);
        if (place >= 0) found = found[place];
        const double value = PyFloat_AsDouble(found.ptr());
        if (value == -1 && PyErr_Occurred()) nb::raise_python_error();
        return value;
    }
    void get(const char* name, int64_t size, double*& array) override { take(name, size, array); }
    void get(const char* name, int64_t size, float*& array) override { take(name, size, array); }
    void get(const char* name, int64_t size, int64_t*& array) override { take(name, size, array); }
    void get(const char* name, int64_t size, bool*& array) override { take(name, size, array); }

    std::vector<nb::object> kept;  // all arrays

  private:
    nb::object named(const std::string& name) const {
        const size_t dot = name.rfind('.');
        if (dot == std::string::npos) return concepts[name.c_str()];
        return nb::getattr(concepts[name.substr(0, dot).c_str()], name.substr(dot + 1).c_str());
    }
    template <class V> void take(const char* name, int64_t size, V*& array) {
        kept.push_back(named(name));
        nb::ndarray<V, nb::c_contig, nb::device::cpu> found;
        if (!nb::try_cast(kept.back(), found, false) || int64_t(found.size()) != size)
            throw std::invalid_argument(std::string(name) + " is of another size or type");
        array = found.data();
    }

    nb::dict concepts;
};

// Round64 and Round32.
template <class T> class RoundHandle {
  public:
    RoundHandle(nb::dict concepts, const InversesHandle<T>& Q, const std::string& isa, int threads) {
        require(threads >= 1, "threads must be at least 1");
        PythonFields fields(concepts);
        J = int64_t(fields.number("J", -1)), d = int64_t(fields.number("d", -1));
        m = int64_t(fields.number("m", -1)), K = int64_t(fields.number("features.K", -1));
        round = factories<T>(isa).round(fields, Q.shared(), threads);
        kept = std::move(fields.kept);
    }

    int64_t size() const { return round->size(); }
    bool is_scaled() const { return round->is_scaled(); }

    void predict(In<double> x, Out<double> prediction) {
        check(x, J * d), check(prediction, size());
        round->predict(x.data(), prediction.data());
    }
    int learn(In<double> x, In<double> y, std::optional<In<double>> weight, In<double> past, bool has_apart) {
        check(x, J * d), check(y, J * m), check(past, size());
        if (weight) check(*weight, J);
        return round->learn(x.data(), y.data(), weight ? weight->data() : nullptr, past.data(), has_apart);
    }
    // Arrays are (R,), (R, n, m, K), (R, n) and (R, n).
    void judge(In<int64_t> who, In<T> theta, In<bool> able, Out<bool> used) {
        const int64_t R = int64_t(who.size()), n = R ? int64_t(used.size()) / R : 0;
        for (int64_t r = 0; r < R; ++r) require(who.data()[r] >= 0 && who.data()[r] < J, "no such device");
        check(theta, R * n * m * K), check(able, R * n), check(used, R * n);
        round->judge(R, who.data(), n, theta.data(), able.data(), used.data());
    }
    void rest() { round->rest(); }
    // Features (J, K) of the samples that were predicted last.
    void features(Out<T> z) const {
        check(z, J * K);
        round->features(z.data());
    }
    int merge(In<T> near, In<T> moved, In<T> mean, In<double> moving, In<double> weight, bool has_learnt) {
        check(near, J * m * K), check(moved, J * m * K), check(mean, J * m * K);
        check(moving, J), check(weight, J);
        return round->merge({near.data(), moved.data(), mean.data(), moving.data(), weight.data()},
                            has_learnt);
    }
    void link(nb::dict network) {
        PythonFields fields(network);
        round->link(fields);
        linked = std::move(fields.kept);
    }
    nb::tuple advance(In<double> x, In<double> y, Out<double> predictions, Out<double> gaps, int64_t first) {
        require(x.ndim() == 3 && x.size() > 0, "x must be (n, J, d)");
        const int64_t n = int64_t(x.shape(0));
        check(x, n * J * d), check(y, n * J * m), check(predictions, n * size()), check(gaps, n * J * m);
        require(first >= 0 && first < n, "the first round is not in the block");
        const Progress done =
            round->advance(n - first, x.data() + first * J * d, y.data() + first * J * m,
                           predictions.data() + first * size(), gaps.data() + first * J * m);
        return nb::make_tuple(first + done.rounds, done.due);
    }
    int close() { return round->close(); }
    int learn_alone(In<double> x, In<double> y, In<double> past) {
        check(x, J * d), check(y, J * m), check(past, size());
        return round->learn_alone(x.data(), y.data(), past.data());
    }

  private:
    template <class A> static void check(const A& array, int64_t size) {
        require(int64_t(array.size()) == size, "arrays must fit the devices");
    }

    int64_t J, d, m, K;
    std::unique_ptr<Round<T>> round;
    std::vector<nb::object> kept, linked;
};

// What is written to is no copy of another type.
template <class T> static void declare(nb::module_& m, const char* name) {
    using R = RoundHandle<T>;
    nb::class_<R>(m, name)
        .def(nb::init<nb::dict, const InversesHandle<T>&, const std::string&, int>(), "concepts"_a, "Q"_a,
             nb::kw_only(), "isa"_a, "threads"_a = 1)
        .def_prop_ro("size", &R::size)
        .def("is_scaled", &R::is_scaled)
        .def("predict", &R::predict, "x"_a, "prediction"_a.noconvert())
        .def("learn", &R::learn, "x"_a, "y"_a, "weight"_a.none(), "past"_a, "has_apart"_a)
        .def("judge", &R::judge, "who"_a, "theta"_a, "able"_a, "used"_a.noconvert())
        .def("rest", &R::rest)
        .def("features", &R::features, "z"_a.noconvert())
        .def("merge", &R::merge)
        .def("link", &R::link)
        .def("advance", &R::advance, "x"_a, "y"_a, "predictions"_a.noconvert(), "gaps"_a.noconvert(),
             "first"_a)
        .def("close", &R::close)
        .def("learn_alone", &R::learn_alone);
}

void declare_rounds(nb::module_& m) {
    declare<double>(m, "Round64");
    declare<float>(m, "Round32");
    m.attr("PUBLISH") = int(publish);
    m.attr("RESTART") = int(restart);
    m.attr("TAKE") = int(take);
}

}  // namespace domkl
