/* avx2_vec.c - the kernels on vectors, eight lanes at a time; a masked step computes the last elements.
 *
 * vector.h and quant.h define the kernels, ref_vec.c computes them in plain C, and avx2_math.h has exp, tanh
 * and rounding.
 */
#include <math.h>
#include <string.h>

#include "kern/avx2/avx2.h"
#include "kern/avx2/avx2_math.h"
#include "kern/kmath.h"

void avx2_add(float *x, const float *r, size_t n)
{
    for (size_t i = 0; i < n; i += 8)
        avx2_put(x, i, _mm256_add_ps(avx2_get(x + i, n - i), avx2_get(r + i, n - i)), n - i);
}

void avx2_scale(float *x, float a, size_t n)
{
    const __m256 va = _mm256_set1_ps(a);

    for (size_t i = 0; i < n; i += 8)
        avx2_put(x, i, _mm256_mul_ps(avx2_get(x + i, n - i), va), n - i);
}

void avx2_scale_add(float *y, const float *x, float a, size_t n)
{
    const __m256 va = _mm256_set1_ps(a);

    for (size_t i = 0; i < n; i += 8)
        avx2_put(y, i, _mm256_fmadd_ps(va, avx2_get(x + i, n - i), avx2_get(y + i, n - i)), n - i);
}

void avx2_rope_half(float *x, const float *cos, const float *sin, size_t half)
{
    for (size_t i = 0; i < half; i += 8) {
        size_t left = half - i;
        __m256 x1 = avx2_get(x + i, left), x2 = avx2_get(x + half + i, left);
        __m256 c = avx2_get(cos + i, left), s = avx2_get(sin + i, left);

        avx2_put(x, i, _mm256_fnmadd_ps(x2, s, _mm256_mul_ps(x1, c)), left);
        avx2_put(x, half + i, _mm256_fmadd_ps(x1, s, _mm256_mul_ps(x2, c)), left);
    }
}

/* A vector holds four pairs: each cosine and sine is spread to both lanes of its pair, the sines in even
 * lanes are negated, and a permute swaps the elements of each pair. */
void avx2_rope_pair(float *x, const float *cos, const float *sin, size_t half)
{
    const __m256i twice = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
    const __m256 even = _mm256_setr_ps(-0.0f, 0.0f, -0.0f, 0.0f, -0.0f, 0.0f, -0.0f, 0.0f);

    for (size_t i = 0; i < half; i += 4) {
        size_t left = half - i;
        __m256i some = avx2_first((ptrdiff_t)(left < 4 ? left : 4));
        __m256 c = _mm256_permutevar8x32_ps(_mm256_maskload_ps(cos + i, some), twice);
        __m256 s = _mm256_permutevar8x32_ps(_mm256_maskload_ps(sin + i, some), twice);
        __m256 v = avx2_get(x + 2 * i, 2 * left);
        __m256 swapped = _mm256_permute_ps(v, 0xb1);

        v = _mm256_fmadd_ps(swapped, _mm256_xor_ps(s, even), _mm256_mul_ps(v, c));
        avx2_put(x, 2 * i, v, 2 * left);
    }
}

/* Computes out = f(x). F is a constant at every call. */
AVX2_INLINE void act(float *out, const float *x, size_t n, enum kern_act f)
{
    for (size_t i = 0; i < n; i += 8)
        avx2_put(out, i, avx2_activate(avx2_get(x + i, n - i), f), n - i);
}

AVX2_INLINE void glu(float *out, const float *gate, const float *up, size_t n, enum kern_act f)
{
    for (size_t i = 0; i < n; i += 8) {
        __m256 y = avx2_activate(avx2_get(gate + i, n - i), f);

        avx2_put(out, i, _mm256_mul_ps(y, avx2_get(up + i, n - i)), n - i);
    }
}

