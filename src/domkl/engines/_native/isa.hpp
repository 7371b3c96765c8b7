// The instruction sets that the engine is compiled for, of which one is chosen when it runs.
#pragma once
#include <stdexcept>
#include <string>

#include "auto/round.hpp"
#include "engine.hpp"

namespace domkl {

// Whether this processor runs an instruction set.
bool runs(const std::string& isa);

// The widest instruction set that this processor runs.
std::string best();

// Throws unless this processor runs the instruction set.
inline void require_isa(const std::string& isa) {
    if (!runs(isa)) throw std::invalid_argument("this processor does not run " + isa);
}

// One instruction set's implementations of the engine's interface.
template <class T> struct Factories {
    decltype(&baseline::make_network<T>) network;
    decltype(&baseline::make_device<T>) device;
    decltype(&baseline::make_inverses<T>) inverses;
    decltype(&baseline::make_round<T>) round;
};

// The implementations of an instruction set, which this processor must run.
template <class T> Factories<T> factories(const std::string& isa) {
    require_isa(isa);
#if defined(DOMKL_X86)
    if (isa == "avx512")
        return {avx512::make_network<T>, avx512::make_device<T>, avx512::make_inverses<T>,
                avx512::make_round<T>};
    if (isa == "avx2")
        return {avx2::make_network<T>, avx2::make_device<T>, avx2::make_inverses<T>, avx2::make_round<T>};
#endif
    return {baseline::make_network<T>, baseline::make_device<T>, baseline::make_inverses<T>,
            baseline::make_round<T>};
}

}  // namespace domkl
