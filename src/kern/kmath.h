/* kmath.h - exp, tanh, erf and the activations: the one sequence of fp32 operations that every kernel
 * performs.
 *
 * The kernels of ref/ run the functions below. A vector kernel repeats them operation by operation: the same
 * constants, an fma where the source has fmaf(), the same order of operands in the comparisons (the order
 * decides what happens to NaN), IEEE division. Then all kernels agree bit for bit on every input, except for
 * NaN payloads. Where a function below branches on a value, a vector kernel computes both sides and blends
 * them. `a < b ? a : b` is MINPS(a, b) and `a > b ? a : b` is MAXPS(a, b): both give b when either operand is
 * NaN.
 *
 * Errors against double precision (test_kmath.c): exp within 2 ulp, exp2 within 3 ulp, tanh within 4 ulp, erf
 * within 2e-7. Range reduction is that of Cody and Waite; the polynomials are weighted minimax fits over the
 * reduced ranges.
 */
#ifndef GALLOP_KERN_KMATH_H
#define GALLOP_KERN_KMATH_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "kern/quant.h"
#include "kern/vector.h"

/* Range reduction writes x = n ln 2 + r with an integer n. Adding KMATH_MAGIC rounds x log2 e to n, ties to
 * even, and leaves n + 126 in the low bits of the sum. Those bits shifted left by 23 are the float 2^(n - 1)
 * for -125 <= n <= 128, and +0 for n = -126. */
#define KMATH_LOG2E   0x1.715476p+0f
#define KMATH_MAGIC   12583038.0f        /* 1.5 * 2^23 + 126 */
#define KMATH_LN2_HI  0.693145751953125f /* 15 significant bits, so that n times it is exact */
#define KMATH_LN2_LO  0x1.7f7d1cp-20f
#define KMATH_EXP_MAX 89.0f  /* n = 128: the product overflows to infinity, as it should */
#define KMATH_EXP_MIN -87.0f /* n = -126: the result is zero */

/* exp(r) = 1 + r + r^2 (C2 + C3 r + C4 r^2 + C5 r^3 + C6 r^4) for |r| <= 0.3475, relative error 3.2e-9. */
#define KMATH_EXP_C2 0.49999994f
#define KMATH_EXP_C3 0.16666521f
#define KMATH_EXP_C4 0.041668292f
#define KMATH_EXP_C5 0.008368716f
#define KMATH_EXP_C6 0.0013818699f

/* 2^r = 1 + r (D1 + D2 r + D3 r^2 + D4 r^3 + D5 r^4) for |r| <= 0.5, relative error 9.2e-8. */
#define KMATH_EXP2_MIN -125.0f
#define KMATH_EXP2_D1  0.693147f
#define KMATH_EXP2_D2  0.24022242f
#define KMATH_EXP2_D3  0.055507336f
#define KMATH_EXP2_D4  0.009671513f
#define KMATH_EXP2_D5  0.0013264727f

#define KMATH_TANH_MAX 20.0f /* tanh(10) rounds to 1 */

/* erf(x) = x (S0 + S1 x^2 + ...) for |x| < 1, error 6e-8; erf(x) = 1 - exp(L0 + L1 x + ...) for 1 <= x <= 4,
 * error 2e-8. */
#define KMATH_ERF_SPLIT 1.0f
#define KMATH_ERF_MAX   4.0f /* erf(4) rounds to 1 */
#define KMATH_ERF_S0    1.1283791f
#define KMATH_ERF_S1    -0.37612227f
#define KMATH_ERF_S2    0.11279247f
#define KMATH_ERF_S3    -0.026681757f
#define KMATH_ERF_S4    0.004880245f
#define KMATH_ERF_S5    -0.0005469445f
#define KMATH_ERF_L0    -0.0026717798f
#define KMATH_ERF_L1    -1.1174382f
#define KMATH_ERF_L2    -0.65448934f
#define KMATH_ERF_L3    -0.08863393f
#define KMATH_ERF_L4    0.014778057f
#define KMATH_ERF_L5    -0.001150418f