#define EACH_ACT(CALL)                                  \
    switch (f) {                                        \
    case KERN_SILU: CALL(KERN_SILU); break;             \
    case KERN_GELU_TANH: CALL(KERN_GELU_TANH); break;   \
    case KERN_GELU_ERF: CALL(KERN_GELU_ERF); break;     \
    case KERN_GELU_QUICK: CALL(KERN_GELU_QUICK); break; \
    case KERN_RELU: CALL(KERN_RELU); break;             \
    case KERN_N_ACTS: break;                            \
    }

void avx2_act(float *out, const float *x, size_t n, enum kern_act f)
{
#define CALL(F) act(out, x, n, F)
    EACH_ACT(CALL)
#undef CALL
}

void avx2_glu(float *out, const float *gate, const float *up, size_t n, enum kern_act f)
{
#define CALL(F) glu(out, gate, up, n, F)
    EACH_ACT(CALL)
#undef CALL
}

void avx2_softcap(float *x, float cap, size_t n)
{
    const __m256 c = _mm256_set1_ps(cap);

    for (size_t i = 0; i < n; i += 8)
        avx2_put(x, i, _mm256_mul_ps(c, avx2_tanh(_mm256_div_ps(avx2_get(x + i, n - i), c))), n - i);
}

void avx2_to_bf16(uint16_t *out, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i += 8)
        avx2_put_bf16(out, i, avx2_get(x + i, n - i), n - i);
}

/* Returns the largest |x|. NaNs are ignored: MAXPS gives its second operand if either operand is NaN. */
static float largest_abs(const float *x, size_t n)
{
    __m256 best = _mm256_setzero_ps();

    for (size_t i = 0; i < n; i += 8)
        best = _mm256_max_ps(avx2_abs(avx2_get(x + i, n - i)), best);
    return avx2_fold_max(best);
}

void avx2_to_i8(int8_t *out, float *scale, const float *x, size_t n)
{
    const float m = largest_abs(x, n), inv = 127.0f / m;
    const __m256 by = _mm256_set1_ps(inv), top = _mm256_set1_ps(127.0f), bottom = _mm256_set1_ps(-127.0f);

    if (isinf(inv)) {
        *scale = 0;
        memset(out, 0, n);
        return;
    }
    *scale = m / 127.0f;
    for (size_t i = 0; i < n; i += 8) {
        __m256 y = _mm256_max_ps(_mm256_min_ps(_mm256_mul_ps(avx2_get(x + i, n - i), by), top), bottom);
        __m256i u = _mm256_cvtps_epi32(y);
        __m128i h = _mm_packs_epi32(_mm256_castsi256_si128(u), _mm256_extracti128_si256(u, 1));
        int64_t bytes = _mm_cvtsi128_si64(_mm_packs_epi16(h, h));

        memcpy(out + i, &bytes, n - i < 8 ? n - i : 8);
    }
}

/* Returns the largest x. NaNs are ignored: MAXPS gives its second operand if either operand is NaN. */
static float largest(const float *x, size_t n)
{
    const __m256 none = _mm256_set1_ps(-INFINITY);
    __m256 best[4] = {none, none, none, none};
    size_t i = 0;

    for (; n - i >= 32; i += 32)
        for (int j = 0; j < 4; j++)
            best[j] = _mm256_max_ps(_mm256_loadu_ps(x + i + 8 * j), best[j]);
    for (; i < n; i += 8) {
        __m256 v = avx2_get(x + i, n - i);

        v = _mm256_blendv_ps(none, v, _mm256_castsi256_ps(avx2_first((ptrdiff_t)(n - i))));
        best[0] = _mm256_max_ps(v, best[0]);
    }
    return avx2_fold_max(_mm256_max_ps(_mm256_max_ps(best[0], best[1]), _mm256_max_ps(best[2], best[3])));
}

float avx2_max(const float *x, size_t n)
{
    return largest(x, n) + 0.0f;
}

