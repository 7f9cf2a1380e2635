/* ref_norm.c - RMS and layer normalisation of one row of fp32, after adding the residual.
 *
 * Sums are 16-lane sums (kern.h): lane i adds the elements i, i + 16, ..., then the lanes are folded. Square
 * root and divisions are IEEE. Papers: Zhang and Sennrich 2019 (RMSNorm); Ba, Kiros, Hinton 2016 (LayerNorm).
 */
#include "kern/ref/ref.h"

#include <math.h>

void ref_rms_norm(float *out, float *x, const float *r, const float *w, size_t n, float eps)
{
    float lane[REF_LANES] = {0}, inv;

    for (size_t i = 0; i < n; i++) {
        if (r)
            x[i] = x[i] + r[i];
        lane[i % REF_LANES] = fmaf(x[i], x[i], lane[i % REF_LANES]);
    }
    inv = 1.0f / sqrtf(ref_fold(lane) / (float)n + eps);
    for (size_t i = 0; i < n; i++) {
        float y = x[i] * inv;

        out[i] = w ? w[i] * y : y;
    }
}

void ref_layer_norm(float *out, float *x, const float *r, const float *w, const float *b, size_t n, float eps)
{
    float lane[REF_LANES] = {0}, square[REF_LANES] = {0}, mean, inv;

    for (size_t i = 0; i < n; i++) {
        if (r)
            x[i] = x[i] + r[i];
        lane[i % REF_LANES] += x[i];
    }
    mean = ref_fold(lane) / (float)n;
    for (size_t i = 0; i < n; i++) {
        float d = x[i] - mean;

        square[i % REF_LANES] = fmaf(d, d, square[i % REF_LANES]);
    }
    inv = 1.0f / sqrtf(ref_fold(square) / (float)n + eps);
    for (size_t i = 0; i < n; i++)
        out[i] = fmaf((x[i] - mean) * inv, w ? w[i] : 1.0f, b ? b[i] : 0.0f);
}
