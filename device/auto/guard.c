#include "guard.h"

#include <math.h>
#include <string.h>

#include "algebra.h"

void guard_reset(guard *g) {
    memset(g, 0, sizeof *g);
    g->least = LARGEST, g->most = -LARGEST;
}

/* The robust deviation of the last errors. */
static double deviation(const guard *g) {
    double sorted[GUARD_WINDOW];
    const int n = g->age < GUARD_WINDOW ? g->age : GUARD_WINDOW;
    memcpy(sorted, g->errors, (size_t)n * sizeof *sorted);
    sort_doubles(sorted, n);
    return sorted[(int)ceil(GUARD_QUANTILE * (n - 1))] / 1.2816; /* the 0.8 quantile of normal errors */
}

static int outside(const guard *g) {
    int count = 0;
    for (int k = 0; k < GUARD_LAST; ++k) count += g->large[k];
    return count;
}

double guard_bound(guard *g, double y, double y_hat) {
    const double error = fabs(y - y_hat);
    double reach = GUARD_NEAR * fmax(g->most - g->least, 0) + 1e-12;
    int is_large = error > reach && g->age >= GUARD_FEW;
    if (is_large) {
        reach = fmax(reach, GUARD_REACH * deviation(g));
        is_large = error > reach;
    }
    g->large[g->age % GUARD_LAST] = (uint8_t)is_large;
    if (is_large && 2 * outside(g) <= GUARD_LAST) {
        const double part = reach / error;
        y = y_hat + (y - y_hat) * (part * part);
    }
    g->errors[g->age % GUARD_WINDOW] = error;
    ++g->age;
    g->least = fmin(g->least, y), g->most = fmax(g->most, y);
    return y;
}

int guard_recheck(guard *g, memory *m, int n) {
    float sorted[SCALE_LAST];
    const int ends = n / GUARD_ENDS;
    int changed = 0;
    for (int k = 0; k < n; ++k) sorted[k] = m->y[memory_place(m, n, k)];
    sort_floats(sorted, n);
    const double middle = ((double)sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
    const double reach = ends ? GUARD_REACH * ((double)sorted[n - 1 - ends] - sorted[ends]) : 0;
    g->least = LARGEST, g->most = -LARGEST;
    for (int k = 0; k < n; ++k) {
        float *y = m->y + memory_place(m, n, k);
        const double error = *y - middle, part = reach / fmax(fabs(error), 1e-300);
        if (reach > 0 && fabs(error) > reach) *y = (float)(middle + error * part * part), changed = 1;
        g->least = fmin(g->least, *y), g->most = fmax(g->most, *y);
    }
    return changed;
}

int guard_gives_up(guard *g) {
    /* One label later than they count as they are, so that the last two are what the sensor said. */
    if (2 * (outside(g) - 1) <= GUARD_LAST) return 0;
    guard_reset(g);
    return 1;
}
