/* quant.h - the kernels for quantized numbers: gemms over weights of 8 bits and fewer, rounding of rows to
 * integers, and the Hadamard rotation.
 *
 * The gemms take the arguments of gemm.h. Their sums are sums of integers, which are exact in any order;
 * one formula turns each into a float, so that all rows of class "int8 sum" give the same bits.
 */
#ifndef GALLOP_KERN_QUANT_H
#define GALLOP_KERN_QUANT_H

#include <stddef.h>
#include <stdint.h>

#include "kern/gemm.h"
#include "tensor/dtype.h"

enum {
    KERN_I8_TAIL = 2 * KERN_NR * 4, /* bytes after the weights of an int8 panel */
    KERN_I8_MOST_K = 65536,         /* maximum K of gemm_i8: 255 * 127 * K stays below 2^31 */
    KERN_I4_GROUP = 16,             /* elements of a 4-bit row of a KV cache that share a factor */
    KERN_ROTATED = 2048,            /* maximum block of hadamard; no attention head is longer */
};

/* Returns the bytes of an int8 panel. */
static inline size_t kern_i8_panel_bytes(size_t k)
{
    return (k + 3) / 4 * 4 * KERN_NR + KERN_I8_TAIL;
}

/* Quantizes X[K], row ROW of the M rows of a gemm, to int8 and puts it to its place in IN.
 *
 *   m = the largest |x|, or FIXED if that is not 0;  inv = 127 / m
 *   n = rint(x * inv), ties to even, limited to -127 and 127;  scale of the row = m / 127
 *
 * If INV is infinite, N and the scale are 0. If an element is NaN or infinite, the scale is NaN. */
typedef void kern_gemm_in_i8_fn(void *in, const float *x, size_t row, size_t m, size_t k, float fixed);

/* Computes the panels [p0, p1) of G with weights in int8, one scale a column:
 *
 *   y = (float)(sum of n * weight) * (scale of the row * scale of the column), then the bias is added
 *
 * A panel is {[(K + 3) / 4][32][4] int8; [32] int32; [32] float}: the weights in fours along K, padded with
 * zeros; -128 times the sum of each column's weights, for kernels that multiply unsigned bytes n + 128; the
 * scale of each column. |weight| <= 127, K <= KERN_I8_MOST_K. */
typedef void kern_gemm_i8_fn(const struct kern_gemm *g, size_t p0, size_t p1);

/* Computes gemm_i8 with weights in 4 bits, packed as int4.h defines in quantization groups of GROUP weights
 * along K, 32 or 128. K is a multiple of 32. SCRATCH: one int8 panel, aligned to 64. */
typedef void kern_gemm_i4_fn(const struct kern_gemm *g, size_t group, size_t p0, size_t p1, void *scratch);

/* Computes gemm_f32 with weights in MXFP4, packed as mx4.h defines. gemm_in_f32 has put A to its place. K is
 * a multiple of 32.
 *
 *   weight = FP4[nibble] * 2^(scale - 127);  FP4 = 0, 0.5, 1, 1.5, 2, 3, 4, 6, then the same ones negated
 *
 * The weight is exact in fp32 and in bf16. The packed weights must not contain a scale with which a weight
 * reaches 2^128, nor the scale 255, which is NaN (OCP Microscaling Formats 1.0). SCRATCH: one panel of
 * gemm_f32, aligned to 64. */
typedef void kern_gemm_mx4_f32_fn(const struct kern_gemm *g, size_t p0, size_t p1, void *scratch);

/* Computes gemm_bf16 with weights in MXFP4; see kern_gemm_mx4_f32_fn. gemm_in_bf16 has put A to its place.
 * SCRATCH: one panel of gemm_bf16, aligned to 64. */
typedef void kern_gemm_mx4_bf16_fn(const struct kern_gemm *g, size_t p0, size_t p1, void *scratch);

/* Quantizes X[K] like kern_gemm_in_i8_fn, but with one scale for each 32 elements, and puts it to its place
 * in IN, which groups.h defines. K is a multiple of 32. */
typedef void kern_gemm_in_blocks_fn(void *in, const float *x, size_t row, size_t m, size_t k);

/* Computes the panels [p0, p1) of G with weights in the quantized format T, packed as groups.h defines: integer
 * values with a scale d for each group of 32 (or 16) weights. Each sum starts at +0 and takes the groups in
 * ascending order:
 *
 *   y = fma((float)(sum of n * (value - zero)), d * scale, y)
 *   y = fma(min, scale * (float)(sum of n), y)                  after it, for forms with a minimum
 *   y = fma((float)(sum of n * (value - zero)) * d, scale, y)   instead, for forms whose d is a power of two
 *
 * SCALE is the scale of the group in the row of A. The product of a half and a multiple is exact. */
typedef void kern_gemm_blocks_fn(const struct kern_gemm *g, enum dtype t, size_t p0, size_t p1);

/* Quantizes X to int8 with one scale.
 *
 *   m = the largest |x|, NaNs ignored, 0 if no number exists;  inv = 127 / m
 *   scale = m / 127;  y = x * inv;  y = 127 unless y < 127 (also for NaN);  y = -127 unless y > -127
 *   out = y rounded to the nearest integer, ties to even
 *
 * If INV is infinite (M is 0 or below about 2^-121), the scale and OUT are 0. If an element is infinite, so
 * is the scale. */
typedef void kern_to_i8_fn(int8_t *out, float *scale, const float *x, size_t n);

/* Quantizes X to 4 bits with a scale for the row and a factor for each group of 16; the row is padded with
 * zeros to whole groups. CODE has n rounded up to groups elements from 0 to 15, FACTOR one element a group
 * from 0 to 15.
 *
 *   m as in kern_to_i8_fn;  scale = bf16(m / 112);  z = x * (1 / scale)
 *
 * If 1 / scale is infinite, the scale and all z are 0. In each group, t is the first of 1 to 16 with 7 t >=
 * the largest |z| (NaNs ignored), or 16. For each f from t - 4 (at least 1) to t:
 *
 *   y = z * (1 / f);  y = 7 unless y < 7;  y = -8 unless y > -8;  c = y rounded, ties to even
 *   error(f) = the 16-lane sum of (z - c * f)^2
 *
 * The f with the smallest error is taken, the smallest f among equals, t if all errors are NaN. CODE is c +
 * 8, FACTOR is f - 1. */
typedef void kern_to_i4_fn(uint8_t *code, uint8_t *factor, uint16_t *scale, const float *x, size_t n);

/* Rotates X[N] in place by the normalized Hadamard matrix, in blocks of the largest power of two that divides
 * N, at most KERN_ROTATED:
 *
 *   for half = 1, 2, 4, ...:  (x[j], x[j + half]) = (x[j] + x[j + half], x[j] - x[j + half])
 *   x = x * (1 / sqrtf(block))
 *
 * Dot products of two rotated rows keep their value, while a few large elements, which would cost the others
 * their precision in a row with one scale, are spread over all elements. The rotation is its own inverse.
 * QuaRot, Ashkboos et al. 2024. */
typedef void kern_hadamard_fn(float *x, size_t n);

#endif
