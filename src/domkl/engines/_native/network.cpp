// A network, by blocks of rounds.
//
// Kernels depend on each other only through Hedge. So all of them run through the whole block first, and
// Hedge then goes through it round by round, with the predictions that the kernels have stored.
#include "engine.hpp"
#include "hedge.hpp"
#include "kernels.hpp"

namespace domkl::DOMKL_ISA {

template <class T> class NetworkImpl final : public Network<T> {
  public:
    DOMKL_COLD NetworkImpl(const Settings& given, const T* V)
        : settings(given), graph(given), kernels(settings, graph, V), hedge(settings, graph) {}

    void advance(const Block<T>& block) override {
        kernels.advance(block);
        hedge.advance(block, kernels.predictions());
    }

    void state(T* theta, T* lam) const override { kernels.state(theta, lam); }
    const double* L() const override { return hedge.L(); }
    const double* q() const override { return hedge.q(); }

  private:
    const Settings settings;
    const Graph graph;
    Kernels<T> kernels;
    Hedge<T> hedge;
};

template <class T> std::unique_ptr<Network<T>> make_network(const Settings& settings, const T* V) {
    return std::make_unique<NetworkImpl<T>>(settings, V);
}
template std::unique_ptr<Network<double>> make_network(const Settings&, const double*);
template std::unique_ptr<Network<float>> make_network(const Settings&, const float*);

}  // namespace domkl::DOMKL_ISA
