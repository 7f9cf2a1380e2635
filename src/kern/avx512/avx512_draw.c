/* avx512_draw.c - the random draw of a token on sixteen lanes.
 *
 * Each lane keeps its largest sum of logit and noise, and the index of that element. Sixteen elements are
 * skipped if none can exceed the sum of its lane, even with the largest noise. If the model is confident,
 * most of the vocabulary is skipped.
 */
#include <math.h>

#include "kern/avx512/avx512.h"
#include "kern/simd512/simd512.h"

/* Computes kmath_noise() on 16 lanes. */
SIMD512_INLINE __m512i noise(__m512i id, const uint32_t key[2])
{
    __m512i x = _mm512_xor_si512(id, _mm512_set1_epi32((int)key[0]));

    for (int round = 0; round < 2; round++) {
        x = _mm512_xor_si512(x, _mm512_srli_epi32(x, 16));
        x = _mm512_mullo_epi32(x, _mm512_set1_epi32((int)KMATH_NOISE_1));
        x = _mm512_xor_si512(x, _mm512_srli_epi32(x, 15));
        x = _mm512_mullo_epi32(x, _mm512_set1_epi32((int)KMATH_NOISE_2));
        x = _mm512_xor_si512(x, _mm512_srli_epi32(x, 16));
        x = _mm512_add_epi32(x, _mm512_set1_epi32(round == 0 ? (int)key[1] : 0));
    }
    return x;
}

/* Returns (x + 1/2) / 2^32 for unsigned lanes. */
SIMD512_INLINE __m512 fraction(__m512i x)
{
    return _mm512_mul_ps(_mm512_add_ps(_mm512_cvtepu32_ps(x), _mm512_set1_ps(0.5f)),
                         _mm512_set1_ps(0x1p-32f));
}

/* Computes kmath_split() on 16 lanes. */
SIMD512_INLINE __m512 split(__m512 x, __m512 *n)
{
    __m512i u = _mm512_castps_si512(x);
    __m512i e = _mm512_srai_epi32(_mm512_sub_epi32(u, _mm512_set1_epi32((int)KMATH_LOG_SPLIT)), 23);

    *n = _mm512_cvtepi32_ps(e);
    u = _mm512_sub_epi32(u, _mm512_slli_epi32(e, 23));
    return _mm512_sub_ps(_mm512_castsi512_ps(u), _mm512_set1_ps(1.0f));
}

/* Computes kmath_join() on 16 lanes. */
SIMD512_INLINE __m512 join(__m512 f, __m512 n)
{
    __m512 p = simd512_horner(_mm512_set1_ps(KMATH_LOG_L7), f, KMATH_LOG_L6);

    p = simd512_horner(p, f, KMATH_LOG_L5);
    p = simd512_horner(p, f, KMATH_LOG_L4);
    p = simd512_horner(p, f, KMATH_LOG_L3);
    p = simd512_horner(p, f, KMATH_LOG_L2);
    p = simd512_horner(p, f, KMATH_LOG_L1);
    p = simd512_horner(p, f, KMATH_LOG_L0);
    p = simd512_horner(p, f, -0.5f);
    p = _mm512_fmadd_ps(_mm512_mul_ps(f, f), p, f);
    p = _mm512_fmadd_ps(n, _mm512_set1_ps(KMATH_LN2_LO), p);
    return _mm512_fmadd_ps(n, _mm512_set1_ps(KMATH_LN2_HI), p);
}

SIMD512_INLINE __m512 negative(__m512 x)
{
    return _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(x), _mm512_set1_epi32(INT32_MIN)));
}

/* Computes kmath_gumbel() on 16 lanes. */
SIMD512_INLINE __m512 gumbel(__m512i bits)
{
    __m512 t = fraction(bits), n, f = split(fraction(_mm512_xor_si512(bits, _mm512_set1_epi32(-1))), &n);
    __mmask16 small = _mm512_cmp_ps_mask(t, _mm512_set1_ps(KMATH_GUMBEL_SMALL), _CMP_LT_OQ);

    f = _mm512_mask_mov_ps(f, small, negative(t));
    f = split(negative(join(f, _mm512_mask_mov_ps(n, small, _mm512_setzero_ps()))), &n);
    return negative(join(f, n));
}

/* Returns the index of the largest sum; of equal sums, the lowest index. */
static size_t first_of_best(__m512 best, __m512i place)
{
    float y[16], top = simd512_fold_max(best);
    int32_t at[16], first = INT32_MAX;

    _mm512_storeu_ps(y, best);
    _mm512_storeu_si512(at, place);
    for (int i = 0; i < 16; i++)
        first = y[i] == top && at[i] < first ? at[i] : first;
    return (size_t)first;
}

size_t KERN_NAME(avx512_gumbel_argmax)(const float *x, size_t n, const int32_t *id, const uint32_t key[2])
{
    __m512 best = _mm512_set1_ps(-INFINITY);
    __m512i at = _mm512_setzero_si512();
    __m512i place = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);

    for (size_t i = 0; i < n; i += 16, place = _mm512_add_epi32(place, _mm512_set1_epi32(16))) {
        __mmask16 m = simd512_head(n - i), hit;
        __m512 v = simd512_load(x + i, m), y;
        __m512i which = place;

        if (!(m & _mm512_cmp_ps_mask(_mm512_add_ps(v, _mm512_set1_ps(KMATH_GUMBEL_MAX)), best, _CMP_GT_OQ)))
            continue;
        if (id)
            which = _mm512_castps_si512(_mm512_maskz_loadu_ps(m, id + i));
        y = _mm512_add_ps(v, gumbel(noise(which, key)));
        hit = m & _mm512_cmp_ps_mask(y, best, _CMP_GT_OQ);
        best = _mm512_mask_mov_ps(best, hit, y);
        at = _mm512_mask_blend_epi32(hit, at, place);
    }
    return first_of_best(best, at);
}
