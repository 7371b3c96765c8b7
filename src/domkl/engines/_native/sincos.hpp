// sin and cos of many angles at once, without branches.
//
// Angles are in quarter turns, so that subtracting whole quarters is exact: no table and no long division by
// pi, however large the angle. On the remainder r, |r| <= 1/2, sin(pi r/2) and cos(pi r/2) are short
// polynomials.
#pragma once
#include "vec.hpp"

namespace domkl::DOMKL_ISA {

template <class T> struct Rounder;  // adding and subtracting magic rounds to an integer, up to most
template <> struct Rounder<double> {
    static constexpr double magic = 0x1.8p52, most = 0x1p51;
};
template <> struct Rounder<float> {
    static constexpr float magic = 0x1.8p23f, most = 0x1p22f;
};

// Coefficients of sin(pi r/2)/r and cos(pi r/2) in r^2, for r^2 in [0, 1/4]: Chebyshev interpolation, whose
// error is below half a rounding of T.
template <class T> struct Series;
template <> struct Series<double> {
    static constexpr double sine[] = {1.5707963267948966,    -0.6459640975062443,   0.07969262624604301,
                                      -0.004681754132340976, 0.0001604411507421909, -3.59864335298231e-06,
                                      5.633933781537854e-08};
    static constexpr double cosine[] = {1.0,
                                        -1.2337005501361513,
                                        0.25366950789986475,
                                        -0.02086348073494657,
                                        0.000919259950041661,
                                        -2.520013526428479e-05,
                                        4.6552961874867623e-07};
};
template <> struct Series<float> {
    static constexpr float sine[] = {1.5707963219532366, -0.6459634776648118, 0.07968021764775542,
                                     -0.004602149212814176};
    static constexpr float cosine[] = {0.9999999723284944, -1.2336970074214912, 0.25359857130254576,
                                       -0.020408158392998334};
};

// c[0] + c[1] x + ... by Horner's rule.
template <class T, size_t N> inline Vec<T> poly(const T (&c)[N], Vec<T> x) {
    Vec<T> p = broadcast<T>(c[N - 1]);
#pragma GCC unroll 8
    for (int k = int(N) - 2; k >= 0; --k) p = p * x + broadcast<T>(c[k]);
    return p;
}

// scale * sin and scale * cos of `turns` quarter turns, at most Rounder::most.
template <class T> inline void sincos(Vec<T> turns, Vec<T> scale, Vec<T>& s, Vec<T>& c) {
    typedef typename VectorOf<T>::integer I;
    constexpr int TOP = 8 * sizeof(T) - 2;  // shifts bit 1 to the sign bit
    const Vec<T> magic = broadcast<T>(Rounder<T>::magic);
    const Vec<T> rounded = turns + magic;  // its last bits hold the number of quarters
    const Vec<T> r = turns - (rounded - magic);
    const Ints<T> n = (Ints<T>)rounded;
    const Vec<T> r2 = r * r;
    const Ints<T> sine = (Ints<T>)(scale * r * poly<T>(Series<T>::sine, r2));
    const Ints<T> cosine = (Ints<T>)(scale * poly<T>(Series<T>::cosine, r2));
    const Ints<T> swap = (sine ^ cosine) & -(n & I(1));  // sin and cos are exchanged in every other quarter
    s = (Vec<T>)(sine ^ swap ^ ((n & I(2)) << TOP));
    c = (Vec<T>)(cosine ^ swap ^ (((n + I(1)) & I(2)) << TOP));
}

}  // namespace domkl::DOMKL_ISA
