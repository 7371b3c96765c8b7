/* Memory: the last samples, to learn from again. */
#pragma once

#include "settings.h"

typedef struct {
    float x[SCALE_LAST][INPUTS], y[SCALE_LAST]; /* a ring */
    int count;  /* samples learnt */
    int useful; /* of them, since the past was given up */
    int fresh;  /* of them, since errors rose the last time */
} memory;

void memory_add(memory *m, const float x[INPUTS], double y);
int memory_most(const memory *m, int n);         /* n, or as many as there are */
int memory_place(const memory *m, int n, int k); /* of the k-th of the last n samples */
void memory_forget(memory *m, int most);         /* count only samples since the last alarm, or fewer */
