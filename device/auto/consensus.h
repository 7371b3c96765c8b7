/* Consensus: online ADMM over all past samples, from one matrix.
 *
 *     Q = (sum h z z' + tau I)^-1,  M = sum h y z,  tau = eta / (degree + 1) + rho w
 *     theta  = Q (M + rho/2 (w theta + sum w_i theta_i) - lam)     sent to the neighbours
 *     lam   += rho/2 sum w_i (theta - theta_i)
 *     alone  = Q M                                                 own samples only
 *     own   <- Q (M + rho w own)                                   own samples, with a small ridge
 */
#pragma once

#include "algebra.h"

typedef struct {
    float Q[PACKED];
    float moment[K], alone[K], own[K], theta[K], lam[K];
    float common[K]; /* mean of the neighbours' theta, which predicts */
    float side[K];   /* what is added to M in the next step */
    double weight;   /* of all edges */
    float tau;
    /* What one pass over Q gave for a sample z: Q z, and theta and own of the next step but for it. */
    float z[K], u[K], next_theta[K], next_own[K];
} consensus;

/* What came over an edge, with its weights in sums, and in moves of its dual: 0 if that rests. */
typedef struct {
    const float *theta;
    float by, moves_by;
    int used;
} pull;

void consensus_weigh(consensus *c, double weight); /* of all edges, before anything is learnt */
void consensus_reweigh(consensus *c, double weight);
void consensus_solve(consensus *c); /* for c->z */
void consensus_learn(consensus *c, double y, double h);
void consensus_merge(consensus *c, const pull *from, int n);
void consensus_take_back(consensus *c, const float *moves); /* of edges' duals, out of lam */
/* Lets it know some samples only: forget, take each, of weight h, and rebuild. */
void consensus_forget(consensus *c);
void consensus_take(consensus *c, const float z[K], double y, double h);
void consensus_rebuild(consensus *c);
double consensus_left_out(const consensus *c, const float z[K], double y, double h); /* error without it */
