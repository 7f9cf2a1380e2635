/* quant.h - the kernels for quantized numbers: gemms over weights of at most 8 bits, rounding of rows to
 * integers, and the Hadamard rotation.
 *
 * The gemms take the arguments of gemm.h. These gemms add integers, which is exact in any order, and turn
 * each sum into a float with one formula, so that all kernels of class "int8 sum" give the same bits.
 */
#ifndef GALLOP_KERN_QUANT_H
#define GALLOP_KERN_QUANT_H

#include <stddef.h>
#include <stdint.h>

#include "kern/gemm.h"
#include "tensor/dtype.h"

enum {
    KERN_I8_TAIL = 2 * KERN_NR * 4, /* bytes after the weights of an int8 panel: 32 sums, 32 scales */
    KERN_I8_MOST_K = 65536,         /* maximum K of gemm_i8: 255 * 127 * K stays below 2^31 */
    KERN_I4_GROUP = 16,             /* elements of a 4-bit row of a KV cache that share a factor */
    KERN_ROTATED = 2048,            /* maximum block of hadamard, in elements; no attention head is longer */
};

/* Returns the bytes of an int8 panel of K rows. */
static inline size_t kern_i8_panel_bytes(size_t k)
{
    return (k + 3) / 4 * 4 * KERN_NR + KERN_I8_TAIL;
}

/* Quantizes X[K], row ROW of the M input rows of a gemm, to int8 and stores it in IN, as gemm_i8 of the same
 * table reads it.
 *
 *   m = FIXED, or the largest |x| if FIXED is 0;  inv = 127 / m
 *   n = rint(x * inv), ties to even, limited to -127 and 127;  scale of the row = m / 127
 *
 * If inv is infinite, all n and the scale are 0. If an element is NaN or infinite, the scale is NaN. */
typedef void kern_gemm_in_i8_fn(void *in, const float *x, size_t row, size_t m, size_t k, float fixed);

/* Computes the panels [p0, p1) of G with weights in int8 and one scale for each column:
 *
 *   y = (float)(sum of n * weight) * (scale of the row * scale of the column), then the bias is added
 *
 * A panel consists of:
 *   int8 [(K + 3) / 4][32][4]  the weights, in fours along K, padded with zeros; |weight| <= 127
 *   int32 [32]                 -128 times the sum of each column's weights, for kernels that multiply unsigned
 *                              bytes n + 128
 *   float [32]                 the scale of each column. K <= KERN_I8_MOST_K */
typedef void kern_gemm_i8_fn(const struct kern_gemm *g, size_t p0, size_t p1);

/* Computes gemm_i8 with 4-bit weights, which are packed as format/int4.h defines in quantization groups of
 * GROUP weights along K, 32 or 128. K is a multiple of 32. SCRATCH has room for an int8 panel, aligned to
 * 64. */
typedef void kern_gemm_i4_fn(const struct kern_gemm *g, size_t group, size_t p0, size_t p1, void *scratch);

/* Computes gemm_f32 with weights in MXFP4, which are packed as format/mx4.h defines. The input A is stored by
 * gemm_in_f32. K is a multiple of 32.
 *
 *   weight = FP4[nibble] * 2^(scale - 127);  FP4 = 0, 0.5, 1, 1.5, 2, 3, 4, 6, then the same numbers negated
 *
 * Each weight is exact in fp32 and in bf16. No packed weight may reach 2^128, and no scale may be 255, which
 * is NaN (OCP Microscaling Formats 1.0). SCRATCH has room for one panel of gemm_f32, aligned to 64 bytes. */
typedef void kern_gemm_mx4_f32_fn(const struct kern_gemm *g, size_t p0, size_t p1, void *scratch);

/* Computes gemm_bf16 with weights in MXFP4, as kern_gemm_mx4_f32_fn describes. The input A is stored by
 * gemm_in_bf16. SCRATCH has room for one panel of gemm_bf16, aligned to 64 bytes. */
