#include "algebra.h"

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

static float *entry(float *Q, int i, int j) {
    return i < j ? entry(Q, j, i) : Q + i * (i + 1) / 2 + j;
}

/* A sweep of each row p in turn: with b that row and d = b_p, Q - b b'/d, and b/d and -1/d in row p. */
void packed_invert(float *Q) {
    float b[K];
    for (int p = 0; p < K; ++p) {
        for (int k = 0; k < K; ++k) b[k] = *entry(Q, p, k);
        const float by = 1 / b[p];
        packed_add(Q, -by, b);
        for (int k = 0; k < K; ++k) *entry(Q, p, k) = k == p ? -by : by * b[k];
    }
    for (int k = 0; k < PACKED; ++k) Q[k] = -Q[k];
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
