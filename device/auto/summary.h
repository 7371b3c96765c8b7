/* Summary: one device's samples in short. A column without a value has its low above its high, and tells
 * others nothing. */
#pragma once

#include <stdint.h>

#include "memory.h"

enum { QUANTILES = 17, COLUMNS = INPUTS + 1 }; /* columns: the inputs, then the target */

/* As it travels. */
typedef struct {
    uint32_t name, samples; /* of no samples: there is none */
    double low[COLUMNS], high[COLUMNS];
    uint16_t shape[QUANTILES][COLUMNS]; /* mean, deviation, inner quantiles, in parts of the span */
} summary;

/* What it says as numbers: the mean, the mean square deviation from it, and all quantiles; NaN without a
 * value. */
enum { ROW_MEAN, ROW_VARIANCE, ROW_LOW, ROW_HIGH = ROW_LOW + QUANTILES - 1, ROWS };

/* The lowest value, the quartiles about the middle half, and the highest value. */
typedef double middle[4][COLUMNS];

void summary_of(const memory *m, int n, summary *to); /* of the last n samples */
int summary_fits(const summary *one);                 /* whether a device can have made it */
int summary_has(const summary *one, int column); /* whether there is a value in it */
double summary_at(const summary *one, int row, int column);
void summary_middle(const summary *one, middle to);

/* Whether own values suit others': their middle half meets the others' range, and neither half fills less
 * than `fits` of the other, or they are constant or missing; so in the target and in half of the inputs. That
 * of few own values may well be narrow. */
int middle_suits(middle joint, const summary *own);
int summary_suits(const summary *one, const summary *own);
