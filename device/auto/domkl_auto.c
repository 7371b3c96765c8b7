#include "domkl_auto.h"

#include <math.h>
#include <string.h>

static int is_scaled(const domkl_auto *device) { return device->scale.number > 0; }

/* Before errors are known the common function is likeliest, as it rests on everybody's samples. */
static void forget_errors(domkl_auto *device) {
    mixer_reset(&device->mixer), echo_reset(&device->echo), recent_reset(&device->recent);
    mixer_favour(&device->mixer, COMMON);
}

/* The weight of an edge; before its degree is known a neighbour counts as one like us. */
static double weight_of(int degree) {
    const int least = degree && degree < NEIGHBOURS ? degree : NEIGHBOURS;
    return 1.0 / least;
}

static double weight_of_all(const domkl_auto *device) {
    double total = 0;
    for (int i = 0; i < NEIGHBOURS; ++i) total += weight_of(device->edges[i].degree);
    return total;
}

void domkl_auto_begin(domkl_auto *device) {
    memset(device, 0, sizeof *device);
    scale_begin(&device->scale), guard_reset(&device->guard), trust_reset(&device->trust);
    for (int i = 0; i < NEIGHBOURS; ++i) edge_begin(device->edges + i);
    consensus_weigh(&device->consensus, weight_of_all(device));
    forget_errors(device);
}

/* A sample */

/* Features and terms of inputs, as the scale measures them. */
static void measure(const domkl_auto *device, const float x[INPUTS], float z[K], double terms[TERMS]) {
    inputs in;
    scale_inputs(&device->scale, x, &in);
    features_of(&in, z), recent_terms(&in, terms);
}

static void mix(domkl_auto *device) {
    const double low = scale_low(&device->scale), high = scale_high(&device->scale);
    double w[EXPERTS], rest = 0, *f = device->f;
    mixer_weights(&device->mixer, w);
    for (int e = 0; e < ECHO; ++e) f[e] = clipped(f[e], low, high), rest += w[e];
    device->before_echo = device->y_hat = 0;
    for (int e = 0; e < ECHO; ++e) device->before_echo += w[e] / rest * f[e];
    f[ECHO] = clipped(device->before_echo + echo_predict(&device->echo), low, high);
    for (int e = 0; e < EXPERTS; ++e) device->y_hat += w[e] * f[e];
}

domkl_result domkl_auto_predict(domkl_auto *device, const float x[INPUTS], double *y_hat) {
    consensus *c = &device->consensus;
    if (device->is_open) return DOMKL_NOT_NOW;
    for (int i = 0; i < INPUTS; ++i)
        if (fabsf(x[i]) > DOMKL_LARGEST) return DOMKL_NOT_FINITE;
    memcpy(device->x, x, sizeof device->x);
    *y_hat = START;
    if (!is_scaled(device)) return DOMKL_OK;
    measure(device, x, c->z, device->terms);
    consensus_solve(c);
    device->f[COMMON] = dot(c->z, c->common), device->f[ALONE] = dot(c->z, c->alone);
    device->f[OWN] = dot(c->z, c->own), device->f[RECENT] = recent_predict(&device->recent, device->terms);
    mix(device);
    *y_hat = scale_unscaled(&device->scale, device->y_hat);
    return DOMKL_OK;
}

/* Weighs the experts by what they predicted, and notes errors for the restart; a label in widths. */
static void judge(domkl_auto *device, double y, double missed[EXPERTS]) {
    const double total = (device->y_hat - y) * (device->y_hat - y);
    echo_learn(&device->echo, y - device->before_echo);
    for (int e = 0; e < EXPERTS; ++e) missed[e] = (device->f[e] - y) * (device->f[e] - y);
    mixer_learn(&device->mixer, missed, echo_repeats(&device->echo));
    recent_watch(&device->recent, total, (double[3]){missed[COMMON], missed[ALONE], missed[RECENT]});
}

