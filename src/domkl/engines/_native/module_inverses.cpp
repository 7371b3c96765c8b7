#include "module_inverses.hpp"

#include "isa.hpp"

namespace domkl {

template <class T>
InversesHandle<T>::InversesHandle(int64_t n, int64_t K, const std::string& isa) : n(n), K(K) {
    require(n >= 1 && K >= 1 && n < (int64_t(1) << 32) && K < (int64_t(1) << 24), "n and K must be above 0");
    matrices = factories<T>(isa).inverses(n, K);
}

template <class T> void InversesHandle<T>::diagonal(In<T> x) {
    require(int64_t(x.size()) == n, "the diagonal must be (n,)");
    matrices->set_diagonal(x.data());
}

template <class T> void InversesHandle<T>::dense(Out<T> out) {
    check_size(out.size(), K * K);
    matrices->dense(out.data());
}

template <class T> void InversesHandle<T>::replace(In<T> from) {
    check_size(from.size(), K * K);
    matrices->replace(from.data());
}

template <class T> void InversesHandle<T>::keep(Out<T> half, Out<T> terms) const {
    check_size(half.size(), K * (K + 1) / 2), check_size(terms.size(), matrices->capacity() * K);
    matrices->save(half.data(), terms.data());
}

template <class T> void InversesHandle<T>::resume(In<T> half, In<T> terms) {
    const int64_t used = int64_t(terms.size()) / (n * K);
    check_size(half.size(), K * (K + 1) / 2), check_size(terms.size(), used * K);
    matrices->restore(half.data(), terms.data(), used);
}

template <class T> void InversesHandle<T>::put(int64_t i, In<T> from) {
    check_one(i, from.size(), K * K);
    matrices->replace(i, from.data());
}

template <class T> int InversesHandle<T>::keep_one(int64_t i, Out<T> half, Out<T> terms) const {
    check_one(i, half.size(), K * (K + 1) / 2), check_one(i, terms.size(), matrices->capacity() * K);
    return matrices->save(i, half.data(), terms.data());
}

template <class T> void InversesHandle<T>::resume_one(int64_t i, In<T> half, In<T> terms) {
    const int64_t used = int64_t(terms.size()) / K;
    check_one(i, half.size(), K * (K + 1) / 2), check_one(i, terms.size(), used * K);
    matrices->restore(i, half.data(), terms.data(), used);
}

template <class T> static void declare(nb::module_& m, const char* name) {
    using I = InversesHandle<T>;
    nb::class_<I>(m, name)
        .def(nb::init<int64_t, int64_t, const std::string&>(), "n"_a, "K"_a, nb::kw_only(), "isa"_a)
        .def("diagonal", &I::diagonal)
        .def("dense", &I::dense)
        .def("replace", &I::replace)
        .def("keep", &I::keep)
        .def("resume", &I::resume)
        .def("put", &I::put)
        .def("keep_one", &I::keep_one)
        .def("resume_one", &I::resume_one)
        .def("waiting", &I::waiting)
        .def("used", &I::used);
}

void declare_inverses(nb::module_& m) {
    declare<double>(m, "Inverses64");
    declare<float>(m, "Inverses32");
}

}  // namespace domkl
