/* avx2_math.h - the functions of kmath.h on eight lanes, 16-lane sums in two registers, masked access,
 * rounding to bf16.
 *
 * Each function repeats the kmath.h function of its name operation by operation. The last elements of an
 * array are read with a masked load, which gives +0 in lanes beyond the end, and written with a masked store,
 * so that their arithmetic is the same as that of whole vectors.
 */
#ifndef GALLOP_KERN_AVX2_AVX2_MATH_H
#define GALLOP_KERN_AVX2_AVX2_MATH_H

#include <immintrin.h>

#include "kern/avx2/avx2.h"
#include "kern/kmath.h"

/* Returns a mask whose first N lanes have all bits set. N may be any number, also negative or above 8. */
AVX2_INLINE __m256i avx2_first(ptrdiff_t n)
{
    int k = n < 0 ? 0 : n > 8 ? 8 : (int)n;

    return _mm256_cmpgt_epi32(_mm256_set1_epi32(k), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/* Folds the lanes of a 16-lane sum as kern.h defines and returns the sum. */
AVX2_INLINE float avx2_fold(__m256 low, __m256 high)
{
    __m256 s8 = _mm256_add_ps(low, high);
    __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
    __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));

    return _mm_cvtss_f32(_mm_add_ss(s2, _mm_movehdup_ps(s2)));
}

/* Returns the largest lane. No lane may be NaN. */
AVX2_INLINE float avx2_fold_max(__m256 v)
{
    __m128 s4 = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    __m128 s2 = _mm_max_ps(s4, _mm_movehl_ps(s4, s4));

    return _mm_cvtss_f32(_mm_max_ss(s2, _mm_movehdup_ps(s2)));
}

/* Rounds eight floats to bf16 in the low halves of the lanes (ties to even; NaN becomes a quiet NaN). */
AVX2_INLINE __m256i avx2_round_bf16(__m256 x)
{
    __m256i u = _mm256_castps_si256(x);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    __m256i r = _mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7fff)), odd);
    __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));

    u = _mm256_or_si256(u, _mm256_set1_epi32(0x400000));
    return _mm256_srli_epi32(_mm256_blendv_epi8(r, u, nan), 16);
}

/* Rounds eight floats to eight bf16. */
AVX2_INLINE __m128i avx2_to_bf16x8(__m256 x)
{
    __m256i h = avx2_round_bf16(x);

    return _mm_packus_epi32(_mm256_castsi256_si128(h), _mm256_extracti128_si256(h, 1));
}

/* Widens eight bf16 to eight floats. */
AVX2_INLINE __m256 avx2_of_bf16x8(const uint16_t *p)
{
    __m256i h = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));

    return _mm256_castsi256_ps(_mm256_slli_epi32(h, 16));
}

/* Stores the first min(n, 8) lanes of y in OUT from element I on. */
AVX2_INLINE void avx2_put(float *out, size_t i, __m256 y, size_t n)
{
    if (n >= 8)
        _mm256_storeu_ps(out + i, y);
    else
        _mm256_maskstore_ps(out + i, avx2_first((ptrdiff_t)n), y);
}

/* Stores the first min(n, 8) lanes of y, rounded to bf16, in OUT from element I on. */
AVX2_INLINE void avx2_put_bf16(uint16_t *out, size_t i, __m256 y, size_t n)
{
    __m128i h = avx2_to_bf16x8(y);
    uint16_t part[8];

    if (n >= 8) {
        _mm_storeu_si128((__m128i *)(void *)(out + i), h);
    } else {
        _mm_storeu_si128((__m128i *)(void *)part, h);
        memcpy(out + i, part, n * sizeof *part);
    }
}

/* Loads the first min(n, 8) lanes from P; the other lanes are +0, and their memory is not read. */
AVX2_INLINE __m256 avx2_get(const float *p, size_t n)
{
    return n >= 8 ? _mm256_loadu_ps(p) : _mm256_maskload_ps(p, avx2_first((ptrdiff_t)n));
}