domkl_result domkl_auto_learn(domkl_auto *device, float label) {
    double y = label, missed[EXPERTS];
    if (device->is_open) return DOMKL_NOT_NOW;
    if (!(fabsf(label) <= DOMKL_LARGEST)) return DOMKL_NOT_FINITE;
    if (is_scaled(device))
        y = guard_bound(&device->guard, y, scale_unscaled(&device->scale, device->y_hat));
    memory_add(&device->memory, device->x, y);
    scale_note_target(&device->scale, y);
    if (is_scaled(device)) {
        y = scale_scaled(&device->scale, y);
        judge(device, y, missed);
        trust_note(&device->trust, device->consensus.z, y, missed[ALONE]);
        consensus_learn(&device->consensus, y, 2 * echo_weight(&device->echo));
        recent_learn(&device->recent, device->terms, y);
    }
    scale_publish(&device->scale, &device->memory);
    device->is_open = 1;
    return DOMKL_OK;
}

/* Samples that are learnt again */

/* The k-th of the last n samples, as the scale of now measures it: features, terms and label. */
static double recall(const domkl_auto *device, int n, int k, float z[K], double terms[TERMS]) {
    const int at = memory_place(&device->memory, n, k);
    measure(device, device->memory.x[at], z, terms);
    return scale_scaled(&device->scale, device->memory.y[at]);
}

/* Lets recent know the last n samples only. */
static void restart_recent(domkl_auto *device, int n) {
    float z[K];
    double terms[TERMS];
    recent_forget(&device->recent);
    for (int k = 0; k < n; ++k) {
        const double y = recall(device, n, k, z, terms);
        recent_take(&device->recent, terms, y);
    }
    recent_solve(&device->recent);
}

/* Restarts the recent model, or gives up the past, where own errors ask for it; whether it is the latter. */
static int restart(domkl_auto *device) {
    const double repeats = echo_repeats(&device->echo);
    const int is_outside = guard_gives_up(&device->guard), n = recent_alarms(&device->recent, repeats);
    if (n) {
        restart_recent(device, memory_most(&device->memory, n));
        device->memory.fresh = n;
        mixer_favour(&device->mixer, RECENT);
    }
    const int begins = recent_gives_up(&device->recent, repeats) && device->memory.count > SCALE_EARLY;
    if (begins) memory_forget(&device->memory, RECENT_FADE);
    if (is_outside) memory_forget(&device->memory, 2), device->scale.withdrawn = 1;
    return begins || is_outside;
}

static void convert_errors(domkl_auto *device, double factor) {
    const double far = SCALE_FITS * SCALE_FITS;
    mixer_rescale(&device->mixer, factor), echo_rescale(&device->echo, factor);
    recent_rescale(&device->recent, factor);
    /* Those of a scale so unlike this one say nothing. */
    if (factor < far || factor > 1 / far) forget_errors(device);
}

/* Trust judges by the last samples once more, with the errors of alone had it not learnt them. */
static void renew_trust(domkl_auto *device, int n, double h) {
    float z[K];
    double terms[TERMS];
    trust_reset(&device->trust);
    for (int k = n > TRUST_WINDOW ? n - TRUST_WINDOW : 0; k < n; ++k) {
        const double y = recall(device, n, k, z, terms);
        const double missed = consensus_left_out(&device->consensus, z, y, h);
        trust_note(&device->trust, z, y, missed * missed);
    }
}

/* Knows the last n samples only, in the scale of now. */
static void rebuild(domkl_auto *device, int n) {
    memory *m = &device->memory;
    if (guard_recheck(&device->guard, m, n) && m->count <= SCALE_EARLY) forget_errors(device);
    const double h = 2 * echo_weight(&device->echo);
    float z[K];
    double terms[TERMS];
    consensus_forget(&device->consensus), recent_forget(&device->recent);
    for (int k = 0; k < n; ++k) {
        const double y = recall(device, n, k, z, terms);
        consensus_take(&device->consensus, z, y, h), recent_take(&device->recent, terms, y);
    }
    consensus_rebuild(&device->consensus), recent_solve(&device->recent);
    renew_trust(device, n, h);
    m->useful = n;
    for (int i = 0; i < NEIGHBOURS; ++i) edge_restart(device->edges + i);
}

/* Messages */

