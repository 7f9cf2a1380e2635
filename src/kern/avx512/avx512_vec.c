/* avx512_vec.c - the kernels on vectors, sixteen lanes at a time: sums, scaling, activations, conversions,
 * reductions. Whole vectors come first, then one masked step for the rest, so that nothing beyond the end is
 * read or written.
 *
 * exp_sum and exp_dot have one accumulator, which gives the 16-lane order of kern.h; the other kernels have
 * no order.
 * argmax finds the largest element first and then its first position: two passes with one comparison for each
 * vector, of which the second stops at the position.
 */
#include "kern/avx512/avx512.h"
#include "kern/simd512/simd512.h"

void KERN_NAME(avx512_add)(float *x, const float *r, size_t n)
{
    size_t i = 0;
    __mmask16 m;

    for (; i + 16 <= n; i += 16)
        _mm512_storeu_ps(x + i, _mm512_add_ps(_mm512_loadu_ps(x + i), _mm512_loadu_ps(r + i)));
    if (i < n) {
        m = simd512_head(n - i);
        simd512_store(x + i, m, _mm512_add_ps(simd512_load(x + i, m), simd512_load(r + i, m)));
    }
}

void KERN_NAME(avx512_scale)(float *x, float a, size_t n)
{
    __m512 v = _mm512_set1_ps(a);
    size_t i = 0;

    for (; i + 16 <= n; i += 16)
        _mm512_storeu_ps(x + i, _mm512_mul_ps(_mm512_loadu_ps(x + i), v));
    if (i < n)
        simd512_store(x + i, simd512_head(n - i), _mm512_mul_ps(simd512_load(x + i, simd512_head(n - i)), v));
}

void KERN_NAME(avx512_scale_add)(float *y, const float *x, float a, size_t n)
{
    __m512 v = _mm512_set1_ps(a);
    size_t i = 0;
    __mmask16 m;

    for (; i + 16 <= n; i += 16)
        _mm512_storeu_ps(y + i, _mm512_fmadd_ps(v, _mm512_loadu_ps(x + i), _mm512_loadu_ps(y + i)));
    if (i < n) {
        m = simd512_head(n - i);
        simd512_store(y + i, m, _mm512_fmadd_ps(v, simd512_load(x + i, m), simd512_load(y + i, m)));
    }
}

void KERN_NAME(avx512_to_bf16)(uint16_t *out, const float *x, size_t n)
{
    size_t i = 0;

    for (; i + 16 <= n; i += 16)
        simd512_store_bf16(out + i, SIMD512_ALL, _mm512_loadu_ps(x + i));
    if (i < n)
        simd512_store_bf16(out + i, simd512_head(n - i), simd512_load(x + i, simd512_head(n - i)));
}

/* Stores min(N, 16) floats, which are from -127 to 127, as int8, with AVX2 instructions only. */
static void put_i8(int8_t *out, __m512 y, size_t n)
{
    __m512i u = _mm512_cvtps_epi32(y);
    __m256i low = _mm512_castsi512_si256(u), high = _mm512_extracti64x4_epi64(u, 1);
    __m256i h = _mm256_permute4x64_epi64(_mm256_packs_epi32(low, high), 0xd8);
    __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(h), _mm256_extracti128_si256(h, 1));
    int8_t part[16];

    if (n >= 16) {
        _mm_storeu_si128((__m128i *)(void *)out, bytes);
    } else {
        _mm_storeu_si128((__m128i *)(void *)part, bytes);
        memcpy(out, part, n);
    }
}

void KERN_NAME(avx512_to_i8)(int8_t *out, float *scale, const float *x, size_t n)
{
    __m512 top = _mm512_setzero_ps(), y;
    float m, inv;

    for (size_t i = 0; i < n; i += 16)
        top = _mm512_max_ps(simd512_abs(simd512_load(x + i, simd512_head(n - i))), top);
    m = simd512_fold_max(top);
    inv = 127.0f / m;
    if (isinf(inv)) {
        *scale = 0;
        memset(out, 0, n);
        return;
    }
    *scale = m / 127.0f;
    for (size_t i = 0; i < n; i += 16) {
        y = _mm512_mul_ps(simd512_load(x + i, simd512_head(n - i)), _mm512_set1_ps(inv));
        y = _mm512_max_ps(_mm512_min_ps(y, _mm512_set1_ps(127.0f)), _mm512_set1_ps(-127.0f));
        put_i8(out + i, y, n - i);
    }
}

