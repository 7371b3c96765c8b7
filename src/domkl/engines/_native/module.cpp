// The extension module: what Python can import from it.
#include "module.hpp"

#include "isa.hpp"

namespace domkl {

static Loss loss_named(const std::string& name) {
    if (name == "logistic") return Loss::logistic;
    return name == "huber" ? Loss::huber : Loss::squared;
}

static Rule rule_named(const std::string& name) {
    if (name == "messages") return Rule::messages;
    return name == "local" ? Rule::local : Rule::neighbours;
}

Settings Rates::with(int64_t P, int64_t D, int64_t d, int64_t J, const int64_t* first,
                     const int64_t* neighbours, const int64_t* reverse, bool newton, bool keep_state,
                     int threads) const {
    Settings settings{};
    settings.J = J, settings.P = P, settings.D = D, settings.d = d;
    settings.first = first, settings.neighbours = neighbours, settings.reverse = reverse;
    settings.rho = rho, settings.eta = eta, settings.eta_g = eta_g, settings.mu = mu;
    settings.loss = loss_named(loss), settings.delta = delta, settings.reg = reg;
    settings.rule = rule_named(rule);
    settings.newton = newton, settings.keep_state = keep_state, settings.threads = threads;
    return settings;
}

}  // namespace domkl

NB_MODULE(_engine, m) {
    using namespace domkl;
    m.doc() = "domkl's native engine";
    nb::set_leak_warnings(false);  // a process that is asked to stop need not free everything first
    m.def("best", &best, "The widest instruction set that this processor runs.");
    m.def("runs", &runs, "isa"_a, "Whether this processor runs an instruction set.");
    nb::class_<Rates>(m, "Rates")
        .def(nb::init<double, double, double, double, std::string, double, double, std::string>(), "rho"_a,
             "eta"_a, "eta_g"_a, "mu"_a, "loss"_a, "delta"_a, "reg"_a, "rule"_a);
    declare_networks(m);
    declare_inverses(m);
    declare_devices(m);
    declare_rounds(m);
    declare_limits(m);
}
