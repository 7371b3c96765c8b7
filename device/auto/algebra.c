#include "algebra.h"

#include <math.h>

float dot(const float *a, const float *b) {
    float total = 0;
    for (int k = 0; k < K; ++k) total += a[k] * b[k];
    return total;
}

void add(float by, const float *x, float *to) {
    for (int k = 0; k < K; ++k) to[k] += by * x[k];
}

double clipped(double value, double low, double high) {
    return value < low ? low : value > high ? high : value;
}

void sort_floats(float *values, int n) {
    for (int gap = n / 2; gap > 0; gap /= 2)
        for (int k = gap, at; k < n; ++k) {
            const float value = values[k];
            for (at = k; at >= gap && values[at - gap] > value; at -= gap) values[at] = values[at - gap];
            values[at] = value;
        }
}

void sort_doubles(double *values, int n) {
    for (int gap = n / 2; gap > 0; gap /= 2)
        for (int k = gap, at; k < n; ++k) {
            const double value = values[k];
            for (at = k; at >= gap && values[at - gap] > value; at -= gap) values[at] = values[at - gap];
            values[at] = value;
        }
}

void packed_times(const float *Q, const float *x, float *to) {
    for (int i = 0; i < K; Q += ++i) {
        float total = 0;
        for (int j = 0; j < i; ++j) total += Q[j] * x[j], to[j] += Q[j] * x[i];
        to[i] = total + Q[i] * x[i];
    }
}

void packed_add(float *Q, float by, const float *x) {
    for (int i = 0; i < K; Q += ++i) {
        const float part = by * x[i];
        for (int j = 0; j <= i; ++j) Q[j] += part * x[j];
    }
}

void packed_lift(float *Q, float by) {
    for (int i = 0; i < K; Q += ++i) Q[i] += by;
}

/* Q = L L', L over Q; sums in double, as NumPy inverts. */
static void factor(float *Q) {
    float *row = Q;
    for (int i = 0; i < K; row += ++i) {
        const float *other = Q;
        for (int j = 0; j <= i; other += ++j) {
            double left = row[j];
            for (int k = 0; k < j; ++k) left -= (double)row[k] * other[k];
            row[j] = (float)(i == j ? sqrt(left) : left / other[j]);
        }
    }
}

/* X = L^-1, X over L. */
static void invert_factor(float *L) {
    float *row = L;
    for (int i = 0; i < K; row += ++i) {
        for (int j = 0; j < i; ++j) {
            const float *X = L + j * (j + 1) / 2; /* its row j, then those below */
            double total = 0;
            for (int k = j; k < i; X += ++k) total += (double)row[k] * X[j];
            row[j] = (float)(-total / row[i]);
        }
        row[i] = 1 / row[i];
    }
}

void packed_invert(float *Q) {
    factor(Q);
    invert_factor(Q);
    float *row = Q;
    for (int i = 0; i < K; row += ++i) /* Q^-1 = X' X, over X */
        for (int j = 0; j <= i; ++j) {
            const float *X = row;
            double total = 0;
            for (int k = i; k < K; X += ++k) total += (double)X[i] * X[j];
            row[j] = (float)total;
        }
}

void invert(double *A, int n) {
    for (int p = 0; p < n; ++p) {
        double *row = A + p * n;
        const double pivot = row[p];
        row[p] = 1;
        for (int k = 0; k < n; ++k) row[k] /= pivot;
        for (int i = 0; i < n; ++i) {
            if (i == p) continue;
            const double by = A[i * n + p];
            A[i * n + p] = 0;
            for (int k = 0; k < n; ++k) A[i * n + k] -= by * row[k];
        }
    }
}
