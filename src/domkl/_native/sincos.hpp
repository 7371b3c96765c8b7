// sin and cos of many angles at once, without branches.
//
// Angles come in quarter turns, so that taking off whole quarters is exact: no table, no long division
// by pi, however large the angle. On the rest r, |r| <= 1/2, sin(pi r/2) and cos(pi r/2) are Taylor
// polynomials, cut where the next term is below the rounding of T.
#pragma once
#include "vec.hpp"

namespace domkl {
namespace DOMKL_ISA {

template <class T> struct Rounder;  // adding and taking off this number rounds to whole
template <> struct Rounder<double> { static constexpr double magic = 0x1.8p52; };
template <> struct Rounder<float> { static constexpr float magic = 0x1.8p23f; };

// (pi/2)^n / n! with alternating signs.
constexpr double SIN[] = {1.5707963267948966, -0.6459640975062462, 0.07969262624616703, -0.004681754135318687, 0.00016044118478735975, -3.598843235212084e-06, 5.692172921967924e-08, -6.688035109811464e-10};
constexpr double COS[] = {1.0, -1.2337005501361697, 0.253669507901048, -0.020863480763352957, 0.0009192602748394263, -2.5202042373060596e-05, 4.710874778818169e-07, -6.386603083791849e-09, 6.565963114979468e-11};

template <class T, int N> inline Vec<T> poly(const double* c, Vec<T> x) {
    Vec<T> p = all<T>(T(c[N - 1]));
#pragma GCC unroll 9
    for (int k = N - 2; k >= 0; --k) p = p * x + all<T>(T(c[k]));
    return p;
}

// scale * sin and scale * cos of `turns` quarter turns.
template <class T> inline void sincos(Vec<T> turns, Vec<T> scale, Vec<T>& s, Vec<T>& c) {
    constexpr int NS = sizeof(T) == 8 ? 8 : 5, NC = sizeof(T) == 8 ? 9 : 6;
    const Vec<T> magic = all<T>(Rounder<T>::magic);
    const Vec<T> rounded = turns + magic;  // its last bits hold the number of quarters
    const Vec<T> r = turns - (rounded - magic);
    const Ints<T> n = (Ints<T>)rounded;
    const Vec<T> r2 = r * r;
    const Vec<T> sine = r * poly<T, NS>(SIN, r2), cosine = poly<T, NC>(COS, r2);
    constexpr int BITS = 8 * sizeof(T) - 1;
    typedef typename Lane<T>::whole I;
    const Ints<T> odd = -(n & I(1));
    const Ints<T> flip_s = ((n >> 1) & I(1)) << BITS, flip_c = (((n + I(1)) >> 1) & I(1)) << BITS;
    const Ints<T> is = (Ints<T>)sine, ic = (Ints<T>)cosine;
    s = scale * (Vec<T>)(((is & ~odd) | (ic & odd)) ^ flip_s);
    c = scale * (Vec<T>)(((ic & ~odd) | (is & odd)) ^ flip_c);
}

}  // namespace DOMKL_ISA
}  // namespace domkl