/* Copies N floats of each of ROWS rows at X, LD floats apart, to rows that are STRIDE apart. */
AVX2_INLINE void avx2_copy_rows(float *to, size_t stride, const float *x, size_t ld, size_t rows, size_t n)
{
    for (size_t i = 0; i < rows; i++, to += stride, x += ld)
        memcpy(to, x, n * sizeof(*to));
}

AVX2_INLINE __m256 avx2_reduce(__m256 x, __m256 *r)
{
    __m256 t = _mm256_fmadd_ps(x, _mm256_set1_ps(KMATH_LOG2E), _mm256_set1_ps(KMATH_MAGIC));
    __m256 n = _mm256_sub_ps(t, _mm256_set1_ps(KMATH_MAGIC));

    *r = _mm256_fnmadd_ps(n, _mm256_set1_ps(KMATH_LN2_LO),
                          _mm256_fnmadd_ps(n, _mm256_set1_ps(KMATH_LN2_HI), x));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(t), 23));
}

AVX2_INLINE __m256 avx2_exp(__m256 x)
{
    __m256 half, p, r;

    x = _mm256_min_ps(_mm256_set1_ps(KMATH_EXP_MAX), x);
    x = _mm256_max_ps(_mm256_set1_ps(KMATH_EXP_MIN), x);
    half = avx2_reduce(x, &r);
    p = _mm256_fmadd_ps(_mm256_set1_ps(2 * KMATH_EXP_C6), r, _mm256_set1_ps(2 * KMATH_EXP_C5));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(2 * KMATH_EXP_C4));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(2 * KMATH_EXP_C3));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(2 * KMATH_EXP_C2));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(2.0f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(2.0f));
    return _mm256_mul_ps(p, half);
}

/* Computes kmath_exp2() on eight lanes. NaN converts to the integer 2^31, which is 0 after the shift. */
AVX2_INLINE __m256 avx2_exp2(__m256 x)
{
    __m256i n;
    __m256 p, r;

    x = _mm256_max_ps(_mm256_set1_ps(KMATH_EXP2_MIN), x);
    n = _mm256_cvtps_epi32(x);
    r = _mm256_sub_ps(x, _mm256_cvtepi32_ps(n));
    p = _mm256_fmadd_ps(_mm256_set1_ps(KMATH_EXP2_D5), r, _mm256_set1_ps(KMATH_EXP2_D4));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(KMATH_EXP2_D3));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(KMATH_EXP2_D2));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(KMATH_EXP2_D1));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), _mm256_slli_epi32(n, 23)));
}

AVX2_INLINE __m256 avx2_sign(void)
{
    return _mm256_set1_ps(-0.0f);
}

AVX2_INLINE __m256 avx2_abs(__m256 x)
{
    return _mm256_andnot_ps(avx2_sign(), x);
}

AVX2_INLINE __m256 avx2_neg(__m256 x)
{
    return _mm256_xor_ps(x, avx2_sign());
}

/* Returns |y| with the sign of x. */
AVX2_INLINE __m256 avx2_copysign(__m256 y, __m256 x)
{
    return _mm256_or_ps(avx2_abs(y), _mm256_and_ps(avx2_sign(), x));
}

AVX2_INLINE __m256 avx2_tanh(__m256 x)
{
    const __m256 one = _mm256_set1_ps(1.0f);
    __m256 z, s, q, e, p, r;

    z = avx2_abs(x);
    z = _mm256_add_ps(z, z);
    z = _mm256_min_ps(_mm256_set1_ps(KMATH_TANH_MAX), z);
    s = avx2_reduce(z, &r);
    s = _mm256_add_ps(s, s);
    p = _mm256_fmadd_ps(_mm256_set1_ps(KMATH_EXP_C6), r, _mm256_set1_ps(KMATH_EXP_C5));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(KMATH_EXP_C4));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(KMATH_EXP_C3));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(KMATH_EXP_C2));
    q = _mm256_fmadd_ps(p, _mm256_mul_ps(r, r), r);
    e = _mm256_fmadd_ps(s, q, _mm256_sub_ps(s, one));
    return avx2_copysign(_mm256_div_ps(e, _mm256_add_ps(e, _mm256_set1_ps(2.0f))), x);
}