/* Computes out = f(gate) * up, or f(gate) if UP is NULL. F is a constant at each call. */
SIMD512_INLINE void activate(float *out, const float *gate, const float *up, size_t n, enum kern_act f)
{
    for (size_t i = 0; i < n; i += 16) {
        __mmask16 m = simd512_head(n - i);
        __m512 y = simd512_act(simd512_load(gate + i, m), f);

        if (up)
            y = _mm512_mul_ps(y, simd512_load(up + i, m));
        simd512_store(out + i, m, y);
    }
}

SIMD512_INLINE void activate_by(float *out, const float *gate, const float *up, size_t n, enum kern_act f)
{
    switch (f) {
    case KERN_SILU: activate(out, gate, up, n, KERN_SILU); break;
    case KERN_GELU_TANH: activate(out, gate, up, n, KERN_GELU_TANH); break;
    case KERN_GELU_ERF: activate(out, gate, up, n, KERN_GELU_ERF); break;
    case KERN_GELU_QUICK: activate(out, gate, up, n, KERN_GELU_QUICK); break;
    case KERN_RELU: activate(out, gate, up, n, KERN_RELU); break;
    case KERN_N_ACTS: break;
    }
}

void KERN_NAME(avx512_act)(float *out, const float *x, size_t n, enum kern_act f)
{
    activate_by(out, x, NULL, n, f);
}

void KERN_NAME(avx512_glu)(float *out, const float *gate, const float *up, size_t n, enum kern_act f)
{
    activate_by(out, gate, up, n, f);
}

void KERN_NAME(avx512_softcap)(float *x, float cap, size_t n)
{
    const __m512 c = _mm512_set1_ps(cap);

    for (size_t i = 0; i < n; i += 16) {
        __mmask16 m = simd512_head(n - i);

        simd512_store(x + i, m, _mm512_mul_ps(c, simd512_tanh(_mm512_div_ps(simd512_load(x + i, m), c))));
    }
}

/* Returns the largest x; NaNs are ignored. If zeros of both signs are largest, either may be returned,
 * because four maxima are kept side by side; the callers handle that. */
static float largest(const float *x, size_t n)
{
    __m512 top[4];
    size_t i = 0;

    for (int j = 0; j < 4; j++)
        top[j] = _mm512_set1_ps(-INFINITY);
    for (; i + 64 <= n; i += 64) {
        top[0] = _mm512_max_ps(_mm512_loadu_ps(x + i), top[0]);
        top[1] = _mm512_max_ps(_mm512_loadu_ps(x + i + 16), top[1]);
        top[2] = _mm512_max_ps(_mm512_loadu_ps(x + i + 32), top[2]);
        top[3] = _mm512_max_ps(_mm512_loadu_ps(x + i + 48), top[3]);
    }
    for (; i < n; i += 16) {
        __mmask16 m = simd512_head(n - i);

        top[0] = _mm512_mask_max_ps(top[0], m, simd512_load(x + i, m), top[0]);
    }
    return simd512_fold_max(_mm512_max_ps(_mm512_max_ps(top[0], top[1]), _mm512_max_ps(top[2], top[3])));
}

float KERN_NAME(avx512_max)(const float *x, size_t n)
{
    return largest(x, n) + 0.0f;
}

enum { MOST_STAGES = 4 }; /* maximum stages of hadamard in one pass, on 2^4 vectors */

/* Returns OTHER - V in the lanes of MASK and OTHER + V in the others, with one operation. */
SIMD512_INLINE __m512 rotate_lanes(__m512 v, __m512 other, __mmask16 mask)
{
    const __m512 one = _mm512_set1_ps(1), minus = _mm512_set1_ps(-1);

    return _mm512_fmadd_ps(v, _mm512_mask_blend_ps(mask, one, minus), other);
}

/* Computes the four stages of hadamard whose pairs are within a vector. */
SIMD512_INLINE __m512 rotate_within(__m512 v)
{
    const __m512i four = _mm512_set_epi32(11, 10, 9, 8, 15, 14, 13, 12, 3, 2, 1, 0, 7, 6, 5, 4);
    const __m512i eight = _mm512_set_epi32(7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8);

    v = rotate_lanes(v, _mm512_permute_ps(v, 0xb1), 0xaaaa);
    v = rotate_lanes(v, _mm512_permute_ps(v, 0x4e), 0xcccc);
    v = rotate_lanes(v, _mm512_permutexvar_ps(four, v), 0xf0f0);
    return rotate_lanes(v, _mm512_permutexvar_ps(eight, v), 0xff00);
}

/* Computes COUNT stages of hadamard, with the distances HALF, 2 HALF, ..., in one pass over a block, 2^COUNT
 * vectors at a time. FIRST: runs rotate_within() before them. LAST: multiplies the result by NORM. */
