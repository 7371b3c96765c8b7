// Networks for Python: checks shapes and releases the interpreter's lock.
#include <algorithm>
#include <memory>

#include "isa.hpp"
#include "module.hpp"

namespace domkl {

// Network64 and Network32.
template <class T> class NetworkHandle {
  public:
    NetworkHandle(In3<T> V, In1<int64_t> first, In1<int64_t> neighbours, In1<int64_t> reverse,
                  const Rates& rates, bool newton, bool keep, int threads, const std::string& isa) {
        J = int64_t(first.shape(0)) - 1, P = int64_t(V.shape(0)), D = int64_t(V.shape(1)),
        d = int64_t(V.shape(2));
        require(J >= 1 && neighbours.shape(0) == reverse.shape(0),
                "a graph needs learners, and edges both ways");
        const Settings settings =
            rates.with(P, D, d, J, first.data(), neighbours.data(), reverse.data(), newton, keep, threads);
        network = factories<T>(isa).network(settings, V.data());
    }

    void advance(Strided<T> x, Strided<T> y, int64_t history, int64_t delay, int64_t start,
                 nb::ndarray<T, nb::ndim<2>, nb::device::cpu> y_hat, Out<double> squares, Out<double> gaps,
                 Out<double> kernel_squares, Out<double> kernel_gaps) {
        const int64_t rounds = int64_t(y_hat.shape(1));
        check_samples(x, y, history, rounds);
        require(history >= std::min(start, delay), "too little history for the delay");
        require(int64_t(y_hat.shape(0)) == J && (rounds == 1 || y_hat.stride(1) == 1),
                "y_hat must be (J, B)");
        require(int64_t(squares.size()) == J && int64_t(gaps.size()) == J, "sums must be (J,)");
        require(int64_t(kernel_squares.size()) == J * P && int64_t(kernel_gaps.size()) == J * P,
                "sums must be (J, P)");
        Block<T> block{};
        block.rounds = rounds, block.delay = delay, block.start = start;
        block.x = x.data() + history * x.stride(1), block.y = y.data() + history * y.stride(1);
        block.x_learner = x.stride(0), block.x_round = x.stride(1);
        block.y_learner = y.stride(0), block.y_round = y.stride(1);
        block.y_hat = y_hat.data(), block.y_hat_learner = y_hat.stride(0);
        block.squares = squares.data(), block.gaps = gaps.data();
        block.kernel_squares = kernel_squares.data(), block.kernel_gaps = kernel_gaps.data();
        nb::gil_scoped_release release;
        network->advance(block);
    }

    void state(Out<T> theta, Out<T> lam) const {
        require(int64_t(theta.size()) == J * P * 2 * D && theta.size() == lam.size(),
                "state must be (J, P, 2D)");
        network->state(theta.data(), lam.data());
    }

    void weights(Out<double> L, Out<double> q) const {
        require(int64_t(L.size()) == J * P && int64_t(q.size()) == J * P, "weights must be (J, P)");
        std::copy_n(network->L(), J * P, L.data());
        std::copy_n(network->q(), J * P, q.data());
    }

  private:
    void check_samples(const Strided<T>& x, const Strided<T>& y, int64_t history, int64_t rounds) const {
        require(x.ndim() == 3 && y.ndim() == 2 && int64_t(x.shape(0)) == J && int64_t(x.shape(2)) == d,
                "x must be (J, B, d)");
        require(d == 1 || x.stride(2) == 1, "the features of a sample must lie side by side");
        require(
            int64_t(x.shape(1)) == history + rounds && y.shape(1) == x.shape(1) && int64_t(y.shape(0)) == J,
            "x and y must match");
    }

    int64_t J, P, D, d;
    std::unique_ptr<Network<T>> network;
};

template <class T> static void declare(nb::module_& m, const char* name) {
    using N = NetworkHandle<T>;
    nb::class_<N>(m, name)
        .def(nb::init<In3<T>, In1<int64_t>, In1<int64_t>, In1<int64_t>, const Rates&, bool, bool, int,
                      const std::string&>(),
             "V"_a, "first"_a, "near"_a, "reverse"_a, "rates"_a, nb::kw_only(), "newton"_a, "keep"_a,
             "threads"_a, "isa"_a)
        .def("advance", &N::advance)
        .def("state", &N::state)
        .def("weights", &N::weights);
}

void declare_networks(nb::module_& m) {
    declare<double>(m, "Network64");
    declare<float>(m, "Network32");
}

}  // namespace domkl