domkl_result domkl_auto_receive(domkl_auto *device, int i, const message *from) {
    if (!device->is_open || i < 0 || i >= NEIGHBOURS) return DOMKL_NOT_NOW;
    edge *e = device->edges + i;
    if (e->has_come) return DOMKL_TOO_MANY;
    const double number = from->number;
    if (!(number >= 0 && number <= MOST_NUMBER && number == floor(number))) return DOMKL_NOT_FINITE;
    if (from->degree < 1 || from->degree > MOST_DEGREE) return DOMKL_NOT_FINITE;
    for (int k = 0; k < K; ++k)
        if (!(fabsf(from->theta[k]) <= MOST_THETA)) return DOMKL_NOT_FINITE;
    e->has_come = 1, e->number = number, e->sent_degree = (int)from->degree, e->said = from->said;
    memcpy(e->theta, from->theta, sizeof e->theta);
    return DOMKL_OK;
}

domkl_result domkl_auto_hear(domkl_auto *device, const summary *one) {
    if (!summary_fits(one)) return DOMKL_NOT_FINITE;
    scale_hear(&device->scale, one);
    return DOMKL_OK;
}

int domkl_auto_is_complete(const domkl_auto *device) {
    for (int i = 0; i < NEIGHBOURS; ++i)
        if (!device->edges[i].has_come) return 0;
    return 1;
}

/* Neighbours' degrees count at once, and other ones later on every so often: they change the matrix. */
static void take_degrees(domkl_auto *device) {
    int is_other = 0;
    for (int i = 0; i < NEIGHBOURS; ++i) {
        edge *e = device->edges + i;
        if (!e->has_come || e->degree == e->sent_degree || (e->degree && device->round % REWEIGHED)) continue;
        e->degree = e->sent_degree, is_other = 1;
    }
    if (!is_other) return;
    if (is_scaled(device)) consensus_reweigh(&device->consensus, weight_of_all(device));
    else consensus_weigh(&device->consensus, weight_of_all(device));
}

/* Whose messages are used, of those on the same scale. */
static void believe(domkl_auto *device, uint8_t used[]) {
    uint8_t able[MOST_NEIGHBOURS] = {0};
    const float *theta[MOST_NEIGHBOURS] = {0};
    int heard = 0, unlike = 0;
    for (int i = 0; i < NEIGHBOURS; ++i) {
        const edge *e = device->edges + i;
        able[i] = e->has_come && is_scaled(device) && e->number == device->scale.number;
        theta[i] = e->theta, heard |= e->has_come, unlike |= e->has_come && !able[i];
    }
    trust_judge(&device->trust, NEIGHBOURS, theta, able, echo_repeats(&device->echo), used);
    scale_compare(&device->scale, heard, unlike);
}

/* Edges' duals, and what the consensus makes of the messages. */
static void merge(domkl_auto *device, const uint8_t used[]) {
    consensus *c = &device->consensus;
    pull from[MOST_NEIGHBOURS];
    float back[K] = {0};
    for (int i = 0; i < NEIGHBOURS; ++i) {
        edge *e = device->edges + i;
        if (used[i]) edge_settle(e, device->round, back);
        else if (e->has_come) edge_refuse(e, device->round, back);
        const int moves = used[i] && edge_agrees(e);
        from[i] = (pull){e->theta, (float)weight_of(e->degree), 0, used[i]};
        if (moves) from[i].moves_by = (float)weight_of(e->sent_degree);
        if (moves) edge_move(e, device->round, from[i].moves_by, c->theta);
    }
    consensus_take_back(c, back);
    if (is_scaled(device)) consensus_merge(c, from, NEIGHBOURS);
}

void domkl_auto_close(domkl_auto *device) {
    uint8_t used[MOST_NEIGHBOURS];
    if (!device->is_open) return;
    take_degrees(device);
    believe(device, used);
    merge(device, used);
    const int begins = is_scaled(device) && restart(device), was_scaled = is_scaled(device);
    const double width = device->scale.width;
    const int is_other = scale_take(&device->scale, &device->memory, begins);
    if (is_other) convert_errors(device, was_scaled ? width / device->scale.width : 1);
    if (is_other || begins) rebuild(device, memory_most(&device->memory, device->memory.useful));
    for (int i = 0; i < NEIGHBOURS; ++i) device->edges[i].has_come = 0;
    ++device->round, device->is_open = 0;
}
