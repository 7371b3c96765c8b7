#include "echo.h"

#include <math.h>
#include <string.h>

#include "algebra.h"

void echo_reset(echo *e) { memset(e, 0, sizeof *e); }

double echo_predict(const echo *e) { return e->gain[0] * e->last[0] + e->gain[1] * e->last[1]; }

void echo_learn(echo *e, double error) {
    const double *before = e->last;
    error = clipped(error, -2, 2);
    ++e->age;
    for (int i = 0; i < 2; ++i) {
        for (int j = 0; j < 2; ++j) e->S[i][j] = ECHO_KEEP * e->S[i][j] + before[i] * before[j];
        e->s[i] = ECHO_KEEP * e->s[i] + before[i] * error;
    }
    e->size = ECHO_KEEP * e->size + error * error;
    e->pairs = ECHO_KEEP * e->pairs + error * e->last[0];
    const double ridge = ECHO_DOUBT * e->size + 1e-12, u = e->s[0], v = e->s[1];
    const double a = e->S[0][0] + ridge, b = e->S[0][1], d = e->S[1][1] + ridge, by = a * d - b * b;
    e->gain[0] = (d * u - b * v) / by, e->gain[1] = (a * v - b * u) / by;
    e->last[1] += (error - e->last[1]) / ECHO_FEW;
    e->last[0] = error;
    e->r = clipped(e->pairs / fmax(e->size, 1e-12), 0, ECHO_MOST);
}

double echo_weight(const echo *e) {
    const double r = e->age > 24 ? e->r : 0;
    return (1 - r) / (1 + r);
}

double echo_repeats(const echo *e) { return (1 + e->r * e->r) / (1 - e->r * e->r); }

void echo_rescale(echo *e, double factor) {
    const double square = factor * factor;
    for (int i = 0; i < 2; ++i) {
        e->last[i] *= factor, e->s[i] *= square;
        for (int j = 0; j < 2; ++j) e->S[i][j] *= square;
    }
    e->size *= square, e->pairs *= square;
}