AVX2_INLINE __m256 avx2_erf(__m256 x)
{
    __m256 a, z, small, large;

    a = avx2_abs(x);
    a = _mm256_min_ps(_mm256_set1_ps(KMATH_ERF_MAX), a);
    z = _mm256_mul_ps(a, a);
    small = _mm256_fmadd_ps(_mm256_set1_ps(KMATH_ERF_S5), z, _mm256_set1_ps(KMATH_ERF_S4));
    small = _mm256_fmadd_ps(small, z, _mm256_set1_ps(KMATH_ERF_S3));
    small = _mm256_fmadd_ps(small, z, _mm256_set1_ps(KMATH_ERF_S2));
    small = _mm256_fmadd_ps(small, z, _mm256_set1_ps(KMATH_ERF_S1));
    small = _mm256_fmadd_ps(small, z, _mm256_set1_ps(KMATH_ERF_S0));
    small = _mm256_mul_ps(small, a);
    large = _mm256_fmadd_ps(_mm256_set1_ps(KMATH_ERF_L5), a, _mm256_set1_ps(KMATH_ERF_L4));
    large = _mm256_fmadd_ps(large, a, _mm256_set1_ps(KMATH_ERF_L3));
    large = _mm256_fmadd_ps(large, a, _mm256_set1_ps(KMATH_ERF_L2));
    large = _mm256_fmadd_ps(large, a, _mm256_set1_ps(KMATH_ERF_L1));
    large = _mm256_fmadd_ps(large, a, _mm256_set1_ps(KMATH_ERF_L0));
    large = _mm256_sub_ps(_mm256_set1_ps(1.0f), avx2_exp(large));
    a = _mm256_cmp_ps(a, _mm256_set1_ps(KMATH_ERF_SPLIT), _CMP_LT_OQ);
    return avx2_copysign(_mm256_blendv_ps(large, small, a), x);
}

/* Returns x / (1 + exp(y)). */
AVX2_INLINE __m256 avx2_gate(__m256 x, __m256 y)
{
    return _mm256_div_ps(x, _mm256_add_ps(_mm256_set1_ps(1.0f), avx2_exp(y)));
}

AVX2_INLINE __m256 avx2_gelu_tanh(__m256 x)
{
    __m256 cube = _mm256_mul_ps(_mm256_set1_ps(KMATH_GELU_CUBIC), _mm256_mul_ps(x, x));
    __m256 w = _mm256_fmadd_ps(cube, x, x);

    return avx2_gate(x, _mm256_mul_ps(_mm256_set1_ps(KMATH_GELU_TANH), w));
}

AVX2_INLINE __m256 avx2_gelu_erf(__m256 x)
{
    __m256 h = _mm256_mul_ps(_mm256_set1_ps(0.5f), x);

    return _mm256_fmadd_ps(h, avx2_erf(_mm256_mul_ps(x, _mm256_set1_ps(KMATH_SQRT_HALF))), h);
}

/* Computes kmath_act() on eight lanes. F is a constant at every call. */
AVX2_INLINE __m256 avx2_activate(__m256 x, enum kern_act f)
{
    switch (f) {
    case KERN_SILU: return avx2_gate(x, avx2_neg(x));
    case KERN_GELU_TANH: return avx2_gelu_tanh(x);
    case KERN_GELU_ERF: return avx2_gelu_erf(x);
    case KERN_GELU_QUICK: return avx2_gate(x, _mm256_mul_ps(_mm256_set1_ps(KMATH_GELU_QUICK), x));
    case KERN_RELU: return _mm256_max_ps(_mm256_setzero_ps(), x);
    case KERN_N_ACTS: break;
    }
    return x;
}

#endif
