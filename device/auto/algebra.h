/* Vectors of K floats, and symmetric matrices of which the lower half is kept, row by row. */
#pragma once

#include "settings.h" /* sizes and constants, as Python has them: made by settings.py */

enum { PACKED = K * (K + 1) / 2 };

float dot(const float *a, const float *b);
void add(float by, const float *x, float *to); /* to += by x */
double clipped(double value, double low, double high);
void sort_floats(float *values, int n);
void sort_doubles(double *values, int n);

void packed_times(const float *Q, const float *x, float *to); /* to = Q x */
void packed_add(float *Q, float by, const float *x);          /* Q += by x x' */
void packed_lift(float *Q, float by);                         /* Q += by I */
void packed_invert(float *Q);                                 /* of a sum of squares, in place */

/* Inverse of a small symmetric matrix (n, n) that is positive, in place. */
void invert(double *A, int n);
