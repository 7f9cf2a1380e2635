/* avx2_draw.c - the random draw of a token on eight lanes.
 *
 * Each lane keeps its largest sum of logit and noise, and the index of that element. Eight elements are
 * skipped if none can exceed the sum of its lane, even with the largest noise. If the model is confident,
 * most of the vocabulary is skipped.
 */
#include <math.h>

#include "kern/avx2/avx2.h"
#include "kern/avx2/avx2_math.h"

/* Computes kmath_noise() on eight lanes. */
AVX2_INLINE __m256i noise(__m256i id, const uint32_t key[2])
{
    __m256i x = _mm256_xor_si256(id, _mm256_set1_epi32((int)key[0]));

    for (int round = 0; round < 2; round++) {
        x = _mm256_xor_si256(x, _mm256_srli_epi32(x, 16));
        x = _mm256_mullo_epi32(x, _mm256_set1_epi32((int)KMATH_NOISE_1));
        x = _mm256_xor_si256(x, _mm256_srli_epi32(x, 15));
        x = _mm256_mullo_epi32(x, _mm256_set1_epi32((int)KMATH_NOISE_2));
        x = _mm256_xor_si256(x, _mm256_srli_epi32(x, 16));
        x = _mm256_add_epi32(x, _mm256_set1_epi32(round == 0 ? (int)key[1] : 0));
    }
    return x;
}

/* Returns (x + 1/2) / 2^32 for unsigned lanes. Both 16-bit halves of x convert exactly, and their sum is
 * rounded once, like a direct conversion. */
AVX2_INLINE __m256 fraction(__m256i x)
{
    __m256 high = _mm256_cvtepi32_ps(_mm256_srli_epi32(x, 16));
    __m256 low = _mm256_cvtepi32_ps(_mm256_and_si256(x, _mm256_set1_epi32(0xffff)));
    __m256 y = _mm256_fmadd_ps(high, _mm256_set1_ps(65536.0f), low);

    return _mm256_mul_ps(_mm256_add_ps(y, _mm256_set1_ps(0.5f)), _mm256_set1_ps(0x1p-32f));
}

/* Computes kmath_split() on eight lanes. */
AVX2_INLINE __m256 split(__m256 x, __m256 *n)
{
    __m256i u = _mm256_castps_si256(x);
    __m256i e = _mm256_srai_epi32(_mm256_sub_epi32(u, _mm256_set1_epi32((int)KMATH_LOG_SPLIT)), 23);

    *n = _mm256_cvtepi32_ps(e);
    u = _mm256_sub_epi32(u, _mm256_slli_epi32(e, 23));
    return _mm256_sub_ps(_mm256_castsi256_ps(u), _mm256_set1_ps(1.0f));
}

/* Computes kmath_join() on eight lanes. */
AVX2_INLINE __m256 join(__m256 f, __m256 n)
{
    __m256 p = _mm256_fmadd_ps(_mm256_set1_ps(KMATH_LOG_L7), f, _mm256_set1_ps(KMATH_LOG_L6));

    p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(KMATH_LOG_L5));
    p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(KMATH_LOG_L4));
    p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(KMATH_LOG_L3));
    p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(KMATH_LOG_L2));
    p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(KMATH_LOG_L1));
    p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(KMATH_LOG_L0));
    p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(-0.5f));
    p = _mm256_fmadd_ps(_mm256_mul_ps(f, f), p, f);
    p = _mm256_fmadd_ps(n, _mm256_set1_ps(KMATH_LN2_LO), p);
    return _mm256_fmadd_ps(n, _mm256_set1_ps(KMATH_LN2_HI), p);
}

/* Computes kmath_gumbel() on eight lanes. */
AVX2_INLINE __m256 gumbel(__m256i bits)
{
    __m256 t = fraction(bits), n, f = split(fraction(_mm256_xor_si256(bits, _mm256_set1_epi32(-1))), &n);
    __m256 small = _mm256_cmp_ps(t, _mm256_set1_ps(KMATH_GUMBEL_SMALL), _CMP_LT_OQ), e;

    f = _mm256_blendv_ps(f, avx2_neg(t), small);
    e = avx2_neg(join(f, _mm256_andnot_ps(small, n)));
    f = split(e, &n);
    return avx2_neg(join(f, n));
}

/* Returns the index of the largest sum; of equal sums, the lowest index. */
static size_t first_of_best(__m256 best, __m256i place)
{
    float y[8], top = avx2_fold_max(best);
    int32_t at[8], first = INT32_MAX;

    _mm256_storeu_ps(y, best);
    _mm256_storeu_si256((__m256i *)(void *)at, place);
    for (int i = 0; i < 8; i++)
        first = y[i] == top && at[i] < first ? at[i] : first;
    return (size_t)first;
}

size_t avx2_gumbel_argmax(const float *x, size_t n, const int32_t *id, const uint32_t key[2])
{
    __m256 best = _mm256_set1_ps(-INFINITY);
    __m256i at = _mm256_setzero_si256(), place = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);

    for (size_t i = 0; i < n; i += 8, place = _mm256_add_epi32(place, _mm256_set1_epi32(8))) {
        __m256i there = avx2_first((ptrdiff_t)(n - i));
        __m256 v = avx2_get(x + i, n - i), y;
        __m256 near = _mm256_cmp_ps(_mm256_add_ps(v, _mm256_set1_ps(KMATH_GUMBEL_MAX)), best, _CMP_GT_OQ);

        if (!_mm256_movemask_ps(_mm256_and_ps(near, _mm256_castsi256_ps(there))))
            continue;
        y = _mm256_add_ps(v, gumbel(noise(id ? _mm256_maskload_epi32(id + i, there) : place, key)));
        near = _mm256_and_ps(_mm256_cmp_ps(y, best, _CMP_GT_OQ), _mm256_castsi256_ps(there));
        best = _mm256_blendv_ps(best, y, near);
        at = _mm256_blendv_epi8(at, place, _mm256_castps_si256(near));
    }
    return first_of_best(best, at);
}
