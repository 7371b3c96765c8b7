/* Guard: labels that cannot be right count as little as they tell.
 *
 * One whose error e is beyond reach R counts as one with the error e (R/|e|)^2.
 */
#pragma once

#include <stdint.h>

#include "memory.h"

typedef struct {
    double errors[GUARD_WINDOW];
    uint8_t large[GUARD_LAST]; /* whether the last labels were outside */
    double least, most;        /* the range of the own labels, as they were learnt */
    int age;
} guard;

void guard_reset(guard *g);
double guard_bound(guard *g, double y, double y_hat); /* the label as it is to be learnt */
/* Bounds wrong ones among the last n labels, which are learnt again; returns whether there were any. */
int guard_recheck(guard *g, memory *m, int n);
int guard_gives_up(guard *g); /* whether most of the last labels were outside: it begins again */
