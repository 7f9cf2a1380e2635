/* avx2_fold.c - joins the chunks of attention and divides by the sum of weights, as ref_attn.c does, eight
 * dims at a time. kmath_fold() computes the factors of the two chunks. */
#include <math.h>

#include "kern/avx2/avx2.h"
#include "kern/avx2/avx2_math.h"

void avx2_attn_fold(float *m, float *l, float *o, float m2, float l2, const float *o2, size_t d)
{
    float a, b;
    __m256 va, vb;

    if (!kmath_fold(m, l, o, m2, l2, o2, d, &a, &b))
        return;
    va = _mm256_set1_ps(a);
    vb = _mm256_set1_ps(b);
    for (size_t i = 0; i < d; i += 8) {
        __m256 y = _mm256_mul_ps(avx2_get(o2 + i, d - i), vb);

        avx2_put(o, i, _mm256_fmadd_ps(avx2_get(o + i, d - i), va, y), d - i);
    }
}

void avx2_attn_finish(float *out, const float *o, float l, size_t d)
{
    const __m256 inv = _mm256_set1_ps(1.0f / l), zero = _mm256_setzero_ps();

    for (size_t i = 0; i < d; i += 8)
        avx2_put(out, i, l == 0 ? zero : _mm256_mul_ps(avx2_get(o + i, d - i), inv), d - i);
}
