/* avx512_rope.c - rotary embedding of one head, in place: pairs (i, i + half), or (2 i, 2 i + 1).
 *
 * For adjacent pairs (2 i, 2 i + 1), a vector holds 8 pairs: cos and sin are spread to both lanes of a pair,
 * a permute swaps the elements of each pair, and sin is negated in even lanes. fma(x2, -s, .) has the bits of
 * fma(-x2, s, .).
 */
#include "kern/avx512/avx512.h"
#include "kern/simd512/simd512.h"

SIMD512_INLINE void rotate(float *x1, float *x2, const float *cos, const float *sin, __mmask16 m)
{
    __m512 a = simd512_load(x1, m), b = simd512_load(x2, m), c = simd512_load(cos, m),
           s = simd512_load(sin, m);

    simd512_store(x1, m, _mm512_fnmadd_ps(b, s, _mm512_mul_ps(a, c)));
    simd512_store(x2, m, _mm512_fmadd_ps(a, s, _mm512_mul_ps(b, c)));
}

void KERN_NAME(avx512_rope_half)(float *x, const float *cos, const float *sin, size_t half)
{
    size_t i = 0;

    for (; i + 16 <= half; i += 16)
        rotate(x + i, x + half + i, cos + i, sin + i, SIMD512_ALL);
    if (i < half)
        rotate(x + i, x + half + i, cos + i, sin + i, simd512_head(half - i));
}

void KERN_NAME(avx512_rope_pair)(float *x, const float *cos, const float *sin, size_t half)
{
    const __m512i twice = _mm512_set_epi32(7, 7, 6, 6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0, 0);
    const __m512i even = _mm512_set1_epi64((long long)0x80000000u);

    for (size_t i = 0; i < half; i += 8) {
        size_t n = half - i < 8 ? half - i : 8;
        __mmask16 m = simd512_head(2 * n);
        __m512 v = simd512_load(x + 2 * i, m), swapped = _mm512_permute_ps(v, 0xb1);
        __m512 c = _mm512_permutexvar_ps(twice, _mm512_maskz_loadu_ps(simd512_head(n), cos + i));
        __m512 s = _mm512_permutexvar_ps(twice, _mm512_maskz_loadu_ps(simd512_head(n), sin + i));

        s = _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(s), even));
        simd512_store(x + 2 * i, m, _mm512_fmadd_ps(swapped, s, _mm512_mul_ps(v, c)));
    }
}
