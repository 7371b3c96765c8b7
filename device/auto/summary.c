#include "summary.h"

#include <math.h>
#include <string.h>

#include "algebra.h"

#define UNIT 65535.0 /* parts of a span */

/* The values of a column in the last n samples, sorted; returns how many are not missing. */
static int sorted_column(const memory *m, int n, int column, float values[SCALE_LAST]) {
    int known = 0;
    for (int k = 0; k < n; ++k) {
        const int at = memory_place(m, n, k);
        const float value = column < INPUTS ? m->x[at][column] : m->y[at];
        if (!isnan(value)) values[known++] = value;
    }
    sort_floats(values, known);
    return known;
}

static uint16_t part_of(double value) { return (uint16_t)rint(clipped(value, 0, 1) * UNIT); }

static void summarise(const float *values, int n, int column, summary *to) {
    double mean = 0, square = 0;
    const double low = values[0], high = values[n - 1], span = high > low ? high - low : 1;
    for (int k = 0; k < n; ++k) mean += clipped((values[k] - low) / span, 0, 1);
    mean /= n;
    for (int k = 0; k < n; ++k) {
        const double away = clipped((values[k] - low) / span, 0, 1) - mean;
        square += away * away;
    }
    to->low[column] = low, to->high[column] = high;
    to->shape[0][column] = part_of(mean), to->shape[1][column] = part_of(sqrt(square / n));
    for (int k = 1; k + 1 < QUANTILES; ++k) {
        const double at = k / (QUANTILES - 1.0) * (n - 1);
        const int below = (int)at, above = below + 1 < n ? below + 1 : n - 1;
        const double lower = values[below], q = lower + (at - below) * (values[above] - lower);
        to->shape[k + 1][column] = part_of((q - low) / span);
    }
}

void summary_of(const memory *m, int n, summary *to) {
    float values[SCALE_LAST];
    memset(to, 0, sizeof *to);
    to->name = NAME, to->samples = (uint32_t)n;
    for (int c = 0; c < COLUMNS; ++c) {
        const int known = sorted_column(m, n, c, values);
        if (known) summarise(values, known, c, to);
        else to->low[c] = LARGEST, to->high[c] = -LARGEST;
    }
}

int summary_has(const summary *one, int column) { return one->low[column] <= one->high[column]; }

int summary_fits(const summary *one) {
    if (one->name >= DEVICES || one->samples < 1 || one->samples > SCALE_LAST) return 0;
    for (int c = 0; c < COLUMNS; ++c) {
        if (!(fabs(one->low[c]) <= LARGEST && fabs(one->high[c]) <= LARGEST)) return 0;
        const int is_empty = one->low[c] == LARGEST && one->high[c] == -LARGEST;
        if (!summary_has(one, c) && !is_empty) return 0;
    }
    return 1;
}

double summary_at(const summary *one, int row, int column) {
    const double low = one->low[column], span = one->high[column] - low;
    if (!summary_has(one, column)) return NAN;
    if (row == ROW_LOW) return low;
    if (row == ROW_HIGH) return one->high[column];
    const double part = one->shape[row < ROW_LOW ? row : row - 1][column] / UNIT;
    if (row == ROW_VARIANCE) return part * span * (part * span);
    return low + part * span;
}

void summary_middle(const summary *one, middle to) {
    const int rows[4] = {0, QUANTILES / 4, QUANTILES - 1 - QUANTILES / 4, QUANTILES - 1};
    for (int k = 0; k < 4; ++k)
        for (int c = 0; c < COLUMNS; ++c) to[k][c] = summary_at(one, ROW_LOW + rows[k], c);
}

static int suits_in(middle joint, middle mine, double least, int c) {
    const double wide = joint[2][c] - joint[1][c], own = mine[2][c] - mine[1][c];
    const int meets = mine[1][c] <= joint[3][c] && mine[2][c] >= joint[0][c];
    return (meets && own >= least * wide && wide >= SCALE_FITS * own) || !(own > 0) || isnan(wide);
}

int middle_suits(middle joint, const summary *own) {
    const double least = pow(SCALE_FITS, 1 + SCALE_FEW / (double)own->samples);
    middle mine;
    int good = 0;
    summary_middle(own, mine);
    for (int c = 0; c < INPUTS; ++c) good += suits_in(joint, mine, least, c);
    return suits_in(joint, mine, least, INPUTS) && 2 * good >= INPUTS;
}

int summary_suits(const summary *one, const summary *own) {
    middle theirs;
    summary_middle(one, theirs);
    return middle_suits(theirs, own);
}