SIMD512_INLINE void rotate_stages(float *x, size_t block, size_t half, __m512 norm, int count, bool first,
                                  bool last)
{
    const int n = 1 << count;

    for (size_t i = 0; i < block; i += (size_t)n * half)
        for (size_t j = i; j < i + half; j += 16) {
            __m512 v[1 << MOST_STAGES];

            SIMD512_UNROLL
            for (int k = 0; k < 1 << MOST_STAGES; k++)
                if (k < n) {
                    v[k] = _mm512_loadu_ps(x + j + (size_t)k * half);
                    v[k] = first ? rotate_within(v[k]) : v[k];
                }
            SIMD512_UNROLL
            for (int s = 0; s < MOST_STAGES; s++)
                SIMD512_UNROLL
            for (int k = 0; k < 1 << MOST_STAGES; k++)
                if (s < count && k < n && !(k >> s & 1)) {
                    __m512 a = v[k], b = v[k + (1 << s)];

                    v[k] = _mm512_add_ps(a, b);
                    v[k + (1 << s)] = _mm512_sub_ps(a, b);
                }
            SIMD512_UNROLL
            for (int k = 0; k < 1 << MOST_STAGES; k++)
                if (k < n)
                    _mm512_storeu_ps(x + j + (size_t)k * half, last ? _mm512_mul_ps(v[k], norm) : v[k]);
        }
}

typedef void stages_fn(float *x, size_t block, size_t half, __m512 norm);

#define STAGES(name, count, first, last)                                         \
    static void name##_##count(float *x, size_t block, size_t half, __m512 norm) \
    {                                                                            \
        rotate_stages(x, block, half, norm, count, first, last);                 \
    }
STAGES(all, 0, true, true)
STAGES(all, 1, true, true)
STAGES(all, 2, true, true)
STAGES(all, 3, true, true)
STAGES(first, 3, true, false)
STAGES(rest, 1, false, true)
STAGES(rest, 2, false, true)
STAGES(rest, 3, false, true)
STAGES(rest, 4, false, true)
#undef STAGES

/* A block of up to 128 elements takes one pass over memory, a block of up to 2048 takes two. */
void KERN_NAME(avx512_hadamard)(float *x, size_t n)
{
    static stages_fn *const all[] = {all_0, all_1, all_2, all_3}, *const rest[] = {rest_1, rest_2, rest_3,
                                                                                   rest_4};
    size_t block = kmath_rotated(n), stages = 0;
    __m512 norm = _mm512_set1_ps(1.0f / sqrtf((float)block));

    _Static_assert(KERN_ROTATED == 16 << (3 + MOST_STAGES), "two passes are all");
    if (block < 16) {
        kmath_hadamard(x, n);
        return;
    }
    while (block >> stages > 16)
        stages++;
    for (float *end = x + n; x < end; x += block)
        if (stages <= 3) {
            all[stages](x, block, 16, norm);
        } else {
            first_3(x, block, 16, norm);
            rest[stages - 4](x, block, 128, norm);
        }
}

size_t KERN_NAME(avx512_argmax)(const float *x, size_t n)
{
    __m512 top = _mm512_set1_ps(largest(x, n));

    for (size_t i = 0; i < n; i += 16) {
        __mmask16 m = simd512_head(n - i);
        unsigned hit = m & _mm512_cmp_ps_mask(simd512_load(x + i, m), top, _CMP_EQ_OQ);

        if (hit)
            return i + (size_t)__builtin_ctz(hit);
    }
    return 0; /* all elements are NaN */
}

float KERN_NAME(avx512_exp_sum)(const float *x, size_t n, float max)
{
    __m512 sum = _mm512_setzero_ps(), top = _mm512_set1_ps(max);

    for (size_t i = 0; i < n; i += 16) {
        __mmask16 m = simd512_head(n - i);
        __m512 y = simd512_exp(_mm512_sub_ps(simd512_load(x + i, m), top));

        sum = _mm512_add_ps(sum, _mm512_maskz_mov_ps(m, y));
    }
    return simd512_fold_add(sum);
}

float KERN_NAME(avx512_exp_dot)(const float *x, size_t n, float max)
{
    __m512 sum = _mm512_setzero_ps(), top = _mm512_set1_ps(max), least = _mm512_set1_ps(KMATH_EXP_MIN);

    for (size_t i = 0; i < n; i += 16) {
        __mmask16 m = simd512_head(n - i);
        __m512 d = _mm512_max_ps(least, _mm512_sub_ps(simd512_load(x + i, m), top));

        sum = _mm512_add_ps(sum, _mm512_maskz_mov_ps(m, _mm512_mul_ps(simd512_exp(d), d)));
    }
    return simd512_fold_add(sum);
}
