/* Recent: a small model that forgets, and the decision to forget everything else.
 *
 *     S <- (1 - 1/fade) S + 2 b b',   s <- (1 - 1/fade) s + 2 y b,   beta = (S + 2 noise / v)^-1 s
 */
#pragma once

#include "scale.h"

enum { TERMS = 1 + RECENT_SINGLE * RECENT_DEGREE, GROUPS = RECENT_SINGLE + 1 };

typedef struct {
    double S[TERMS][TERMS], s[TERMS], beta[TERMS];
    double variance[GROUPS]; /* of the coefficients of each input */
    double noise;
    double error_level; /* usual error of the prediction */
    double excess;      /* g of Page's test */
    double errors[3];   /* of the common and the alone function, and of this model */
    double usual;       /* error of the long memory */
    int since;          /* samples since g last was zero */
    int age, level_age, errors_age;
    int lasting; /* for how many samples this model has been better */
} recent;

void recent_reset(recent *r);
void recent_terms(const inputs *in, double b[TERMS]);
double recent_predict(const recent *r, const double b[TERMS]);
void recent_learn(recent *r, const double b[TERMS], double y);
/* Lets it know some samples only: forget, take each, the newest last, and solve. */
void recent_forget(recent *r);
void recent_take(recent *r, const double b[TERMS], double y);
void recent_solve(recent *r);

/* Notes squared errors in widths: of the prediction, and of common, alone and recent. */
void recent_watch(recent *r, double total, const double parts[3]);
int recent_alarms(recent *r, double repeats);   /* from how many last samples it restarts; 0: it does not */
int recent_gives_up(recent *r, double repeats); /* whether to forget all but the last samples */
void recent_rescale(recent *r, double factor);
