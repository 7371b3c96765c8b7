#include "edges.h"

#include <string.h>

#include "algebra.h"

enum { NEVER = -1 };

static void drop(edge *e, int64_t number, int64_t theirs) {
    e->at = (held){number, theirs, e->at.seen, NEVER, NEVER};
    e->is_hoping = 0;
    memset(e->dual, 0, sizeof e->dual), memset(e->settled, 0, sizeof e->settled);
}

void edge_begin(edge *e) {
    memset(e, 0, sizeof *e);
    e->at.seen = e->at.moved = e->at.before = NEVER;
}

int edge_agrees(const edge *e) { return e->said.mine == e->at.theirs && e->said.theirs == e->at.mine; }

void edge_move(edge *e, int64_t round, float by, const float *own) {
    memcpy(e->settled, e->dual, sizeof e->settled);
    for (int k = 0; k < K; ++k) e->dual[k] += by * (own[k] - e->theta[k]);
    e->at.before = e->at.moved, e->at.moved = round, e->is_hoping = 1;
}

void edge_restart(edge *e) {
    drop(e, e->at.mine == INT64_MAX ? 0 : e->at.mine + 1, e->at.theirs);
}

static void undo(edge *e, float back[K]) {
    add(1, e->dual, back), add(-1, e->settled, back);
    memcpy(e->dual, e->settled, sizeof e->dual);
    e->at.moved = e->at.before, e->at.before = NEVER;
}

void edge_settle(edge *e, int64_t round, float back[K]) {
    const held *said = &e->said;
    e->at.seen = round;
    if (said->mine != e->at.theirs) {
        add(1, e->dual, back); /* zero where it never moved */
        drop(e, e->at.mine, said->mine);
        return;
    }
    if (!e->is_hoping || e->at.moved > round - 1 || said->theirs != e->at.mine || said->before > e->at.moved)
        return;
    e->is_hoping = 0;
    if (e->at.moved != said->moved && e->at.moved != said->before) undo(e, back);
}

void edge_refuse(edge *e, int64_t round, float back[K]) {
    e->at.seen = round;
    if (e->at.moved == NEVER) return;
    add(1, e->dual, back);
    edge_restart(e);
}
