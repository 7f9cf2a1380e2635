/* avx512_fold.c - joins the chunks of attention, o = o a + o2 b, and divides a query row's output by its sum
 * of weights, o / l.
 *
 * kmath_fold() computes the factors a and b. The formulas and their order are in attention.h.
 */
#include "kern/avx512/avx512.h"
#include "kern/simd512/simd512.h"

SIMD512_INLINE void join(float *o, const float *o2, __mmask16 m, __m512 a, __m512 b)
{
    simd512_store(o, m, _mm512_fmadd_ps(simd512_load(o, m), a, _mm512_mul_ps(simd512_load(o2, m), b)));
}

void KERN_NAME(avx512_attn_fold)(float *m, float *l, float *o, float m2, float l2, const float *o2, size_t d)
{
    float a, b;
    size_t i = 0;

    if (!kmath_fold(m, l, o, m2, l2, o2, d, &a, &b))
        return;
    for (; i + 16 <= d; i += 16)
        join(o + i, o2 + i, SIMD512_ALL, _mm512_set1_ps(a), _mm512_set1_ps(b));
    if (i < d)
        join(o + i, o2 + i, simd512_head(d - i), _mm512_set1_ps(a), _mm512_set1_ps(b));
}

void KERN_NAME(avx512_attn_finish)(float *out, const float *o, float l, size_t d)
{
    __m512 inv = _mm512_set1_ps(1.0f / l);

    for (size_t i = 0; i < d; i += 16) {
        __mmask16 m = simd512_head(d - i);
        __m512 y = l == 0 ? _mm512_setzero_ps() : _mm512_mul_ps(simd512_load(o + i, m), inv);

        simd512_store(out + i, m, y);
    }
}
