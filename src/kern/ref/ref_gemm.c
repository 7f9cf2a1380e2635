/* ref_gemm.c - C = A x W^T + bias over packed panels of 32 columns, one fmaf() after the other.
 *
 * The canonical order of the "fp32" and "bf16" classes: one accumulator an element from +0, k ascending, bias
 * last. bf16 operands are widened exactly. Panel layouts are described in kern.h; rows of A lie one behind
 * the other as they are.
 */
#include "kern/ref/ref.h"

#include <math.h>
#include <string.h>

#include "tensor/dtype.h"

/* Adds the bias and writes the columns of panel P that exist. */
static void store_row(const struct kern_gemm *g, size_t row, size_t p, const float acc[KERN_NR])
{
    size_t first = p * KERN_NR, n = g->n - first < KERN_NR ? g->n - first : KERN_NR;
    float *c = g->c + row * g->ldc + first;

    for (size_t j = 0; j < n; j++)
        c[j] = g->bias ? acc[j] + g->bias[first + j] : acc[j];
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
        const float *b = (const float *)g->b + p * KERN_NR * g->k;

        for (size_t row = 0; row < g->m; row++) {
            const float *a = (const float *)g->in + row * g->k;
            float acc[KERN_NR] = {0};

            for (size_t k = 0; k < g->k; k++)
                for (size_t j = 0; j < KERN_NR; j++)
                    acc[j] = fmaf(a[k], b[k * KERN_NR + j], acc[j]);
            store_row(g, row, p, acc);
        }
    }
}

void ref_gemm_bf16(const struct kern_gemm *g, size_t p0, size_t p1)
{
    size_t pairs = (g->k + 1) / 2;

    for (size_t p = p0; p < p1; p++) {
        const uint16_t *b = (const uint16_t *)g->b + p * KERN_NR * 2 * pairs;

        for (size_t row = 0; row < g->m; row++) {
            const uint16_t *a = (const uint16_t *)g->in + row * g->k;
            float acc[KERN_NR] = {0};

            for (size_t k = 0; k < g->k; k++) {
                const uint16_t *w = b + k / 2 * KERN_NR * 2 + k % 2;
                float x = dtype_bf16_to_f32(a[k]);

                for (size_t j = 0; j < KERN_NR; j++)
                    acc[j] = fmaf(x, dtype_bf16_to_f32(w[2 * j]), acc[j]);
            }
            store_row(g, row, p, acc);
        }
    }
}
