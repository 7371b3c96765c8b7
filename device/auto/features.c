#include "features.h"

#include <math.h>

#include "algebra.h"

static const float V[D][2 * INPUTS] = FREQUENCIES;

void features_of(const inputs *in, float z[K]) {
    float u[2 * INPUTS];
    for (int i = 0; i < INPUTS; ++i) {
        u[i] = (float)(clipped(in->ranges[i], -1.5, 1.5) * FEATURES_SPREAD_RANGES);
        u[INPUTS + i] = (float)(in->ranks[i] * FEATURES_SPREAD_RANKS);
    }
    const float root = (float)sqrt(D), linear = (float)(1 / sqrt(INPUTS));
    for (int r = 0; r < D; ++r) {
        float angle = 0;
        for (int i = 0; i < 2 * INPUTS; ++i) angle += u[i] * V[r][i];
        z[r] = sinf(angle) / root, z[D + r] = cosf(angle) / root;
    }
    z[2 * D] = 1;
    for (int i = 0; i < LINEAR; ++i) z[2 * D + 1 + i] = u[i] * linear;
}
