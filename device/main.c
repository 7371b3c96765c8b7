/* A device on a serial line: samples and neighbours' updates in, predictions and own updates out. */
#include "domkl_paper.h"
#include "frames.h"
#include "settings.h" /* FREQUENCIES, RATES and DEGREE: made by settings.py */

enum { SIZE = DOMKL_KERNELS * DOMKL_LENGTH, MOST = SIZE + DOMKL_KERNELS };

static domkl_paper device;
static float values[MOST];

static void refuse(uint32_t round, int why) {
    const float reason = (float)why;
    frame_begin(FRAME_REFUSED, round, 1);
    frame_words(&reason, 1);
    frame_end();
}

static int take_sample(uint32_t round) {
    float y_hat;
    const int result = domkl_predict(&device, values, &y_hat);
    if (result != DOMKL_OK) return result;
    frame_begin(FRAME_PREDICTION, round, 1);
    frame_words(&y_hat, 1);
    frame_end();
    const int learnt = domkl_learn(&device, values[DOMKL_INPUTS]);
    if (learnt != DOMKL_OK) return learnt;
    frame_begin(FRAME_UPDATE, round, MOST);
    frame_words(domkl_theta(&device), SIZE);
    frame_words(domkl_losses(&device), DOMKL_KERNELS);
    frame_end();
    return DOMKL_OK;
}

int main(void) {
    uint32_t round, expected = 0;
    unsigned damaged = 0;
    int count, type, is_open = 0;
    domkl_begin(&device, FREQUENCIES, RATES, DEGREE);
    while ((type = frame_read(&round, values, MOST, &count, &damaged)) >= 0) {
        int result = 100; /* a frame that does not belong here */
        if (type == FRAME_SAMPLE && count == DOMKL_INPUTS + 1 && !is_open && round == expected) {
            result = take_sample(round);
            is_open = result == DOMKL_OK;
        } else if (type == FRAME_UPDATE && count == MOST && is_open && round == expected) {
            result = domkl_receive(&device, values, values + SIZE);
        }
        if (result != DOMKL_OK) refuse(round, result);
        if (is_open && device.arrived == device.degree) domkl_close(&device), is_open = 0, ++expected;
    }
    return 0;
}
