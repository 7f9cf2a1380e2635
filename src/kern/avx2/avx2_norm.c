/* avx2_norm.c - RMS and layer normalisation of one row, as in ref_norm.c, eight lanes at a time.
 *
 * The 16 lanes of the sums are two registers. The end of a row is masked: lanes beyond the end add +0. */
#include "kern/avx2/avx2.h"
#include "kern/avx2/avx2_math.h"

/* The 16 lanes of a sum, or 16 elements, in two registers. */
struct pair {
    __m256 low, high;
};

AVX2_INLINE struct pair get2(const float *p, size_t n)
{
    if (n >= 16)
        return (struct pair){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
    return (struct pair){avx2_get(p, n), n > 8 ? avx2_get(p + 8, n - 8) : _mm256_setzero_ps()};
}

/* Returns the first min(n, 16) elements at X. If R is not NULL, adds R first and stores the sum in X. */
AVX2_INLINE struct pair add_residual(float *x, const float *r, size_t n)
{
    struct pair v = get2(x, n), s;

    if (r) {
        s = get2(r, n);
        v.low = _mm256_add_ps(v.low, s.low);
        v.high = _mm256_add_ps(v.high, s.high);
        avx2_put(x, 0, v.low, n);
        if (n > 8)
            avx2_put(x, 8, v.high, n - 8);
    }
    return v;
}

void avx2_rms_norm(float *out, float *x, const float *r, const float *w, size_t n, float eps)
{
    __m256 low = _mm256_setzero_ps(), high = _mm256_setzero_ps(), inv;

    for (size_t i = 0; i < n; i += 16) {
        struct pair v = add_residual(x + i, r ? r + i : NULL, n - i);

        low = _mm256_fmadd_ps(v.low, v.low, low);
        high = _mm256_fmadd_ps(v.high, v.high, high);
    }
    inv = _mm256_set1_ps(1.0f / sqrtf(avx2_fold(low, high) / (float)n + eps));
    for (size_t i = 0; i < n; i += 8) {
        __m256 y = _mm256_mul_ps(avx2_get(x + i, n - i), inv);

        if (w)
            y = _mm256_mul_ps(avx2_get(w + i, n - i), y);
        avx2_put(out, i, y, n - i);
    }
}

/* Returns (x - mean) in the first N lanes, +0 in the others. */
AVX2_INLINE __m256 centred(const float *x, __m256 mean, size_t n)
{
    __m256 d = _mm256_sub_ps(avx2_get(x, n), mean);

    return n >= 8 ? d : _mm256_and_ps(d, _mm256_castsi256_ps(avx2_first((ptrdiff_t)n)));
}

void avx2_layer_norm(float *out, float *x, const float *r, const float *w, const float *b, size_t n,
                     float eps)
{
    const __m256 zero = _mm256_setzero_ps(), one = _mm256_set1_ps(1.0f);
    __m256 low = zero, high = zero, mean, inv;

    for (size_t i = 0; i < n; i += 16) {
        struct pair v = add_residual(x + i, r ? r + i : NULL, n - i);

        low = _mm256_add_ps(low, v.low);
        high = _mm256_add_ps(high, v.high);
    }
    mean = _mm256_set1_ps(avx2_fold(low, high) / (float)n);
    low = high = zero;
    for (size_t i = 0; i < n; i += 16) {
        __m256 d = centred(x + i, mean, n - i), d2 = n - i > 8 ? centred(x + i + 8, mean, n - i - 8) : zero;

        low = _mm256_fmadd_ps(d, d, low);
        high = _mm256_fmadd_ps(d2, d2, high);
    }
    inv = _mm256_set1_ps(1.0f / sqrtf(avx2_fold(low, high) / (float)n + eps));
    for (size_t i = 0; i < n; i += 8) {
        __m256 y = _mm256_mul_ps(_mm256_sub_ps(avx2_get(x + i, n - i), mean), inv);

        y = _mm256_fmadd_ps(y, w ? avx2_get(w + i, n - i) : one, b ? avx2_get(b + i, n - i) : zero);
        avx2_put(out, i, y, n - i);
    }
}
