// What is compiled once of the inverses.
#include "inverses.hpp"

#include <memory>

namespace domkl {
namespace DOMKL_ISA {

template class Inverse<double>;
template class Inverse<float>;
template class Many<double>;
template class Many<float>;

template <class T> std::unique_ptr<Inverses<T>> inverses(int64_t n, int64_t K) {
    return std::make_unique<Many<T>>(n, K);
}
template std::unique_ptr<Inverses<double>> inverses(int64_t, int64_t);
template std::unique_ptr<Inverses<float>> inverses(int64_t, int64_t);

}  // namespace DOMKL_ISA
}  // namespace domkl
