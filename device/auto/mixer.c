#include "mixer.h"

#include <math.h>
#include <string.h>

#include "settings.h"

void mixer_reset(mixer *m) { memset(m, 0, sizeof *m); }

static double least(const double values[EXPERTS]) {
    double found = values[0];
    for (int e = 1; e < EXPERTS; ++e) found = fmin(found, values[e]);
    return found;
}

void mixer_weights(const mixer *m, double w[EXPERTS]) {
    double top = m->log[0], total = 0;
    for (int e = 1; e < EXPERTS; ++e) top = fmax(top, m->log[e]);
    for (int e = 0; e < EXPERTS; ++e) total += w[e] = exp(m->log[e] - top);
    for (int e = 0; e < EXPERTS; ++e) w[e] = (1 - MIXER_SHARE) * (w[e] / total) + MIXER_SHARE / EXPERTS;
}

void mixer_learn(mixer *m, const double missed[EXPERTS], double repeats) {
    double w[EXPERTS];
    ++m->age;
    const int over = m->age < MIXER_FADE ? m->age : MIXER_FADE;
    for (int e = 0; e < EXPERTS; ++e) m->errors[e] += (missed[e] - m->errors[e]) / over;
    const double unit = MIXER_HEAT * repeats * fmax(least(m->errors), 1e-12), best = least(missed);
    mixer_weights(m, w);
    for (int e = 0; e < EXPERTS; ++e) m->log[e] = log(w[e]) - fmin((missed[e] - best) / unit, MIXER_MOST);
}

void mixer_favour(mixer *m, int expert) {
    double w[EXPERTS];
    mixer_weights(m, w);
    for (int e = 0; e < EXPERTS; ++e) m->log[e] = log(w[e] / 2 + (e == expert ? 0.5 : 0));
}

void mixer_rescale(mixer *m, double factor) {
    for (int e = 0; e < EXPERTS; ++e) m->errors[e] *= factor * factor;
}
