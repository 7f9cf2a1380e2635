/* vector.h - the kernels that work on one vector: norms, activations, RoPE, rounding and reductions.
 *
 * Each typedef is the type of one kernel and of its field in struct kern (kern.h). Vectors need no alignment
 * and may have any length. OUT may be the same memory as the input. kern.h defines 16-lane sums; exp, tanh
 * and erf are those of kmath.h.
 */
#ifndef GALLOP_KERN_VECTOR_H
#define GALLOP_KERN_VECTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum kern_act { KERN_SILU, KERN_GELU_TANH, KERN_GELU_ERF, KERN_GELU_QUICK, KERN_RELU, KERN_N_ACTS };

/* If R is not NULL, adds it to X first and stores the sum in X.
 *
 *   out = w * (x * (1 / sqrtf(sum(x^2) / n + eps)))
 *
 * The sum is a 16-lane sum with fma(x, x, s). If W is NULL, w is 1. */
typedef void kern_rms_norm_fn(float *out, float *x, const float *r, const float *w, size_t n, float eps);

/* If R is not NULL, adds it to X first and stores the sum in X.
 *
 *   mean = sum(x) / n;  var = sum((x - mean)^2) / n;  inv = 1 / sqrtf(var + eps)
 *   out = fma((x - mean) * inv, w, b)
 *
 * Both sums are 16-lane sums; the sum of squares uses fma. If W is NULL, w is 1; if B is NULL, b is 0. */
typedef void kern_layer_norm_fn(float *out, float *x, const float *r, const float *w, const float *b,
                                size_t n, float eps);

/* Computes x = x + r. */
typedef void kern_add_fn(float *x, const float *r, size_t n);

/* Computes x = x * a. */
typedef void kern_scale_fn(float *x, float a, size_t n);

/* Computes y = fma(a, x, y). */
typedef void kern_scale_add_fn(float *y, const float *x, float a, size_t n);

/* Applies RoPE to the pairs (x1, x2) = (x[i], x[i + half]):
 *
 *   x1' = fma(-x2, sin[i], x1 * cos[i]);  x2' = fma(x1, sin[i], x2 * cos[i])
 *
 * X has 2 * HALF elements, COS and SIN have HALF. */
typedef void kern_rope_half_fn(float *x, const float *cos, const float *sin, size_t half);

/* Applies the formula of kern_rope_half_fn to the pairs (x[2 i], x[2 i + 1]). */
typedef void kern_rope_pair_fn(float *x, const float *cos, const float *sin, size_t half);

/* Computes out = f(x). The gemm epilogue KERN_ACT gives the same bits. */
typedef void kern_act_fn(float *out, const float *x, size_t n, enum kern_act f);

/* Computes out = f(gate) * up. The gemm epilogue KERN_GLU gives the same bits. */
typedef void kern_glu_fn(float *out, const float *gate, const float *up, size_t n, enum kern_act f);

/* Computes x = cap * tanh(x / cap). */
typedef void kern_softcap_fn(float *x, float cap, size_t n);

/* Rounds X[N] to bf16, to nearest, ties to even. */
typedef void kern_to_bf16_fn(uint16_t *out, const float *x, size_t n);

/* Returns the index of the largest element, the lowest index among equals; -0 equals 0. A NaN is below every
 * number. If all elements are NaN the result is 0. N is at least 1. */
typedef size_t kern_argmax_fn(const float *x, size_t n);

/* Draws an index with probability exp(x[i]) / sum(exp(x)), by the Gumbel-max trick: returns the index of the
 * largest x[i] + kmath_gumbel(kmath_noise(id[i], key)), the lowest index among equals. If ID is NULL, id[i] is
 * i. An element that is -infinity or NaN is never drawn; if all elements are, the result is 0. N is at least 1
 * and at most INT32_MAX. */
typedef size_t kern_gumbel_argmax_fn(const float *x, size_t n, const int32_t *id, const uint32_t key[2]);

/* Returns the largest element plus +0. NaNs are ignored; without any number the result is -infinity. */
typedef float kern_max_fn(const float *x, size_t n);

/* Returns the 16-lane sum of exp(x - max). */
typedef float kern_exp_sum_fn(const float *x, size_t n, float max);

/* Returns the 16-lane sum of exp(d) d for d = x - max. Where exp(d) is 0, d does not count, even if it is
 * -infinity. */
typedef float kern_exp_dot_fn(const float *x, size_t n, float max);

#endif
