/* Trust: whose parameters a device uses, judged by its own last samples.
 *
 * With l and s the squared errors of a neighbour's theta and of the standard on these samples, the neighbour
 * is refused if mean(l - most s) > clear repeats standard errors of most s. The standard is the better of the
 * alone function and the neighbour a quarter down the ranking; `repeats` is that of the echo.
 */
#pragma once

#include <stdint.h>

#include "settings.h"

typedef struct {
    float z[TRUST_WINDOW][K];
    double y[TRUST_WINDOW], alone[TRUST_WINDOW]; /* labels, and squared errors of what alone said */
    int age;
} trust;

void trust_reset(trust *t);
void trust_note(trust *t, const float z[K], double y, double missed);
/* Whether it uses what n neighbours sent, of those who are `able`: whose parameters mean the same here. */
void trust_judge(const trust *t, int n, const float *const theta[], const uint8_t able[], double repeats,
                 uint8_t used[]);
