#include "domkl_paper.h"

#include <math.h>
#include <string.h>

/* The largest number that is taken: sums of products of such numbers are finite. */
#define LARGEST 1e15f

static float dot(const float *a, const float *b, int n) {
    float total = 0;
    for (int k = 0; k < n; ++k) total += a[k] * b[k];
    return total;
}

static int fits(const float *values, int n) {
    for (int k = 0; k < n; ++k)
        if (!(fabsf(values[k]) <= LARGEST)) return 0; /* not NaN either */
    return 1;
}

/* q_p proportional to exp(-total_p / eta_g), without underflow of all. */
static void weigh(domkl_paper *device) {
    float least = device->total[0], sum = 0;
    for (int p = 1; p < DOMKL_KERNELS; ++p) least = fminf(least, device->total[p]);
    for (int p = 0; p < DOMKL_KERNELS; ++p)
        sum += device->q[p] = expf((least - device->total[p]) / device->rates.eta_g);
    for (int p = 0; p < DOMKL_KERNELS; ++p) device->q[p] /= sum;
}

void domkl_begin(domkl_paper *device, const float (*V)[DOMKL_FEATURES][DOMKL_INPUTS], domkl_rates rates,
                 int degree) {
    memset(device, 0, sizeof *device);
    device->V = V, device->rates = rates, device->degree = degree;
    weigh(device);
}

domkl_result domkl_predict(domkl_paper *device, const float x[DOMKL_INPUTS], float *y_hat) {
    if (!fits(x, DOMKL_INPUTS)) return DOMKL_NOT_FINITE;
    const float root = 1 / sqrtf((float)DOMKL_FEATURES);
    *y_hat = 0;
    for (int p = 0; p < DOMKL_KERNELS; ++p) {
        float *z = device->z[p];
        for (int r = 0; r < DOMKL_FEATURES; ++r) {
            const float angle = dot(device->V[p][r], x, DOMKL_INPUTS);
            z[r] = root * sinf(angle), z[DOMKL_FEATURES + r] = root * cosf(angle);
        }
        device->f[p] = dot(device->theta[p], z, DOMKL_LENGTH);
        *y_hat += device->q[p] * device->f[p];
    }
    return DOMKL_OK;
}

domkl_result domkl_learn(domkl_paper *device, float y) {
    if (!fits(&y, 1)) return DOMKL_NOT_FINITE;
    const domkl_rates *rates = &device->rates;
    const float n = (float)device->degree, half = rates->rho / 2;
    const float c = rates->eta + rates->rho * n, own = rates->eta + half * n;
    for (int p = 0; p < DOMKL_KERNELS; ++p) {
        float *b = device->next[p];
        const float *z = device->z[p], missed = device->f[p] - y;
        for (int k = 0; k < DOMKL_LENGTH; ++k)
            b[k] = own * device->theta[p][k] + half * device->near[p][k] - device->lam[p][k];
        /* The minimum of (z v - y)^2 + c/2 |v|^2 - b v, where |z| = 1: v = (b - a z) / c. */
        const float a = 2 * (dot(z, b, DOMKL_LENGTH) - c * y) / (c + 2);
        for (int k = 0; k < DOMKL_LENGTH; ++k) b[k] = (b[k] - a * z[k]) / c;
        device->L[p] += missed * missed;
        device->total[p] = device->L[p];
    }
    device->arrived = 0;
    memset(device->sum, 0, sizeof device->sum);
    return DOMKL_OK;
}

const float *domkl_theta(const domkl_paper *device) { return device->next[0]; }
const float *domkl_losses(const domkl_paper *device) { return device->L; }

domkl_result domkl_receive(domkl_paper *device, const float *theta, const float *losses) {
    if (device->arrived == device->degree) return DOMKL_TOO_MANY;
    if (!fits(theta, DOMKL_KERNELS * DOMKL_LENGTH) || !fits(losses, DOMKL_KERNELS)) return DOMKL_NOT_FINITE;
    float *sum = device->sum[0];
    for (int k = 0; k < DOMKL_KERNELS * DOMKL_LENGTH; ++k) sum[k] += theta[k];
    for (int p = 0; p < DOMKL_KERNELS; ++p) device->total[p] += losses[p];
    ++device->arrived;
    return DOMKL_OK;
}

void domkl_close(domkl_paper *device) {
    const float half = device->rates.rho / 2, n = (float)device->arrived;
    const float missing = (float)(device->degree - device->arrived);
    for (int p = 0; p < DOMKL_KERNELS; ++p)
        for (int k = 0; k < DOMKL_LENGTH; ++k) {
            const float theta = device->next[p][k];
            device->lam[p][k] += half * (n * theta - device->sum[p][k]);
            device->near[p][k] = device->sum[p][k] + missing * theta; /* who is missing does not pull */
            device->theta[p][k] = theta;
        }
    weigh(device);
}
