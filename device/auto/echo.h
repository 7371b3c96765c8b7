/* Echo: errors that repeat are predictable.
 *
 *     e_t ~ g . [e_{t-1}, mean of e],   g = (sum l l' + doubt E I)^-1 sum l e,   E = sum e^2
 */
#pragma once

typedef struct {
    double last[2];               /* the last error, and a mean of the last few */
    double S[2][2], s[2], gain[2];
    double size, pairs;           /* E, and the sum of products of one error with the next */
    double r;                     /* correlation of one error with the next */
    int age;
} echo;

void echo_reset(echo *e);
double echo_predict(const echo *e); /* the error that is to be expected */
void echo_learn(echo *e, double error);
double echo_weight(const echo *e);  /* how much a sample counts */
double echo_repeats(const echo *e); /* how many errors tell as much as an independent one */
void echo_rescale(echo *e, double factor);
