/* avx512_attn_parts.h - the parts in which the kinds of attention differ: how a row of q and a row of weights
 * become 32-bit words, the left operand A, and how accumulators become dot products and outputs.
 *
 *   AVX512_F32, WIDE, I8  words are floats (in WIDE, weights are rounded to bf16)
 *   AVX512_DOT            words are pairs of bf16
 *   AVX512_I8_KEYS        words are four 8-bit integers: q = step * integer, weight = step * unsigned integer.
 *                         Sums of integers are exact, so their order does not matter
 */
#ifndef GALLOP_KERN_AVX512_ATTN_PARTS_H
#define GALLOP_KERN_AVX512_ATTN_PARTS_H

#include "kern/attention.h"
#include "kern/avx512/avx512_tile.h"
#include "kern/prefetch.h"

enum {
    AVX512_ATTN_LINE = 64,          /* bytes of keys in a step: one word for each of 16 tokens */
    AVX512_ATTN_SOME = 4,           /* rows whose weights are computed together */
    AVX512_ATTN_LEAD = 12288,       /* bytes to prefetch ahead (measured) */
    AVX512_ATTN_TWICE = 8,          /* maximum query rows that prefetch each line twice (see avx512_attn.h) */
    AVX512_ATTN_LEAD_LEVEL2 = 8192, /* bytes to prefetch ahead if lines go into L2 only */
};

/* The state of the query rows that are computed together, at most 12, and the range of tiles [t0, t1) that
 * they see. The kernels of amx/ use it for up to 16 rows and leave the arrays of AVX512_ROWS elements
 * unused. */
struct avx512_attn {
    const struct kern_attn *a;
    size_t row, rows, t0, t1;
    size_t tile_bytes;          /* bytes of a tile without its scales */
    size_t lead;                /* tiles to prefetch ahead of the current ones */
    bool level2;                /* prefetch into L2 only */
    struct prefetch_attn ahead; /* the lines that the second phase prefetches */
    size_t lines;               /* lines that the second phase prefetches with each tile */
    uint32_t *q;                /* [AVX512_ROWS][AVX512_STRIDE] words of q */
    float *s;                   /* scratch: scores, then weights [rows][KERN_CHUNK] */
    uint32_t *p;                /* scratch: weights as words of A, rows KERN_CHUNK apart; may equal s */
    float q_step[AVX512_ROWS], p_step[AVX512_ROWS];
    int32_t begin[AVX512_ROWS]; /* start of each row's sums: -128 * (sum of q), as keys are read as k + 128 */
};

SIMD512_INLINE bool avx512_attn_is_i8(enum avx512_kind kind)
{
    return kind == AVX512_I8 || kind == AVX512_I8_KEYS;
}

SIMD512_INLINE enum avx512_kind avx512_attn_p_kind(enum avx512_kind kind)
{
    return kind == AVX512_I8_KEYS ? AVX512_I8_VALS : kind;
}

/* Returns the scales of an int8 tile, which are stored after its bytes. */
SIMD512_INLINE __m512 avx512_attn_scales(const void *tile, size_t dp)
{
    return _mm512_loadu_ps((const int8_t *)tile + KERN_TILE * dp);
}

#if defined(__AVX512BF16__) || defined(KERN_EMULATE_AVX512)
/* Stores N dims of q as words of two bf16. Subnormals become zeros, as VDPBF16PS treats them. */
SIMD512_INLINE void avx512_attn_fill_pairs(uint32_t *to, const float *q, size_t n)
{
    for (size_t i = 0; i < n; i += 16)
        _mm256_storeu_si256((__m256i *)(void *)(to + i / 2), simd512_flush_bf16(_mm512_loadu_ps(q + i)));
}
#endif

/* Sets q_step[R], the scale with which query row R is quantized: its largest |q| becomes 127. Returns 1 /
 * scale, by which the row is multiplied before rounding. If an element is not finite, the scale is NaN. */
SIMD512_INLINE float avx512_attn_scale_fours(struct avx512_attn *o, size_t r)
{
    const float *q = (const float *)o->a->q + (o->row + r) * o->a->dp;
    __m512 most = _mm512_setzero_ps(), x;
    __mmask16 nan = 0;
    float max, inv;

    for (size_t i = 0; i < o->a->dp; i += 16) {
        x = _mm512_loadu_ps(q + i);
        nan |= _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
        most = _mm512_max_ps(simd512_abs(x), most);
    }
    max = simd512_fold_max(most);
    inv = KERN_I8_QUERY / max;
    if (!(inv < INFINITY))
        inv = max = 0;
    o->q_step[r] = nan || max == INFINITY ? NAN : max / KERN_I8_QUERY;
    return inv;
}

/* Stores query row R, multiplied by INV and rounded to integers, and the start of its sums. The integers are
 * bounded, so that elements that are not finite do not overflow the sums. */