/* log(1 + f) = f + f^2 (-1/2 + f (L0 + L1 f + ... + L7 f^7)) for -0.2929 <= f <= 0.4143, error 0.8 ulp. */
#define KMATH_LOG_SPLIT 0x3f3504f3u /* the bits of sqrt(1/2): log() reduces to [sqrt(1/2), sqrt(2)) */
#define KMATH_LOG_L0    0.3333333f
#define KMATH_LOG_L1    -0.25000823f
#define KMATH_LOG_L2    0.20001227f
#define KMATH_LOG_L3    -0.16623352f
#define KMATH_LOG_L4    0.14201748f
#define KMATH_LOG_L5    -0.1316022f
#define KMATH_LOG_L6    0.12761673f
#define KMATH_LOG_L7    -0.07634518f

/* The integer hash of kmath_noise(): two rounds of two multiplications and three shifts each. */
#define KMATH_NOISE_1 0x7feb352du
#define KMATH_NOISE_2 0x846ca68bu

#define KMATH_GUMBEL_SMALL 0.2928f /* below it, log(1 - t) is computed from t, because 1 - t is rounded */
#define KMATH_GUMBEL_MAX   23.0f   /* above the largest value of kmath_gumbel(), which is 22.87 */

#define KMATH_GELU_CUBIC 0.044715f
#define KMATH_GELU_TANH  -1.5957691f /* -2 sqrt(2 / pi) */
#define KMATH_GELU_QUICK -1.702f
#define KMATH_SQRT_HALF  0.70710678f

static inline float kmath_of_bits(uint32_t u)
{
    float f;

    memcpy(&f, &u, 4);
    return f;
}

static inline uint32_t kmath_bits(float f)
{
    uint32_t u;

    memcpy(&u, &f, 4);
    return u;
}

/* Writes x in [KMATH_EXP_MIN, KMATH_EXP_MAX], or NaN, as n ln 2 + r. Sets *r; returns 2^(n - 1) (n = -126:
 * 0). */
static inline float kmath_reduce(float x, float *r)
{
    float t = fmaf(x, KMATH_LOG2E, KMATH_MAGIC);
    float n = t - KMATH_MAGIC;

    *r = fmaf(-n, KMATH_LN2_LO, fmaf(-n, KMATH_LN2_HI, x));
    return kmath_of_bits(kmath_bits(t) << 23);
}

/* Returns exp(x): exactly +0 below -86.99 (-125.5 ln 2), so that no result is subnormal; +infinity above
 * 88.7228; NaN for NaN. */
static inline float kmath_exp(float x)
{
    float half, p, r;

    x = KMATH_EXP_MAX < x ? KMATH_EXP_MAX : x;
    x = KMATH_EXP_MIN > x ? KMATH_EXP_MIN : x;
    half = kmath_reduce(x, &r);
    p = fmaf(2 * KMATH_EXP_C6, r, 2 * KMATH_EXP_C5);
    p = fmaf(p, r, 2 * KMATH_EXP_C4);
    p = fmaf(p, r, 2 * KMATH_EXP_C3);
    p = fmaf(p, r, 2 * KMATH_EXP_C2);
    p = fmaf(p, r, 2.0f);
    p = fmaf(p, r, 2.0f);
    return p * half;
}

/* Returns 2^x for x up to 127, 2^-125 for all x below -125, NaN for NaN. Attention uses exp2 for its weights,
 * because exp needs five multiplications more on the execution ports of the dot products. */
static inline float kmath_exp2(float x)
{
    float n, p, r;

    x = KMATH_EXP2_MIN > x ? KMATH_EXP2_MIN : x;
    n = rintf(x);
    r = x - n;
    p = fmaf(KMATH_EXP2_D5, r, KMATH_EXP2_D4);
    p = fmaf(p, r, KMATH_EXP2_D3);
    p = fmaf(p, r, KMATH_EXP2_D2);
    p = fmaf(p, r, KMATH_EXP2_D1);
    p = fmaf(p, r, 1.0f);
    return isnan(x) ? x : kmath_of_bits(kmath_bits(p) + ((uint32_t)(int32_t)n << 23));
}

/* Returns log(1 + f) for -0.2929 <= f <= 0.4143. */
static inline float kmath_log1p(float f)
{
    float p = fmaf(KMATH_LOG_L7, f, KMATH_LOG_L6);

    p = fmaf(p, f, KMATH_LOG_L5);
    p = fmaf(p, f, KMATH_LOG_L4);
    p = fmaf(p, f, KMATH_LOG_L3);
    p = fmaf(p, f, KMATH_LOG_L2);
    p = fmaf(p, f, KMATH_LOG_L1);
    p = fmaf(p, f, KMATH_LOG_L0);
    return fmaf(f * f, fmaf(p, f, -0.5f), f);
}