/* Computes the three stages of hadamard whose pairs are within a vector. */
static __m256 rotate_within(__m256 v)
{
    __m256 other = _mm256_permute_ps(v, 0xb1);

    v = _mm256_blend_ps(_mm256_add_ps(v, other), _mm256_sub_ps(other, v), 0xaa);
    other = _mm256_permute_ps(v, 0x4e);
    v = _mm256_blend_ps(_mm256_add_ps(v, other), _mm256_sub_ps(other, v), 0xcc);
    other = _mm256_permute2f128_ps(v, v, 1);
    return _mm256_blend_ps(_mm256_add_ps(v, other), _mm256_sub_ps(other, v), 0xf0);
}

void avx2_hadamard(float *x, size_t n)
{
    size_t block = kmath_rotated(n);
    __m256 norm = _mm256_set1_ps(1.0f / sqrtf((float)block));

    if (block < 8) {
        kmath_hadamard(x, n);
        return;
    }
    for (float *end = x + n; x < end; x += block) {
        for (size_t i = 0; i < block; i += 8)
            _mm256_storeu_ps(x + i, rotate_within(_mm256_loadu_ps(x + i)));
        for (size_t half = 8; half < block; half *= 2)
            for (size_t i = 0; i < block; i += 2 * half)
                for (size_t j = i; j < i + half; j += 8) {
                    __m256 a = _mm256_loadu_ps(x + j), b = _mm256_loadu_ps(x + j + half);

                    _mm256_storeu_ps(x + j, _mm256_add_ps(a, b));
                    _mm256_storeu_ps(x + j + half, _mm256_sub_ps(a, b));
                }
        for (size_t i = 0; i < block; i += 8)
            _mm256_storeu_ps(x + i, _mm256_mul_ps(_mm256_loadu_ps(x + i), norm));
    }
}

/* Finds the maximum, then the first element that equals it. If all elements are NaN, the result is 0. */
size_t avx2_argmax(const float *x, size_t n)
{
    const __m256 max = _mm256_set1_ps(largest(x, n));

    for (size_t i = 0; i < n; i += 8) {
        __m256 same = _mm256_cmp_ps(avx2_get(x + i, n - i), max, _CMP_EQ_OQ);
        int bits =
            _mm256_movemask_ps(_mm256_and_ps(same, _mm256_castsi256_ps(avx2_first((ptrdiff_t)(n - i)))));

        if (bits)
            return i + (size_t)__builtin_ctz((unsigned)bits);
    }
    return 0;
}

float avx2_exp_sum(const float *x, size_t n, float max)
{
    const __m256 m = _mm256_set1_ps(max);
    __m256 low = _mm256_setzero_ps(), high = _mm256_setzero_ps();
    size_t i = 0;

    for (; n - i >= 16; i += 16) {
        low = _mm256_add_ps(low, avx2_exp(_mm256_sub_ps(_mm256_loadu_ps(x + i), m)));
        high = _mm256_add_ps(high, avx2_exp(_mm256_sub_ps(_mm256_loadu_ps(x + i + 8), m)));
    }
    if (i < n) {
        ptrdiff_t left = (ptrdiff_t)(n - i);
        __m256 e = avx2_exp(_mm256_sub_ps(avx2_get(x + i, n - i), m));

        low = _mm256_add_ps(low, _mm256_and_ps(e, _mm256_castsi256_ps(avx2_first(left))));
        if (left > 8) {
            e = avx2_exp(_mm256_sub_ps(avx2_get(x + i + 8, n - i - 8), m));
            high = _mm256_add_ps(high, _mm256_and_ps(e, _mm256_castsi256_ps(avx2_first(left - 8))));
        }
    }
    return avx2_fold(low, high);
}

/* Returns d * exp(d) for d = x - max. A d below KMATH_EXP_MIN, also -infinity, counts as KMATH_EXP_MIN, whose
 * exp is 0. */
static __m256 weigh(__m256 x, __m256 max)
{
    __m256 d = _mm256_max_ps(_mm256_set1_ps(KMATH_EXP_MIN), _mm256_sub_ps(x, max));

    return _mm256_mul_ps(avx2_exp(d), d);
}

