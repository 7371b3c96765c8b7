/* A device on a serial line: samples and neighbours' updates in, predictions and own updates out. */
#include <math.h>
#include <string.h>

#include "../frames.h"
#include "domkl_auto.h"

/* Words of four bytes: the head of an update, and how many it has. */
enum { HEAD = 4, HELD = sizeof(held) / 4, SUMMARY = sizeof(summary) / 4, UPDATE = HEAD + K + HELD };
enum { MOST = UPDATE + DEVICES * SUMMARY };

static domkl_auto device;
static uint32_t words[MOST];

static void refuse(uint32_t round, int why) {
    const float reason = (float)why;
    frame_begin(FRAME_REFUSED, round, 1);
    frame_words(&reason, 1);
    frame_end();
}

static void send_update(void) {
    const uint32_t name = NAME, degree = NEIGHBOURS;
    scale *s = &device.scale;
    int news = 0;
    for (int k = 0; k < DEVICES; ++k) news += s->news[k];
    frame_begin(FRAME_UPDATE, device.round, HEAD + K + NEIGHBOURS * HELD + news * SUMMARY);
    frame_words(&s->number, 2), frame_words(&name, 1), frame_words(&degree, 1);
    frame_words(device.consensus.theta, K);
    for (int i = 0; i < NEIGHBOURS; ++i) frame_words(&device.edges[i].at, HELD);
    for (int k = 0; k < DEVICES; ++k)
        if (s->news[k]) frame_words(s->known + k, SUMMARY);
    frame_end();
    memset(s->news, 0, sizeof s->news);
}

static int take_sample(void) {
    float sample[INPUTS + 1], answer;
    double y_hat;
    memcpy(sample, words, sizeof sample);
    if (!(fabsf(sample[INPUTS]) <= DOMKL_LARGEST)) return DOMKL_NOT_FINITE;
    const int result = domkl_auto_predict(&device, sample, &y_hat);
    if (result != DOMKL_OK) return result;
    answer = (float)y_hat;
    frame_begin(FRAME_PREDICTION, device.round, 1);
    frame_words(&answer, 1);
    frame_end();
    domkl_auto_learn(&device, sample[INPUTS]);
    send_update();
    return DOMKL_OK;
}

static int neighbour(uint32_t name) {
    static const uint32_t names[] = NEIGHBOUR_NAMES;
    for (int i = 0; i < NEIGHBOURS; ++i)
        if (names[i] == name) return i;
    return -1;
}

static int take_update(int count) {
    static float theta[K];
    message from = {.theta = theta};
    summary one;
    uint32_t name;
    if (count < UPDATE || (count - UPDATE) % SUMMARY) return DOMKL_NOT_NOW;
    memcpy(&from.number, words, 8), memcpy(&name, words + 2, 4), memcpy(&from.degree, words + 3, 4);
    memcpy(theta, words + HEAD, sizeof theta), memcpy(&from.said, words + HEAD + K, sizeof from.said);
    for (int at = UPDATE; at < count; at += SUMMARY) {
        memcpy(&one, words + at, sizeof one);
        if (!summary_fits(&one)) return DOMKL_NOT_FINITE;
    }
    const int result = domkl_auto_receive(&device, neighbour(name), &from);
    for (int at = UPDATE; at < count && result == DOMKL_OK; at += SUMMARY)
        memcpy(&one, words + at, sizeof one), domkl_auto_hear(&device, &one);
    return result;
}

static void send_duals(void) {
    frame_begin(FRAME_DUALS, device.round, K);
    frame_words(device.consensus.lam, K);
    frame_end();
}

static int take(int type, int count) {
    if (type == FRAME_SAMPLE && count == INPUTS + 1) return take_sample();
    if (type == FRAME_UPDATE) return take_update(count);
    if (type == FRAME_CLOSE && device.is_open) return domkl_auto_close(&device), DOMKL_OK;
    if (type == FRAME_DUALS) return send_duals(), DOMKL_OK;
    return DOMKL_NOT_NOW;
}

int main(void) {
    uint32_t round;
    unsigned damaged = 0;
    int count, type;
    domkl_auto_begin(&device);
    while ((type = frame_read(&round, words, MOST, &count, &damaged)) >= 0) {
        const int result = round == device.round ? take(type, count) : DOMKL_NOT_NOW;
        if (result != DOMKL_OK) refuse(round, result);
        if (device.is_open && domkl_auto_is_complete(&device)) domkl_auto_close(&device);
    }
    return 0;
}
