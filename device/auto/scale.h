/* Scale: one way of measuring inputs and targets that all devices of a network come to share.
 *
 * What a device knows of others is a map device -> newest summary of samples. A scale pools summaries; it has
 * a number, a hash of what it is made of: the same bits as in Python, so sums are in double and in its order.
 */
#pragma once

#include "summary.h"

/* Inputs as a scale measures them, 0 where they are missing: from the mean in ranges and in deviations, and
 * as ranks in [-0.5, 0.5]. */
typedef struct {
    double ranges[INPUTS], deviations[INPUTS], ranks[INPUTS];
} inputs;

typedef struct {
    summary known[DEVICES], own; /* by name; the own one as it was published last */
    uint8_t news[DEVICES];       /* which of them the next message is to have */
    double mean[INPUTS], deviation[INPUTS], span[INPUTS], quantiles[QUANTILES][INPUTS];
    uint8_t usable[INPUTS];            /* inputs that vary */
    double center, width, bottom, top; /* of the target, and the range that the scale is of */
    double least, most;                /* the range of the own targets */
    double number;                     /* 0: no scale yet; equal numbers are equal scales */
    uint32_t rounds_unlike;            /* rounds with a neighbour of another scale, since all were alike */
    uint8_t withdrawn;                 /* own samples are no measure for others any more */
    uint8_t changed;                   /* known is more than the scale is made of */
} scale;

void scale_begin(scale *s);
void scale_note_target(scale *s, double y);
void scale_publish(scale *s, const memory *m); /* a summary after 1, 2, 4 .. samples */
void scale_hear(scale *s, const summary *one);
void scale_compare(scale *s, int heard, int unlike);   /* once a round */
int scale_take(scale *s, const memory *m, int begins); /* when it is time; whether it is another one */

void scale_inputs(const scale *s, const float x[INPUTS], inputs *to);
double scale_scaled(const scale *s, double y); /* the target in widths around the centre */
double scale_unscaled(const scale *s, double f);
double scale_low(const scale *s); /* what predictions keep to, in widths */
double scale_high(const scale *s);