SIMD512_INLINE void avx512_attn_fill_fours(struct avx512_attn *o, size_t r, float inv)
{
    const float *q = (const float *)o->a->q + (o->row + r) * o->a->dp;
    uint32_t *to = o->q + r * AVX512_STRIDE;
    __m512i sum = _mm512_setzero_si512();
    const __m512 bound = _mm512_set1_ps(-KERN_I8_QUERY);

    for (size_t i = 0; i < o->a->dp; i += 16) {
        __m512 x = _mm512_mul_ps(_mm512_loadu_ps(q + i), _mm512_set1_ps(inv));
        __m512i n = _mm512_cvtps_epi32(_mm512_max_ps(x, bound));

        sum = _mm512_add_epi32(sum, n);
        _mm_storeu_si128((__m128i *)(void *)(to + i / 4), _mm512_cvtepi32_epi8(n));
    }
    o->begin[r] = -128 * simd512_fold_add_i32(sum);
}

/* Rounds the weights of row R to unsigned 8-bit integers, so that MOST, the largest weight, becomes 255, and
 * stores them as words. */
SIMD512_INLINE void avx512_attn_put_fours(struct avx512_attn *o, size_t r, float most)
{
    const float *w = o->s + r * KERN_CHUNK;
    uint32_t *p = o->p + r * KERN_CHUNK;
    float inv = KERN_I8_WEIGHT / most;

    if (!(inv < INFINITY))
        inv = most = 0;
    o->p_step[r] = most / KERN_I8_WEIGHT;
    for (size_t j = o->t0 * KERN_TILE; j < o->t1 * KERN_TILE; j += KERN_TILE) {
        __m512i n = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(w + j), _mm512_set1_ps(inv)));

        _mm_storeu_si128((__m128i *)(void *)(p + j / 4), _mm512_cvtepi32_epi8(n));
    }
}

/* Stores all rows of q as words. */
SIMD512_INLINE void avx512_attn_fill(struct avx512_attn *o, enum avx512_kind kind)
{
    const size_t dp = o->a->dp;
    const float *q = (const float *)o->a->q + o->row * dp;
    float inv[AVX512_ROWS];

    if (kind ==
        AVX512_I8_KEYS) { /* in two passes, so that the maxima of several rows are computed in parallel */
        for (size_t r = 0; r < o->rows; r++)
            inv[r] = avx512_attn_scale_fours(o, r);
        for (size_t r = 0; r < o->rows; r++)
            avx512_attn_fill_fours(o, r, inv[r]);
#if defined(__AVX512BF16__) || defined(KERN_EMULATE_AVX512)
    } else if (kind == AVX512_DOT) {
        for (size_t r = 0; r < o->rows; r++)
            avx512_attn_fill_pairs(o->q + r * AVX512_STRIDE, q + r * dp, dp);
#endif
    } else {
        for (size_t r = 0; r < o->rows; r++)
            avx512_tile_fill_f32(o->q + r * AVX512_STRIDE, q + r * dp, dp);
    }
}

/* Returns the initial accumulator of row ROW of q. */
SIMD512_INLINE __m512 avx512_attn_begin(const struct avx512_attn *o, size_t row, enum avx512_kind kind)
{
    if (kind == AVX512_I8_KEYS)
        return _mm512_castsi512_ps(_mm512_set1_epi32(o->begin[row]));
    return _mm512_setzero_ps();
}

/* Converts an accumulator to dot products or outputs as floats: sums of integers are multiplied by STEP. */
SIMD512_INLINE __m512 avx512_attn_sum(__m512 sum, float step, enum avx512_kind kind)
{
    if (kind == AVX512_I8_KEYS)
        return _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_castps_si512(sum)), _mm512_set1_ps(step));
    return sum;
}

/* Rounds weights, which are not negative, to bf16 and widens them again. Taking the minimum limits the bits
 * of a NaN, so that the addition does not carry into the sign. */
SIMD512_INLINE __m512i avx512_attn_round(__m512 w)
{
    __m512i u = _mm512_min_epu32(_mm512_castps_si512(w), _mm512_set1_epi32(0x7fff0000));
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));

    u = _mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x7fff)), odd);
    return _mm512_and_si512(u, _mm512_set1_epi32((int)0xffff0000u));
}

/* Stores W, a query row's weights of the 16 tokens from J on: in P as words of bf16, or in S as floats. These
 * are words of A already, or with AVX512_I8_KEYS avx512_attn_put_fours() turns them into words later. */
SIMD512_INLINE void avx512_attn_put(uint32_t *p, float *s, size_t j, __m512 w, enum avx512_kind kind)
{
    if (kind == AVX512_WIDE)
        _mm512_storeu_si512(p + j, avx512_attn_round(w));
#if defined(__AVX512BF16__) || defined(KERN_EMULATE_AVX512)
    else if (kind == AVX512_DOT)
        _mm256_storeu_si256((__m256i *)(void *)(p + j / 2), simd512_flush_bf16(w));
#endif
    else
        _mm512_storeu_ps(s + j, w);
}

#endif
