/* ref_gemm.c - C = A x W^T + bias over packed panels of 32 columns, one fmaf() after the other.
 *
 * The canonical order of the "fp32" and "bf16" classes: one accumulator an element from +0, k ascending, bias
 * last. bf16 operands are widened exactly. Panel layouts are described in kern.h; rows of A, and of an input
 * that is written, lie one behind the other as they are.
 */
#include "kern/ref/ref.h"

#include <math.h>
#include <string.h>

#include "tensor/dtype.h"

/* Adds the bias to the sums of panel P and puts the columns that exist where they belong. */
static void end_row(const struct kern_gemm *g, size_t row, size_t p, float sum[KERN_NR], bool bf16)
{
    size_t each = g->end == KERN_GLU ? KERN_PAIRS : KERN_NR, at = p * each,
           n = g->n - at < each ? g->n - at : each;

    for (size_t j = 0; g->bias && j < KERN_NR && (j < n || g->end == KERN_GLU); j++)
        sum[j] = sum[j] + g->bias[p * KERN_NR + j];
    if (g->end == KERN_SUMS) {
        memcpy(g->c + row * g->ldc + at, sum, n * sizeof(*sum));
        return;
    }
    if (g->end == KERN_GLU)
        ref_glu(sum, sum, sum + KERN_PAIRS, n, g->act);
    else
        ref_act(sum, sum, n, g->act);
    if (bf16)
        ref_to_bf16((uint16_t *)g->out + row * g->n + at, sum, n);
    else
        memcpy((float *)g->out + row * g->n + at, sum, n * sizeof(*sum));
}

void ref_gemm_in_f32(void *in, const float *x, size_t row, size_t m, size_t k)
{
    (void)m;
    memcpy((float *)in + row * k, x, k * sizeof(*x));
}

void ref_gemm_in_bf16(void *in, const float *x, size_t row, size_t m, size_t k)
{
    (void)m;
    ref_to_bf16((uint16_t *)in + row * k, x, k);
}

void ref_gemm_f32(const struct kern_gemm *g, size_t p0, size_t p1)
{
    for (size_t p = p0; p < p1; p++) {
        const float *b = (const float *)g->b + (p - g->first) * KERN_NR * g->k;

        for (size_t row = 0; row < g->m; row++) {
            const float *a = (const float *)g->in + row * g->k;
            float acc[KERN_NR] = {0};

            for (size_t k = 0; k < g->k; k++)
                for (size_t j = 0; j < KERN_NR; j++)
                    acc[j] = fmaf(a[k], b[k * KERN_NR + j], acc[j]);
            end_row(g, row, p, acc, false);
        }
    }
}

void ref_gemm_bf16(const struct kern_gemm *g, size_t p0, size_t p1)
{
    size_t pairs = (g->k + 1) / 2;

    for (size_t p = p0; p < p1; p++) {
        const uint16_t *b = (const uint16_t *)g->b + (p - g->first) * KERN_NR * 2 * pairs;

        for (size_t row = 0; row < g->m; row++) {
            const uint16_t *a = (const uint16_t *)g->in + row * g->k;
            float acc[KERN_NR] = {0};

            for (size_t k = 0; k < g->k; k++) {
                const uint16_t *w = b + k / 2 * KERN_NR * 2 + k % 2;
                float x = dtype_bf16_to_f32(a[k]);

                for (size_t j = 0; j < KERN_NR; j++)
                    acc[j] = fmaf(x, dtype_bf16_to_f32(w[2 * j]), acc[j]);
            }
            end_row(g, row, p, acc, true);
        }
    }
}