/* Splits x = m 2^n, positive and normal: returns m - 1 for m in [sqrt(1/2), sqrt(2)) and sets *n. */
static inline float kmath_split(float x, float *n)
{
    int32_t e = (int32_t)(kmath_bits(x) - KMATH_LOG_SPLIT) >> 23;

    *n = (float)e;
    return kmath_of_bits(kmath_bits(x) - ((uint32_t)e << 23)) - 1.0f;
}

/* Returns log(m 2^n) for f = m - 1. */
static inline float kmath_join(float f, float n)
{
    return fmaf(n, KMATH_LN2_HI, fmaf(n, KMATH_LN2_LO, kmath_log1p(f)));
}

/* Returns log(x) for a positive normal x. */
static inline float kmath_log(float x)
{
    float n, f = kmath_split(x, &n);

    return kmath_join(f, n);
}

/* Returns 32 random bits for token ID. KEY [2] belongs to the row of logits (rng_key()). */
static inline uint32_t kmath_noise(uint32_t id, const uint32_t key[2])
{
    uint32_t x = id ^ key[0];

    for (int round = 0; round < 2; round++) {
        x ^= x >> 16;
        x *= KMATH_NOISE_1;
        x ^= x >> 15;
        x *= KMATH_NOISE_2;
        x ^= x >> 16;
        x += round == 0 ? key[1] : 0;
    }
    return x;
}

/* Returns the Gumbel noise -log(-log(1 - t)) for t = (BITS + 1/2) / 2^32. A large result belongs to a small t,
 * so that its precision does not suffer from 1 - t. */
static inline float kmath_gumbel(uint32_t bits)
{
    float t = ((float)bits + 0.5f) * 0x1p-32f, rest = ((float)~bits + 0.5f) * 0x1p-32f, n;
    float f = kmath_split(rest, &n);
    bool small = t < KMATH_GUMBEL_SMALL;

    return -kmath_log(-kmath_join(small ? -t : f, small ? 0.0f : n));
}

/* Returns tanh(x): e / (e + 2) with the sign of x, e = exp(2 |x|) - 1 = s q + (s - 1), s = 2^n, q = exp(r) -
 * 1. */
static inline float kmath_tanh(float x)
{
    float z, s, q, e, p, r;

    z = fabsf(x);
    z = z + z;
    z = KMATH_TANH_MAX < z ? KMATH_TANH_MAX : z;
    s = kmath_reduce(z, &r);
    s = s + s;
    p = fmaf(KMATH_EXP_C6, r, KMATH_EXP_C5);
    p = fmaf(p, r, KMATH_EXP_C4);
    p = fmaf(p, r, KMATH_EXP_C3);
    p = fmaf(p, r, KMATH_EXP_C2);
    q = fmaf(p, r * r, r);
    e = fmaf(s, q, s - 1.0f);
    return copysignf(e / (e + 2.0f), x);
}

/* Returns erf(x) with the sign of x: a polynomial below KMATH_ERF_SPLIT, then 1 - exp(polynomial). */
static inline float kmath_erf(float x)
{
    float a, p, y;

    a = fabsf(x);
    a = KMATH_ERF_MAX < a ? KMATH_ERF_MAX : a;
    if (a < KMATH_ERF_SPLIT) {
        float z = a * a;

        p = fmaf(KMATH_ERF_S5, z, KMATH_ERF_S4);
        p = fmaf(p, z, KMATH_ERF_S3);
        p = fmaf(p, z, KMATH_ERF_S2);
        p = fmaf(p, z, KMATH_ERF_S1);
        p = fmaf(p, z, KMATH_ERF_S0);
        y = p * a;
    } else {
        p = fmaf(KMATH_ERF_L5, a, KMATH_ERF_L4);
        p = fmaf(p, a, KMATH_ERF_L3);
        p = fmaf(p, a, KMATH_ERF_L2);
        p = fmaf(p, a, KMATH_ERF_L1);
        p = fmaf(p, a, KMATH_ERF_L0);
        y = 1.0f - kmath_exp(p);
    }
    return copysignf(y, x);
}

