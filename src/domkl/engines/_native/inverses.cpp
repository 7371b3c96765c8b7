// The inverses' code that is compiled once for each instruction set.
#include "inverses.hpp"

#include <memory>

namespace domkl::DOMKL_ISA {

template class Inverse<double>;
template class Inverse<float>;
template void Inverse<double>::multiply<2>(const double*, double*, double*);
template void Inverse<float>::multiply<2>(const float*, float*, float*);
template class InverseArray<double>;
template class InverseArray<float>;

template <class T> std::unique_ptr<Inverses<T>> make_inverses(int64_t n, int64_t K) {
    return std::make_unique<InverseArray<T>>(n, K);
}
template std::unique_ptr<Inverses<double>> make_inverses(int64_t, int64_t);
template std::unique_ptr<Inverses<float>> make_inverses(int64_t, int64_t);

}  // namespace domkl::DOMKL_ISA