typedef void kern_gemm_mx4_bf16_fn(const struct kern_gemm *g, size_t p0, size_t p1, void *scratch);

/* Quantizes X[K], row ROW of the M input rows of a gemm, to int8 with one scale for each 32 elements, by the
 * formulas of kern_gemm_in_i8_fn with the largest |x| of the 32 as m. Stores it in IN in the layout of
 * format/groups.h. K is a multiple of 32. */
typedef void kern_gemm_in_blocks_fn(void *in, const float *x, size_t row, size_t m, size_t k);

/* Computes the panels [p0, p1) of G with weights in the quantized format T, packed as format/groups.h
 * defines: integer values with a scale d (in some formats also a minimum) for each group of 32 or 16 weights.
 * In the formulas, n are the int8 elements of a row of A in one group, scale is their scale, and zero is the
 * format's zero point. Each sum y starts at +0 and adds the groups in ascending order:
 *
 *   y = fma((float)(sum of n * (value - zero)) * d, scale, y)     formats whose d is a power of two
 *   y = fma((float)(sum of n * (value - zero)), d * scale, y)     all other formats
 *   y = fma(min, scale * (float)(sum of n), y)                    after that, formats with a minimum
 *
 * In formats that store an integer factor for each group, d and min are an fp16 number times that factor,
 * which is exact in fp32. */
typedef void kern_gemm_blocks_fn(const struct kern_gemm *g, enum dtype t, size_t p0, size_t p1);

/* Quantizes X to int8 with one scale.
 *
 *   m = the largest |x|, NaNs ignored, 0 if all elements are NaN;  inv = 127 / m
 *   scale = m / 127;  y = x * inv;  y = 127 unless y < 127 (also for NaN);  y = -127 unless y > -127
 *   out = y rounded to the nearest integer, ties to even
 *
 * If inv is infinite (m is 0 or below about 2^-121), the scale and OUT are 0. If an element is infinite, so
 * is the scale. */
typedef void kern_to_i8_fn(int8_t *out, float *scale, const float *x, size_t n);

/* Quantizes X to 4 bits with a scale for the row and a factor for each group of 16; the row is padded with
 * zeros to whole groups. CODE has one element for each number, including the padding, and FACTOR one for each
 * group; the elements of both are from 0 to 15.
 *
 *   m as in kern_to_i8_fn;  scale = bf16(m / 112);  z = x * (1 / scale)
 *
 * If 1 / scale is infinite, the scale and all z are 0. In each group, t is the smallest integer from 1 to 16
 * with 7 t >= the largest |z| (NaNs ignored), or 16 if there is none. For each f from t - 4 (at least 1) to
 * t:
 *
 *   y = z * (1 / f);  y = 7 unless y < 7;  y = -8 unless y > -8;  c = y rounded, ties to even
 *   error(f) = the 16-lane sum of (z - c * f)^2
 *
 * The factor is the f with the least error, the smallest f among equals, t if all errors are NaN. CODE is c +
 * 8, FACTOR is f - 1. */
typedef void kern_to_i4_fn(uint8_t *code, uint8_t *factor, uint16_t *scale, const float *x, size_t n);

/* Rotates X[N] in place by the normalized Hadamard matrix, in blocks whose size is the largest power of two
 * that divides N, at most KERN_ROTATED:
 *
 *   for half = 1, 2, 4, ...:  (x[j], x[j + half]) = (x[j] + x[j + half], x[j] - x[j + half])
 *   x = x * (1 / sqrtf(block))
 *
 * Rotating two rows does not change their dot product. The rotation spreads a few large elements over
 * the whole block; without it they would determine the row's scale and cost the other elements their
 * precision. The rotation is its own inverse. QuaRot, Ashkboos et al. 2024. */
typedef void kern_hadamard_fn(float *x, size_t n);

#endif