/* Returns x / (1 + exp(-x)). */
static inline float kmath_silu(float x)
{
    return x / (1.0f + kmath_exp(-x));
}

/* Returns x / (1 + exp(-2 u)) = x / 2 (1 + tanh u), u = sqrt(2 / pi) (x + 0.044715 x^3). */
static inline float kmath_gelu_tanh(float x)
{
    float w = fmaf(KMATH_GELU_CUBIC * (x * x), x, x);

    return x / (1.0f + kmath_exp(KMATH_GELU_TANH * w));
}

/* Returns x / 2 (1 + erf(x / sqrt 2)). */
static inline float kmath_gelu_erf(float x)
{
    float h = 0.5f * x;

    return fmaf(h, kmath_erf(x * KMATH_SQRT_HALF), h);
}

/* Returns x / (1 + exp(-1.702 x)). */
static inline float kmath_gelu_quick(float x)
{
    return x / (1.0f + kmath_exp(KMATH_GELU_QUICK * x));
}

/* Returns the larger of x and 0; NaN for NaN, -0 for -0. */
static inline float kmath_relu(float x)
{
    return 0.0f > x ? 0.0f : x;
}

static inline float kmath_act(float x, enum kern_act f)
{
    switch (f) {
    case KERN_SILU: return kmath_silu(x);
    case KERN_GELU_TANH: return kmath_gelu_tanh(x);
    case KERN_GELU_ERF: return kmath_gelu_erf(x);
    case KERN_GELU_QUICK: return kmath_gelu_quick(x);
    case KERN_RELU: return kmath_relu(x);
    case KERN_N_ACTS: break;
    }
    return x;
}

/* Computes the scalar part of attn_fold (attention.h) and sets *a and *b. Returns true if the caller still
 * has to fold the outputs, o = fma(o, *a, o2 * *b), false if the fold is complete. */
static inline bool kmath_fold(float *m, float *l, float *o, float m2, float l2, const float *o2, size_t d,
                              float *a, float *b)
{
    float n;

    if (m2 == -INFINITY && l2 == 0)
        return false;
    if (*m == -INFINITY && *l == 0) {
        *m = m2;
        *l = l2;
        memmove(o, o2, d * sizeof *o);
        return false;
    }
    n = *m > m2 ? *m : m2;
    *a = kmath_exp(*m - n);
    *b = kmath_exp(m2 - n);
    *m = n;
    *l = fmaf(*l, *a, l2 * *b);
    return true;
}

/* Returns the block size of the Hadamard rotation of N elements (kern_hadamard_fn in quant.h). */
static inline size_t kmath_rotated(size_t n)
{
    size_t block = n & (~n + 1);

    return block > KERN_ROTATED ? KERN_ROTATED : block;
}

static inline void kmath_hadamard(float *x, size_t n)
{
    size_t block = kmath_rotated(n);

    for (size_t half = 1; half < block; half *= 2)
        for (size_t i = 0; i < n; i += 2 * half)
            for (size_t j = i; j < i + half; j++) {
                float a = x[j], b = x[j + half];

                x[j] = a + b;
                x[j + half] = a - b;
            }
    for (size_t i = 0; i < n && block > 1; i++)
        x[i] *= 1.0f / sqrtf((float)block);
}

/* Returns the bits of the number that is quantized to 127: FIXED, or the row's largest |x|, whose bits are
 * LARGEST, if FIXED is 0 or LARGEST is not finite. */
static inline uint32_t kmath_i8_largest(uint32_t largest, float fixed)
{
    return fixed > 0.0f && largest < 0x7f800000 ? kmath_bits(fixed) : largest;
}

/* Returns 127 / m, by which the elements of a row are multiplied before rounding, where m has the bits
 * LARGEST. Sets *scale to m / 127, the value of one integer step. See kern_gemm_in_i8_fn (quant.h) for 0,
 * infinity and NaN. */
static inline float kmath_i8_inv(uint32_t largest, float *scale)
{
    float m, inv;

    memcpy(&m, &largest, sizeof(m));
    inv = 127.0f / m;
    *scale = largest >= 0x7f800000 ? NAN : isinf(inv) ? 0.0f : m / 127.0f;
    return *scale > 0.0f ? inv : 0.0f;
}

#endif
