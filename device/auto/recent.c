#include "recent.h"

#include <math.h>
#include <string.h>

#include "algebra.h"

static int least(int a, int b) { return a < b ? a : b; }

/* The input that a term is of; the constant has a variance of its own. */
static int group_of(int term) { return term ? (term - 1) % RECENT_SINGLE : RECENT_SINGLE; }

void recent_reset(recent *r) {
    memset(r, 0, sizeof *r);
    for (int g = 0; g < GROUPS; ++g) r->variance[g] = RECENT_PRIOR;
    r->noise = RECENT_NOISE;
}

void recent_terms(const inputs *in, double b[TERMS]) {
    b[0] = 1;
    for (int i = 0; i < RECENT_SINGLE; ++i) {
        const double half = in->deviations[i] / 2, v = half / sqrt(1 + half * half), w = v * v;
        const double legendre[4] = {v, 1.5 * w - 0.5, (2.5 * w - 1.5) * v, (4.375 * w - 3.75) * w + 0.375};
        for (int n = 0; n < RECENT_DEGREE; ++n) b[1 + n * RECENT_SINGLE + i] = legendre[n];
    }
}

double recent_predict(const recent *r, const double b[TERMS]) {
    double total = 0;
    for (int k = 0; k < TERMS; ++k) total += b[k] * r->beta[k];
    return total;
}

void recent_take(recent *r, const double b[TERMS], double y) {
    const double keep = 1 - 1.0 / RECENT_FADE;
    for (int p = 0; p < TERMS; ++p) {
        for (int q = 0; q < TERMS; ++q) r->S[p][q] = keep * r->S[p][q] + 2 * b[p] * b[q];
        r->s[p] = keep * r->s[p] + 2 * y * b[p];
    }
}

void recent_learn(recent *r, const double b[TERMS], double y) {
    const double missed = recent_predict(r, b) - y;
    ++r->age;
    r->noise += (missed * missed - r->noise) / least(r->age, RECENT_WINDOW);
    recent_take(r, b, y);
    recent_solve(r);
}

void recent_forget(recent *r) { memset(r->S, 0, sizeof r->S), memset(r->s, 0, sizeof r->s); }

/* Coefficients from the sums, and from them the variances of each group for the next time. */
void recent_solve(recent *r) {
    double A[TERMS][TERMS], ridge[TERMS], known[GROUPS] = {0}, squares[GROUPS] = {0};
    memcpy(A, r->S, sizeof A);
    for (int k = 0; k < TERMS; ++k)
        A[k][k] += ridge[k] = 2 * fmax(r->noise, 1e-9) / r->variance[group_of(k)];
    invert(A[0], TERMS);
    for (int k = 0; k < TERMS; ++k) {
        r->beta[k] = 0;
        for (int q = 0; q < TERMS; ++q) r->beta[k] += A[k][q] * r->s[q];
        known[group_of(k)] += 1 - ridge[k] * A[k][k];
        squares[group_of(k)] += r->beta[k] * r->beta[k];
    }
    for (int g = 0; g < GROUPS; ++g)
        r->variance[g] = (squares[g] + RECENT_WEAK * RECENT_PRIOR) / (fmax(known[g], 0) + RECENT_WEAK);
}

/* The decisions */

void recent_watch(recent *r, double total, const double parts[3]) {
    const double odd = fmin(total / fmax(r->error_level, 1e-12), RECENT_CLIP) - RECENT_SLACK;
    ++r->level_age, ++r->errors_age;
    r->excess = fmax(r->excess + (r->level_age > RECENT_WINDOW ? odd : 0), 0);
    r->since = r->excess > 0 ? r->since + 1 : 0;
    r->error_level += (total - r->error_level) / least(r->level_age, RECENT_LEVEL);
    const int over = least(r->errors_age, RECENT_WINDOW);
    for (int k = 0; k < 3; ++k) r->errors[k] += (parts[k] - r->errors[k]) / over;
    r->usual += (fmin(parts[0], parts[1]) - r->usual) / least(r->age + 1, RECENT_LEVEL);
}

int recent_alarms(recent *r, double repeats) {
    if (!(r->excess > RECENT_ALARM * repeats)) return 0;
    const int n = least(r->since < 2 ? 2 : r->since, RECENT_FADE);
    r->excess = r->error_level = 0;
    r->since = r->level_age = r->lasting = r->errors_age = 0;
    return n;
}

int recent_gives_up(recent *r, double repeats) {
    const double longer = fmin(r->errors[0], r->errors[1]);
    const int is_better = r->errors[2] < RECENT_BETTER * longer && longer > RECENT_RISE * r->usual &&
                          r->errors_age >= RECENT_WINDOW;
    r->lasting = is_better ? r->lasting + 1 : 0;
    if (r->lasting < RECENT_WINDOW * repeats) return 0;
    r->lasting = r->errors_age = 0;
    return 1;
}

void recent_rescale(recent *r, double factor) {
    const double square = factor * factor;
    r->noise *= square, r->error_level *= square, r->usual *= square;
    for (int k = 0; k < 3; ++k) r->errors[k] *= square;
}
