/* ref_gemm.c - C = A x W^T + bias over packed panels of 32 columns, one fmaf() after the other.
 *
 * The kernels define the canonical order of the classes "fp32" and "bf16": one accumulator for each element,
 * from +0, k ascending, bias last. bf16 operands are widened exactly. The layouts of panels are in gemm.h. An
 * input A, and the input that an epilogue writes, is a row-major array [M, K] of fp32 or bf16.
 */
#include "kern/ref/ref.h"

#include <math.h>
#include <string.h>

#include "kern/kmath.h"
#include "tensor/dtype.h"

void ref_gemm_end_row(const struct kern_gemm *g, size_t row, size_t p, float sum[KERN_NR], bool bf16)
{
    size_t each = g->end == KERN_GLU ? KERN_PAIRS : KERN_NR, at = p * each,
           n = g->n - at < each ? g->n - at : each;

    for (size_t j = 0; g->bias && j < KERN_NR && (j < n || g->end == KERN_GLU); j++)
        sum[j] = sum[j] + g->bias[p * KERN_NR + j];
    if (g->end == KERN_GLU)
        ref_glu(sum, sum, sum + KERN_PAIRS, n, g->act);
    else if (g->end == KERN_ACT)
        ref_act(sum, sum, n, g->act);
    if (g->c)
        memcpy(g->c + row * g->ldc + at, sum, n * sizeof(*sum));
    else if (bf16)
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

/* Sets the accumulators of a row of panel P to their start: zeros, or the content of C if g->onto. */
static void begin_row(const struct kern_gemm *g, size_t row, size_t p, float acc[KERN_NR])
{
    for (size_t j = 0, at = p * KERN_NR; j < KERN_NR; j++, at++)
        acc[j] = g->onto && at < g->n ? g->c[row * g->ldc + at] : 0;
}

void ref_gemm_f32(const struct kern_gemm *g, size_t p0, size_t p1)
{
    size_t r0, r1;

    kern_gemm_share(g, g->m, &r0, &r1);
    for (size_t p = p0; p < p1; p++) {
        const float *b = (const float *)g->b + (p - g->first) * KERN_NR * kern_gemm_panel_k(g);

        for (size_t row = r0; row < r1; row++) {
            const float *a = (const float *)g->in + row * g->k;
            float acc[KERN_NR];

            begin_row(g, row, p, acc);
            for (size_t k = 0; k < g->k; k++)
                for (size_t j = 0; j < KERN_NR; j++)
                    acc[j] = fmaf(a[k], b[k * KERN_NR + j], acc[j]);
            ref_gemm_end_row(g, row, p, acc, false);
        }
    }
}

void ref_gemm_bf16(const struct kern_gemm *g, size_t p0, size_t p1)
{
    size_t pairs = (kern_gemm_panel_k(g) + 1) / 2, r0, r1;

    kern_gemm_share(g, g->m, &r0, &r1);
    for (size_t p = p0; p < p1; p++) {
        const uint16_t *b = (const uint16_t *)g->b + (p - g->first) * KERN_NR * 2 * pairs;

        for (size_t row = r0; row < r1; row++) {
            const uint16_t *a = (const uint16_t *)g->in + row * g->k;
            float acc[KERN_NR];

            begin_row(g, row, p, acc);
            for (size_t k = 0; k < g->k; k++) {
                const uint16_t *w = b + k / 2 * KERN_NR * 2 + k % 2;
                float x = dtype_bf16_to_f32(a[k]);

                for (size_t j = 0; j < KERN_NR; j++)
                    acc[j] = fmaf(x, dtype_bf16_to_f32(w[2 * j]), acc[j]);
            }
            ref_gemm_end_row(g, row, p, acc, true);
        }
    }
}

/* Returns the offset of the scale in a row of an int8 input. The integers come before it. */
static size_t scale_at(size_t k)
{
    return (k + 3) / 4 * 4;
}

void ref_gemm_in_i8(void *in, const float *x, size_t row, size_t m, size_t k, float fixed)
{
    int8_t *n = (int8_t *)in + row * kern_in_bytes(k);
    uint32_t largest = 0, bits;
    float scale, inv;

    (void)m;
    for (size_t i = 0; i < k; i++) {
        memcpy(&bits, &x[i], sizeof(bits));
        bits &= 0x7fffffff;
        largest = bits > largest ? bits : largest;
    }
    inv = kmath_i8_inv(kmath_i8_largest(largest, fixed), &scale);
    for (size_t i = 0; i < k; i++)
        n[i] = inv > 0 ? (int8_t)rintf(fminf(fmaxf(x[i] * inv, -127), 127)) : 0;
    memcpy(n + scale_at(k), &scale, sizeof(scale));
}

void ref_gemm_i8(const struct kern_gemm *g, size_t p0, size_t p1)
{
    size_t r0, r1;

    kern_gemm_share(g, g->m, &r0, &r1);
    for (size_t p = p0; p < p1; p++) {
        const int8_t *b = (const int8_t *)g->b + (p - g->first) * kern_i8_panel_bytes(g->k);
        const float *column =
            (const float *)(const void *)(b + kern_i8_panel_bytes(g->k) - KERN_NR * sizeof(float));

        for (size_t row = r0; row < r1; row++) {
            const int8_t *a = (const int8_t *)g->in + row * kern_in_bytes(g->k);
            int32_t sum[KERN_NR] = {0};
            float y[KERN_NR], scale;

            for (size_t k = 0; k < g->k; k++)
                for (size_t j = 0; j < KERN_NR; j++)
                    sum[j] += a[k] * b[k / 4 * 4 * KERN_NR + 4 * j + k % 4];
            memcpy(&scale, a + scale_at(g->k), sizeof(scale));
            for (size_t j = 0; j < KERN_NR; j++)
                y[j] = (float)sum[j] * (scale * column[j]);
            ref_gemm_end_row(g, row, p, y, false);
        }
    }
}
