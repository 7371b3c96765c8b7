/* Auto on a device: C99, float32, no malloc, no I/O. docs/auto.md explains it; one struct holds all state.
 *
 *     domkl_auto_begin(&device);
 *     domkl_auto_predict(&device, x, &y_hat);
 *     domkl_auto_learn(&device, y);
 *     then send device.consensus.theta, device.scale.number, NEIGHBOURS, the state of each edge (edge.at),
 *     and what is news in device.scale
 *     domkl_auto_receive(&device, i, ..);    once for each neighbour
 *     domkl_auto_hear(&device, ..);          each summary that came with it
 *     domkl_auto_close(&device);             ends the round
 *
 * The same steps as domkl/learning/auto/model.py and, for messages, domkl/learner/learner.py, with the same
 * types: float where that has the precision of the model, double where it has float64. Samples are kept as
 * float. Sizes and constants are those of settings.h, which settings.py takes from Python.
 */
#pragma once

#include "consensus.h"
#include "echo.h"
#include "edges.h"
#include "features.h"
#include "guard.h"
#include "mixer.h"
#include "recent.h"
#include "trust.h"

typedef struct {
    scale scale;
    consensus consensus;
    recent recent;
    mixer mixer;
    echo echo;
    guard guard;
    trust trust;
    memory memory;
    edge edges[MOST_NEIGHBOURS];
    uint32_t round;
    uint8_t is_open; /* whether the round has its sample */
    /* Of the sample that was predicted last. */
    float x[INPUTS];
    double f[EXPERTS], before_echo, y_hat; /* in widths, as the next ones */
    double terms[TERMS];
} domkl_auto;

typedef struct {
    double number; /* of the scale */
    uint32_t degree;
    held said;
    const float *theta;
} message;

/* The largest number that is taken of a sample. */
#define DOMKL_LARGEST 1e15f

/* What a call found wrong; nothing has changed then. */
typedef enum {
    DOMKL_OK = 0,
    DOMKL_NOT_FINITE = 1, /* a number that is not finite, or larger than any that is taken */
    DOMKL_TOO_MANY = 2,   /* a second message of a neighbour in a round */
    DOMKL_NOT_NOW = 100   /* it does not belong here, or not now */
} domkl_result;

void domkl_auto_begin(domkl_auto *device);
/* NaN stands for inputs that are missing. */
domkl_result domkl_auto_predict(domkl_auto *device, const float x[INPUTS], double *y_hat);
/* The local step with the label of the sample that was predicted last: opens a round. */
domkl_result domkl_auto_learn(domkl_auto *device, float y);
/* The message of the i-th neighbour, and each summary in it. */
domkl_result domkl_auto_receive(domkl_auto *device, int i, const message *from);
domkl_result domkl_auto_hear(domkl_auto *device, const summary *one);
int domkl_auto_is_complete(const domkl_auto *device); /* whether messages of all neighbours have come */
/* Ends the round; of a neighbour whose message is missing the dual rests. */
void domkl_auto_close(domkl_auto *device);
