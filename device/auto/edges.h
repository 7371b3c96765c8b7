/* Edges: how the two ends of an edge agree on its dual when messages are lost.
 *
 * An end moves its dual as soon as a round closes with the neighbour's message, before it knows whether its
 * own came there. The neighbour's next message shows that; if it did not, the move is taken back.
 */
#pragma once

#include <stdint.h>

#include "settings.h"

/* State of one end of an edge, as the other end receives it. */
typedef struct {
    int64_t mine;          /* the sender's number for its end; a new one drops the dual */
    int64_t theirs;        /* the receiver's number, as the sender knows it */
    int64_t seen;          /* the receiver's last round that the sender has taken */
    int64_t moved, before; /* the last rounds in which the sender's dual moved, and that are in force */
} held;

typedef struct {
    held at;
    float dual[K], settled[K]; /* settled: before the last move */
    uint8_t is_hoping;         /* whether the other end has still to confirm that */
    int degree;                /* of the neighbour, as it counts; 0 before it is known */
    /* The message of the open round. */
    uint8_t has_come;
    int sent_degree;
    double number; /* of the scale */
    held said;
    float theta[K];
} edge;

void edge_begin(edge *e);
int edge_agrees(const edge *e); /* whether neither end has reset the edge without the other */
void edge_move(edge *e, int64_t round, float by, const float *own);
void edge_restart(edge *e); /* drop the dual, under a new number */
/* The same two as the round closes: compares both ends, or drops what is not believed; what to take back of
 * the dual is added to `back`. */
void edge_settle(edge *e, int64_t round, float back[K]);
void edge_refuse(edge *e, int64_t round, float back[K]);