float avx2_exp_dot(const float *x, size_t n, float max)
{
    const __m256 m = _mm256_set1_ps(max);
    __m256 low = _mm256_setzero_ps(), high = _mm256_setzero_ps();
    size_t i = 0;

    for (; n - i >= 16; i += 16) {
        low = _mm256_add_ps(low, weigh(_mm256_loadu_ps(x + i), m));
        high = _mm256_add_ps(high, weigh(_mm256_loadu_ps(x + i + 8), m));
    }
    if (i < n) {
        ptrdiff_t left = (ptrdiff_t)(n - i);
        __m256 w = weigh(avx2_get(x + i, n - i), m);

        low = _mm256_add_ps(low, _mm256_and_ps(w, _mm256_castsi256_ps(avx2_first(left))));
        if (left > 8) {
            w = weigh(avx2_get(x + i + 8, n - i - 8), m);
            high = _mm256_add_ps(high, _mm256_and_ps(w, _mm256_castsi256_ps(avx2_first(left - 8))));
        }
    }
    return avx2_fold(low, high);
}

/* Transposes the words [i, i + 8) of eight columns to eight rows of a panel. Returns ANY with the result of
 * the finite-number test ORed in (see ref_pack_words()). */
AVX2_INLINE __m256i pack_square(uint32_t *panel, const char *const *column, size_t i, __m256i size,
                                __m256i add, __m256i any)
{
    __m256i in[8], pair[8], four[8];

    AVX2_UNROLL
    for (int c = 0; c < 8; c++) {
        in[c] = column[c] ? _mm256_loadu_si256((const __m256i *)(const void *)(column[c] + 4 * i))
                          : _mm256_setzero_si256();
        any = _mm256_or_si256(any, _mm256_add_epi32(_mm256_and_si256(in[c], size), add));
    }
    AVX2_UNROLL
    for (int c = 0; c < 8; c += 2) {
        pair[c] = _mm256_unpacklo_epi32(in[c], in[c + 1]);
        pair[c + 1] = _mm256_unpackhi_epi32(in[c], in[c + 1]);
    }
    AVX2_UNROLL
    for (int c = 0; c < 8; c += 4) {
        four[c] = _mm256_unpacklo_epi64(pair[c], pair[c + 2]);
        four[c + 1] = _mm256_unpackhi_epi64(pair[c], pair[c + 2]);
        four[c + 2] = _mm256_unpacklo_epi64(pair[c + 1], pair[c + 3]);
        four[c + 3] = _mm256_unpackhi_epi64(pair[c + 1], pair[c + 3]);
    }
    AVX2_UNROLL
    for (int r = 0; r < 4; r++) {
        __m256i *low = (__m256i *)(void *)(panel + (i + (size_t)r) * KERN_NR),
                *high = (__m256i *)(void *)(panel + (i + (size_t)r + 4) * KERN_NR);

        _mm256_storeu_si256(low, _mm256_permute2x128_si256(four[r], four[r + 4], 0x20));
        _mm256_storeu_si256(high, _mm256_permute2x128_si256(four[r], four[r + 4], 0x31));
    }
    return any;
}

bool avx2_pack_words(uint32_t *panel, const char *const *column, size_t n, bool bf16)
{
    const uint32_t sizes = bf16 ? 0x7fff7fff : 0x7fffffff, adds = bf16 ? 0x00800080 : 0x00800000;
    const __m256i size = _mm256_set1_epi32((int)sizes), add = _mm256_set1_epi32((int)adds);
    __m256i any = _mm256_setzero_si256();
    size_t whole = n / 8 * 8;
    uint32_t rest = 0;

    for (size_t i = 0; i < whole; i += 8)
        for (size_t c = 0; c < KERN_NR; c += 8)
            any = pack_square(panel + c, column + c, i, size, add, any);
    for (size_t i = whole; i < n; i++)
        for (size_t c = 0; c < KERN_NR; c++) {
            uint32_t word = 0;

            if (column[c])
                memcpy(&word, column[c] + i * sizeof(word), sizeof(word));
            rest |= (word & sizes) + adds;
            panel[i * KERN_NR + c] = word;
        }
    return !(rest & ~sizes) && _mm256_testc_si256(size, any);
}
