/* The paper's learner (Algorithm 2, squared loss) on a device: C99, float32, no malloc, no I/O.
 *
 *     domkl_paper device;
 *     domkl_begin(&device, V, rates, degree);
 *     y_hat = domkl_predict(&device, x);
 *     domkl_learn(&device, y);                 then send domkl_theta(&device), domkl_losses(&device)
 *     domkl_receive(&device, theta, losses);   once for each neighbour
 *     domkl_close(&device);                    ends the round
 *
 * The same steps as domkl/learning/first_order.py, with the same numbers to the rounding of float32. One
 * struct holds all state: see the size that it has below. Sizes are given when it is compiled.
 */
#ifndef DOMKL_PAPER_H
#define DOMKL_PAPER_H

#ifndef DOMKL_KERNELS
#define DOMKL_KERNELS 17 /* P */
#endif
#ifndef DOMKL_FEATURES
#define DOMKL_FEATURES 50 /* D, pairs of sine and cosine of each kernel */
#endif
#ifndef DOMKL_INPUTS
#define DOMKL_INPUTS 8 /* d */
#endif
#define DOMKL_LENGTH (2 * DOMKL_FEATURES) /* parameters of a kernel */

/* Parameters or features of all kernels: 4 * 17 * 100 = 6.8 kB at the sizes above. */
typedef float domkl_vector[DOMKL_KERNELS][DOMKL_LENGTH];

typedef struct {
    float rho, eta, eta_g;
} domkl_rates;

/* All state: six vectors, 41 kB at the sizes above. The frequencies are read where they are, mostly flash. */
typedef struct {
    const float (*V)[DOMKL_FEATURES][DOMKL_INPUTS];
    domkl_rates rates;
    int degree;  /* neighbours */
    int arrived; /* of them in the open round */
    domkl_vector theta, lam, near; /* estimates, duals, and the neighbours' estimates in sum */
    domkl_vector z, next, sum;     /* of the open round: features, new estimates, what arrived in sum */
    float f[DOMKL_KERNELS], q[DOMKL_KERNELS], L[DOMKL_KERNELS], total[DOMKL_KERNELS];
} domkl_paper;

/* What a call found wrong. */
typedef enum {
    DOMKL_OK = 0,
    DOMKL_NOT_FINITE = 1, /* a number that is not finite, or too large; nothing has changed */
    DOMKL_TOO_MANY = 2    /* more messages than neighbours in a round; nothing has changed */
} domkl_result;

/* The state before the first round; V are the frequencies (P, D, d), the same on all devices. */
void domkl_begin(domkl_paper *device, const float (*V)[DOMKL_FEATURES][DOMKL_INPUTS], domkl_rates rates,
                 int degree);

/* What a sample's label is expected to be. */
domkl_result domkl_predict(domkl_paper *device, const float x[DOMKL_INPUTS], float *y_hat);

/* The local step with the label of the sample that was predicted last: opens a round. */
domkl_result domkl_learn(domkl_paper *device, float y);

/* What every neighbour is to receive of the open round. */
const float *domkl_theta(const domkl_paper *device);
const float *domkl_losses(const domkl_paper *device);

/* One neighbour's message of the round, in any order; from none twice. */
domkl_result domkl_receive(domkl_paper *device, const float *theta, const float *losses);

/* Ends the round. Of a neighbour whose message is missing the dual rests: its other end must know that it did
 * not arrive, so links must not lose messages of one direction alone. */
void domkl_close(domkl_paper *device);

#endif
