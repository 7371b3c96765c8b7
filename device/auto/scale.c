#include "scale.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "algebra.h"
#include "sha256.h"

/* Means, deviations, lowest and highest values and quantiles of a scale. */
enum { POOLED_MEAN, POOLED_DEVIATION, POOLED_LOW, POOLED_HIGH, POOLED_QUANTILES };
typedef double table[POOLED_QUANTILES + QUANTILES][COLUMNS];

/* Summaries that a scale is made of. */
typedef struct {
    int n;
    const summary *of[DEVICES];
} group;

static int is_power(uint32_t count) { return count > 0 && (count & (count - 1)) == 0; }

void scale_begin(scale *s) {
    memset(s, 0, sizeof *s);
    s->width = 1, s->least = LARGEST, s->most = -LARGEST;
}

void scale_note_target(scale *s, double y) { s->least = fmin(s->least, y), s->most = fmax(s->most, y); }

/* Summaries */

void scale_publish(scale *s, const memory *m) {
    const int n = m->count, often = n <= SCALE_EARLY || n == SCALE_LAST || !NEIGHBOURS;
    if (!is_power((uint32_t)n) || n > SCALE_LAST || !often || s->withdrawn) return;
    summary_of(m, n, &s->own);
    scale_hear(s, &s->own);
}

/* Of two summaries of one device the higher is kept: the newer, and of two of as many samples, one of which
 * is a lie, the one that suits the own samples. */
static int is_higher(const scale *s, const summary *one, const summary *old) {
    if (one->samples != old->samples) return one->samples > old->samples;
    const int any = !s->own.samples;
    const int good = any || summary_suits(one, &s->own), before = any || summary_suits(old, &s->own);
    if (good != before) return good;
    const size_t at = offsetof(summary, low), size = offsetof(summary, shape) + sizeof one->shape - at;
    return memcmp((const char *)one + at, (const char *)old + at, size) > 0;
}

void scale_hear(scale *s, const summary *one) {
    summary *old = s->known + one->name;
    if (old->samples && !is_higher(s, one, old)) return;
    *old = *one;
    s->news[one->name] = s->changed = 1;
}

void scale_compare(scale *s, int heard, int unlike) {
    s->rounds_unlike = unlike ? s->rounds_unlike + 1 : heard ? 0 : s->rounds_unlike;
    if (!unlike || !is_power(s->rounds_unlike)) return;
    for (int k = 0; k < DEVICES; ++k) s->news[k] = s->known[k].samples > 0;
}

/* The scale */

static double trimmed_mean(const double *sorted, int n) {
    double total = sorted[0];
    for (int k = 1; k < n; ++k) total += sorted[k];
    return total / n;
}

static double trimmed_variance(const double *sorted, int n) {
    const double mean = trimmed_mean(sorted, n);
    double total = 0;
    for (int k = 0; k < n; ++k) total += (sorted[k] - mean) * (sorted[k] - mean);
    return total / n;
}

static group with_values(const group *g, int c) {
    group found = {0};
    for (int k = 0; k < g->n; ++k)
        if (summary_has(g->of[k], c)) found.of[found.n++] = g->of[k];
    return found;
}

/* A column that somebody has values in. */
static void pool_column(const group *g, int c, table to) {
    const int few = g->n / SCALE_TRIM, left = g->n - 2 * few;
    double values[DEVICES], variance = 0;
    for (int row = 0; row < ROWS; ++row) {
        for (int k = 0; k < g->n; ++k) values[k] = summary_at(g->of[k], row, c);
        sort_doubles(values, g->n);
        if (row == ROW_MEAN) {
            to[POOLED_MEAN][c] = (values[(g->n - 1) / 2] + values[g->n / 2]) / 2;
            variance = trimmed_variance(values + few, left);
        } else if (row == ROW_VARIANCE) {
            to[POOLED_DEVIATION][c] = sqrt(trimmed_mean(values + few, left) + variance);
        } else {
            to[POOLED_QUANTILES + row - ROW_LOW][c] = trimmed_mean(values + few, left);
            if (row == ROW_LOW) to[POOLED_LOW][c] = values[few];
            if (row == ROW_HIGH) to[POOLED_HIGH][c] = values[g->n - few - 1];
        }
    }
}

/* Those without the ones that have fewer samples than most, unless news of more may be on its way. */
static group without_young(const group *g) {
    double samples[DEVICES];
    group found = {0};
    for (int k = 0; k < g->n; ++k) samples[k] = g->of[k]->samples;
    sort_doubles(samples, g->n);
    const double typical = (samples[(g->n - 1) / 2] + samples[g->n / 2]) / 2;
    const double least = typical - fmin(typical / 2, SCALE_SPREAD);
    for (int k = 0; k < g->n; ++k)
        if (g->of[k]->samples >= least) found.of[found.n++] = g->of[k];
    return found;
}

/* The scale that summaries make; returns its number. */
static double pool(const group *of, table to) {
    const group g = without_young(of);
    uint8_t digest[32];
    double number = 0;
    memset(to, 0, sizeof(table));
    for (int c = 0; c < COLUMNS; ++c) {
        const group in = with_values(&g, c);
        if (in.n) pool_column(&in, c, to);
    }
    sha256(to, sizeof(table), digest);
    for (int k = 0; k < 6; ++k) number = number * 256 + digest[k];
    return number + 1;
}

