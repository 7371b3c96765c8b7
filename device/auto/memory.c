#include "memory.h"

#include <string.h>

void memory_add(memory *m, const float x[INPUTS], double y) {
    const int at = m->count % SCALE_LAST;
    memcpy(m->x[at], x, sizeof m->x[at]);
    m->y[at] = (float)y;
    ++m->count, ++m->useful, ++m->fresh;
}

int memory_most(const memory *m, int n) {
    const int most = m->count < SCALE_LAST ? m->count : SCALE_LAST;
    return n < most ? n : most;
}

int memory_place(const memory *m, int n, int k) { return (m->count - n + k) % SCALE_LAST; }

void memory_forget(memory *m, int most) {
    if (m->useful > m->fresh) m->useful = m->fresh;
    if (m->useful > most) m->useful = most;
    if (m->useful < 2) m->useful = 2;
}
