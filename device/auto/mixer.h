/* Mixer: Hedge over the experts, which may change their order.
 *
 *     log w_i <- log w_i - min((e_i - min e) / (heat repeats E), most),   w <- (1 - share) w + share / n
 */
#pragma once

enum { COMMON, ALONE, OWN, RECENT, ECHO, EXPERTS };

typedef struct {
    double log[EXPERTS], errors[EXPERTS];
    int age;
} mixer;

void mixer_reset(mixer *m); /* all weights are equal */
void mixer_weights(const mixer *m, double w[EXPERTS]);
void mixer_learn(mixer *m, const double missed[EXPERTS], double repeats); /* squared errors */
void mixer_favour(mixer *m, int expert);                                  /* give it half of the weight */
void mixer_rescale(mixer *m, double factor);
