#include "trust.h"

#include <math.h>
#include <string.h>

#include "algebra.h"

void trust_reset(trust *t) { t->age = 0; }

void trust_note(trust *t, const float z[K], double y, double missed) {
    const int at = t->age++ % TRUST_WINDOW;
    memcpy(t->z[at], z, sizeof t->z[at]);
    t->y[at] = y, t->alone[at] = missed;
}

static int seen(const trust *t) { return t->age < TRUST_WINDOW ? t->age : TRUST_WINDOW; }

static double mean(const double *values, int n) {
    double total = 0;
    for (int k = 0; k < n; ++k) total += values[k];
    return total / (n ? n : 1);
}

static double mean_square(const double *values, int n, double middle) {
    double total = 0;
    for (int k = 0; k < n; ++k) total += (values[k] - middle) * (values[k] - middle);
    return total / (n ? n : 1);
}

/* The one of those who are able with so many better ones; of equal ones the first is the better. */
static int ranked(int n, const double means[], const uint8_t able[], int rank) {
    for (int i = 0; i < n; ++i) {
        int better = 0;
        for (int o = 0; o < n; ++o)
            better += able[o] && (means[o] < means[i] || (means[o] == means[i] && o < i));
        if (able[i] && better == rank) return i;
    }
    return 0;
}

void trust_judge(const trust *t, int n, const float *const theta[], const uint8_t able[], double repeats,
                 uint8_t used[]) {
    double missed[MOST_NEIGHBOURS][TRUST_WINDOW], means[MOST_NEIGHBOURS];
    const int count = seen(t);
    int others = 0;
    for (int i = 0; i < n; ++i) {
        for (int w = 0; w < count; ++w) {
            const double error = (double)dot(t->z[w], theta[i]) - t->y[w];
            missed[i][w] = error * error;
        }
        means[i] = mean(missed[i], count), others += able[i];
    }
    for (int i = 0; i < n; ++i) used[i] = 0;
    if (!others) return;
    const int best = ranked(n, means, able, (others - 1) / 4);
    const double *standard = means[best] < mean(t->alone, count) ? missed[best] : t->alone;
    const double middle = mean(standard, count), variance = mean_square(standard, count, middle);
    const double clear = TRUST_CLEAR * repeats * TRUST_MOST * sqrt(variance / (count ? count : 1));
    for (int i = 0; i < n; ++i) {
        const double excess = means[i] - TRUST_MOST * middle;
        const int refused = excess > clear + 1e-6 && count >= TRUST_FEW;
        used[i] = able[i] && !refused && isfinite(excess);
    }
}
