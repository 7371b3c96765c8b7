#include "module_inverses.hpp"

#include <nanobind/stl/vector.h>

#include <algorithm>
#include <vector>

#include "isa.hpp"
#include "weights.hpp"

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

template <class T> void InversesHandle<T>::times(const std::vector<In<T>>& x, Out<T> Px, int threads) {
    const int count = int(x.size());
    require(count == 2 || count == 3, "two or three vectors are multiplied at once");
    for (const In<T>& each : x) check_size(each.size(), K);
    check_size(Px.size(), count * K);
    require(threads >= 1, "threads must be at least 1");
    const T* from[3] = {};
    for (int r = 0; r < count; ++r) from[r] = x[r].data();
    nb::gil_scoped_release release;
    matrices->multiply(from, count, Px.data(), threads);
}

template <class T>
bool InversesHandle<T>::learn(In<T> theta, In<T> theta_sum, In<T> lam, In<T> m, In<T> z, In<T> h, In<T> ky,
                              In<T> L, In<T> deg, double pull, Out<T> next, Out<T> next_m, int threads) {
    for (size_t size :
         {theta.size(), theta_sum.size(), lam.size(), m.size(), z.size(), next.size(), next_m.size()})
        check_size(size, K);
    for (size_t size : {h.size(), ky.size(), L.size()}) check_size(size, 1);
    require(threads >= 1, "threads must be at least 1");
    NewtonRound<T> round{};
    round.theta = theta.data(), round.theta_sum = theta_sum.data(), round.lam = lam.data(),
    round.m = m.data();
    round.z = z.data(), round.h = h.data(), round.ky = ky.data(), round.L = L.data(), round.deg = deg.data();
    round.kernels = kernels_of(deg.size()), round.pull = T(pull);
    round.next = next.data(), round.next_m = next_m.data();
    nb::gil_scoped_release release;
    return matrices->learn(round, threads);
}

// So few operations that they need no instruction set.
template <class T>
void InversesHandle<T>::close(In<T> theta, In<T> theta_sum, In<T> lam, In<T> total, In<T> deg, double pull,
                              double eta_g, Out<T> next, Out<T> q) const {
    for (size_t size : {theta.size(), theta_sum.size(), lam.size(), next.size()}) check_size(size, K);
    check_size(total.size(), 1), check_size(q.size(), 1);
    require(total.ndim() > 0, "total must be (..., P)");
    const int64_t each = kernels_of(deg.size()), P = int64_t(total.shape(total.ndim() - 1));
    const T *now = theta.data(), *sum = theta_sum.data(), *last = lam.data(), by = T(pull);
    T* to = next.data();
    for (int64_t i = 0; i < n; ++i)
        for (const T *end = now + K, d = deg.data()[i / each]; now < end;)
            *to++ = *last++ + by * (d * *now++ - *sum++);
    std::vector<double> losses(total.data(), total.data() + n), weights(n);
    for (int64_t i = 0; i < n; i += P) hedge_weights(&losses[i], P, eta_g, &weights[i]);
    std::copy(weights.begin(), weights.end(), q.data());
}

template <class T> void InversesHandle<T>::lower(In<T> u) {
    check_size(u.size(), K);
    matrices->downdate(u.data());
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
        .def("times", &I::times)
        .def("learn", &I::learn)
        .def("close", &I::close)
        .def("lower", &I::lower)
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
