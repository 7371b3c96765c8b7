#include "consensus.h"

#include <math.h>
#include <string.h>

void consensus_weigh(consensus *c, double weight) {
    c->weight = NEIGHBOURS ? weight : 1;
    c->tau = (float)(CONSENSUS_ETA / (NEIGHBOURS + 1) + CONSENSUS_RHO * c->weight);
}

void consensus_reweigh(consensus *c, double weight) {
    const float tau = c->tau, more = (float)(CONSENSUS_RHO * (weight - c->weight));
    consensus_weigh(c, weight);
    add(more, c->theta, c->side);
    if (tau == c->tau) return;
    packed_invert(c->Q);
    packed_lift(c->Q, c->tau - tau);
    packed_invert(c->Q);
    packed_times(c->Q, c->moment, c->alone);
}

void consensus_solve(consensus *c) {
    const float own = (float)(CONSENSUS_RHO * c->weight);
    float right[K];
    packed_times(c->Q, c->z, c->u);
    for (int k = 0; k < K; ++k) right[k] = c->moment[k] + c->side[k];
    packed_times(c->Q, right, c->next_theta);
    for (int k = 0; k < K; ++k) right[k] = c->moment[k] + own * c->own[k];
    packed_times(c->Q, right, c->next_own);
}

/* to = (Q - g u u') (b + hy z) from Q b. */
static void correct(const consensus *c, const float *before, float hy, float gain, float *to) {
    memmove(to, before, K * sizeof *to);
    add(hy, c->u, to);
    add(-gain * dot(c->z, to), c->u, to);
}

void consensus_learn(consensus *c, double label, double weight) {
    const float y = (float)label, h = (float)weight, hy = h * y;
    const float rise = 1 + h * dot(c->z, c->u), gain = h / rise;
    add(gain * (y - dot(c->z, c->alone)), c->u, c->alone);
    correct(c, c->next_theta, hy, gain, c->theta);
    correct(c, c->next_own, hy, gain, c->own);
    add(hy, c->z, c->moment);
    packed_add(c->Q, -gain, c->u);
    for (int k = 0; k < K; ++k) c->theta[k] = (float)clipped(c->theta[k], -MOST_THETA, MOST_THETA);
}

void consensus_merge(consensus *c, const pull *from, int n) {
    const float half = (float)(CONSENSUS_RHO / 2), weight = (float)c->weight;
    float moving = 0, counted = 0;
    for (int i = 0; i < n; ++i) moving += from[i].moves_by, counted += from[i].used ? from[i].by : 0;
    for (int k = 0; k < K; ++k) {
        const float own = c->theta[k];
        float near = n ? 0 : weight * own, moved = 0, mean = 0;
        for (int i = 0; i < n; ++i) {
            const float theirs = from[i].used ? from[i].theta[k] : own; /* who is missing does not pull */
            near += from[i].by * theirs, moved += from[i].moves_by * theirs;
            if (from[i].used) mean += from[i].by * theirs;
        }
        c->lam[k] += half * (moving * own - moved);
        c->side[k] = half * (weight * own + near) - c->lam[k];
        c->common[k] = counted > 0 ? mean / counted : own;
    }
}

void consensus_take_back(consensus *c, const float *moves) {
    const float back = (float)(CONSENSUS_RHO / 2);
    add(-back, moves, c->lam), add(back, moves, c->side);
}

void consensus_forget(consensus *c) { memset(c->Q, 0, sizeof c->Q), memset(c->moment, 0, sizeof c->moment); }

void consensus_take(consensus *c, const float z[K], double y, double h) {
    packed_add(c->Q, (float)h, z);
    add((float)(h * y), z, c->moment);
}

void consensus_rebuild(consensus *c) {
    const float pull = (float)(CONSENSUS_RHO * c->weight);
    packed_lift(c->Q, c->tau);
    packed_invert(c->Q);
    packed_times(c->Q, c->moment, c->alone);
    memset(c->lam, 0, sizeof c->lam);
    memcpy(c->own, c->alone, sizeof c->own), memcpy(c->theta, c->alone, sizeof c->theta);
    memcpy(c->common, c->alone, sizeof c->common);
    for (int k = 0; k < K; ++k) c->side[k] = pull * c->theta[k];
}

double consensus_left_out(const consensus *c, const float z[K], double y, double h) {
    float u[K];
    packed_times(c->Q, z, u);
    return (y - dot(z, c->alone)) / fmax(1 - h * dot(z, u), 1e-3);
}