/* All that is known; while a neighbour and this device have one sample each, only what is of neighbours. */
static group known_to(const scale *s, int count) {
    static const uint32_t near[] = NEIGHBOUR_NAMES;
    uint8_t is_near[DEVICES] = {0};
    uint32_t fewest = SCALE_LAST;
    int any = 0;
    group found = {0};
    is_near[NAME] = 1;
    for (int i = 0; i < NEIGHBOURS; ++i) {
        const uint32_t samples = s->known[near[i]].samples;
        is_near[near[i]] = 1;
        if (samples) any = 1, fewest = samples < fewest ? samples : fewest;
    }
    const int only_near = count == 1 && (!any || fewest == 1);
    for (int k = 0; k < DEVICES; ++k)
        if (s->known[k].samples && (is_near[k] || !only_near)) found.of[found.n++] = s->known + k;
    return found;
}

static int suits_table(table joint, const summary *own) {
    middle theirs;
    const int rows[4] = {0, QUANTILES / 4, QUANTILES - 1 - QUANTILES / 4, QUANTILES - 1};
    for (int k = 0; k < 4; ++k) memcpy(theirs[k], joint[POOLED_QUANTILES + rows[k]], sizeof theirs[k]);
    return middle_suits(theirs, own);
}

/* The scale of the devices known, or of those that suit the own samples. */
static double joint(const scale *s, const memory *m, table to) {
    summary own;
    summary_of(m, memory_most(m, m->useful), &own);
    own.samples = (uint32_t)m->useful;
    const group known = known_to(s, m->useful);
    const double number = pool(&known, to);
    if (suits_table(to, &own)) return number;
    group good = {0};
    for (int k = 0; k < known.n; ++k)
        if (summary_suits(known.of[k], &own)) good.of[good.n++] = known.of[k];
    if (!good.n) good.of[good.n++] = &own;
    return pool(&good, to);
}

static void set(scale *s, double number, table of) {
    for (int c = 0; c < COLUMNS; ++c) {
        const double mean = of[POOLED_MEAN][c], low = of[POOLED_LOW][c], high = of[POOLED_HIGH][c];
        const int varies = high - low > 1e-200 && of[POOLED_DEVIATION][c] > 1e-200;
        const double span = varies ? high - low : 1;
        if (c == INPUTS) {
            s->center = mean, s->width = span, s->bottom = low, s->top = high;
            continue;
        }
        s->usable[c] = (uint8_t)varies, s->mean[c] = mean, s->span[c] = span;
        s->deviation[c] = varies ? of[POOLED_DEVIATION][c] : 1;
        for (int k = 0; k < QUANTILES; ++k) s->quantiles[k][c] = of[POOLED_QUANTILES + k][c];
    }
    s->number = number;
}

static int is_due(const scale *s, int count, int begins) {
    const int young = count <= SCALE_LAST + SCALE_SPREAD;
    const int later = count > SCALE_SPREAD && is_power(s->rounds_unlike);
    int power = 1;
    while (2 * power <= count) power *= 2;
    const int lag = !NEIGHBOURS ? 0 : power / 2 < SCALE_SPREAD ? power / 2 : SCALE_SPREAD;
    const int at_once = later || s->number == 0 || !NEIGHBOURS;
    const int due = count == power + lag && (young || s->changed);
    return due || (s->changed && at_once) || begins;
}

int scale_take(scale *s, const memory *m, int begins) {
    table found;
    int any = 0;
    for (int k = 0; k < DEVICES; ++k) any |= s->known[k].samples > 0;
    if (!any || m->useful == 0 || !is_due(s, m->useful, begins)) return 0;
    const double number = joint(s, m, found);
    s->changed = 0;
    if (number == s->number) return 0;
    set(s, number, found);
    return 1;
}

/* Use */

static double rank_of(const scale *s, double x, int i) {
    double total = 0;
    for (int k = 0; k + 1 < QUANTILES; ++k) {
        const double inner = x - s->quantiles[k][i], wide = s->quantiles[k + 1][i] - s->quantiles[k][i];
        const double side = inner > 0 ? 1 : inner < 0 ? 0 : 0.5;
        total += wide > 0 ? clipped(inner / wide, 0, 1) : side;
    }
    return total / (QUANTILES - 1) - 0.5;
}

/* A value in widths, which does not count as farther away than this. */
static double within(double value) { return clipped(value, -FARTHEST, FARTHEST); }

void scale_inputs(const scale *s, const float x[INPUTS], inputs *to) {
    for (int i = 0; i < INPUTS; ++i) {
        const int is_there = s->usable[i] && !isnan(x[i]);
        const double away = is_there ? x[i] - s->mean[i] : 0;
        to->ranges[i] = within(away / s->span[i]), to->deviations[i] = within(away / s->deviation[i]);
        to->ranks[i] = is_there ? rank_of(s, away + s->mean[i], i) : 0;
    }
}

double scale_scaled(const scale *s, double y) { return within((y - s->center) / s->width); }
double scale_unscaled(const scale *s, double f) { return s->center + s->width * f; }
double scale_low(const scale *s) { return scale_scaled(s, fmin(s->least, s->bottom)); }
double scale_high(const scale *s) { return scale_scaled(s, fmax(s->most, s->top)); }
