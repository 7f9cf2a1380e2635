/* avx512_attn.h - one chunk of attention in 512-bit rows: scores, softmax, weighted values, for
 * at most 12 rows at a time.
 *
 *   scores  a tile of 16 tokens is one zmm of scores a row: no horizontal sums. Up to 4 rows x 4 tiles (so
 *           that a lone row has four chains to hide the latency in), else 12 rows x 2 tiles; q is copied as
 *           the gemms copy A
 *   weights row by row: scale, softcap, mask, maximum, exp, 16-lane sum; then p as words for the third phase
 *   values  up to 4 rows x 64 dims, else 12 rows x 32 dims; tokens ascending through all tiles of the chunk
 *
 * Tiles that none of the rows sees are skipped; a token that one row does not see weighs +0 there, which
 * changes no sum but the sign of a zero, and the "+ 0" at the end takes that away. While scores are computed
 * the values of the same tiles and the keys of the next are asked for: a decoding step reads them from
 * memory, once.
 */
#ifndef GALLOP_KERN_AVX512_ATTN_H
#define GALLOP_KERN_AVX512_ATTN_H

#include "kern/avx512/avx512_tile.h"

enum {
    AVX512_ATTN_STRIDE = KERN_CHUNK, /* words between rows of the scratch */
};

/* Up to 12 rows of one call, and the tiles [t0, t1) that they see. */
struct avx512_attn {
    const struct kern_attn *a;
    size_t row, rows, t0, t1;
    uint32_t *q; /* AVX512_ROWS x AVX512_STRIDE words of q */
    float *s;    /* scratch: scores, then weights [rows][KERN_CHUNK] */
    uint32_t *p; /* scratch: weights as words of A, AVX512_ATTN_STRIDE apart; may be s */
};

/* Bytes of a tile of keys in a step, and of 16 dims of values: 16 floats, 16 pairs or 16 int8. */
SIMD512_INLINE size_t avx512_attn_line(enum avx512_kind kind)
{
    return kind == AVX512_I8 ? 16 : 64;
}

/* The scales of a tile of int8, behind its bytes. */
SIMD512_INLINE __m512 avx512_attn_scales(const void *tile, size_t dp)
{
    return _mm512_loadu_ps((const int8_t *)tile + KERN_TILE * dp);
}

/* Adds the dims [d, d + n) to the dot products of ROWS rows with the tiles [t, t + cols), or begins them. */
SIMD512_INLINE void avx512_attn_dots(const struct avx512_attn *o, size_t t, size_t d, size_t n, bool begin,
                                     int rows, int cols, enum avx512_kind kind)
{
    __m512 acc[AVX512_ROWS][AVX512_COLS];
    const char *k[AVX512_COLS], *v[AVX512_COLS], *next[AVX512_COLS];
    const uint32_t *q = o->q;
    float *s = o->s + t * KERN_TILE;
    size_t unit = avx512_tile_unit(kind), at = d / unit * avx512_attn_line(kind);

    /* Columns beyond the last tile repeat it and are not stored. */
    SIMD512_UNROLL
    for (int c = 0; c < AVX512_COLS; c++)
        if (c < cols) {
            size_t mine = t + (size_t)c < o->t1 ? t + (size_t)c : o->t1 - 1;

            k[c] = o->a->k_tile[mine];
            v[c] = o->a->v_tile[mine];
            next[c] = o->a->k_tile[mine + (size_t)cols < o->t1 ? mine + (size_t)cols : mine];
            SIMD512_UNROLL
            for (int r = 0; r < AVX512_ROWS; r++)
                if (r < rows)
                    acc[r][c] = !begin && t + (size_t)c < o->t1
                                    ? _mm512_loadu_ps(s + r * AVX512_ATTN_STRIDE + c * KERN_TILE)
                                    : _mm512_setzero_ps();
        }
    for (size_t i = 0; i < n; i += unit) {
        SIMD512_UNROLL
        for (int c = 0; c < AVX512_COLS; c++)
            if (c < cols) {
                _mm_prefetch(v[c] + at, _MM_HINT_T1);
                _mm_prefetch(next[c] + at, _MM_HINT_T0);
            }
        avx512_tile_step(acc, q, AVX512_STRIDE, k, at, rows, cols, kind);
        q += avx512_tile_words(kind);
        at += avx512_attn_line(kind);
    }
    SIMD512_UNROLL
    for (int c = 0; c < AVX512_COLS; c++)
        if (c < cols) {
            if (t + (size_t)c < o->t1) {
                SIMD512_UNROLL
                for (int r = 0; r < AVX512_ROWS; r++)
                    if (r < rows)
                        _mm512_storeu_ps(s + r * AVX512_ATTN_STRIDE + c * KERN_TILE, acc[r][c]);
            }
        }
}

/* out[rows, cols * 16 dims from dim d] = sum over the tokens of p x v. */
SIMD512_INLINE void avx512_attn_values(const struct avx512_attn *o, size_t d, int rows, int cols,
                                       enum avx512_kind kind)
{
    __m512 acc[AVX512_ROWS][AVX512_COLS];
    size_t line = o->a->dp / 16 * avx512_attn_line(kind), unit = avx512_tile_unit(kind),
           words = avx512_tile_words(kind);
    const uint32_t *p = o->p + o->t0 * (KERN_TILE / unit) * words;
    float *out = o->a->out + o->row * o->a->dp + d;

    SIMD512_UNROLL
    for (int r = 0; r < AVX512_ROWS; r++)
        if (r < rows)
            SIMD512_UNROLL
    for (int c = 0; c < AVX512_COLS; c++)
        if (c < cols)
            acc[r][c] = _mm512_setzero_ps();
    for (size_t t = o->t0; t < o->t1; t++) {
        const char *v[AVX512_COLS];

        SIMD512_UNROLL
        for (int c = 0; c < AVX512_COLS; c++)
            if (c < cols)
                v[c] = (const char *)o->a->v_tile[t] + (d / 16 + (size_t)c) * avx512_attn_line(kind);
        SIMD512_LOOP
        for (size_t i = 0, at = 0; i < KERN_TILE; i += unit, at += line, p += words)
            avx512_tile_step(acc, p, AVX512_ATTN_STRIDE, v, at, rows, cols, kind);
    }
    SIMD512_UNROLL
    for (int r = 0; r < AVX512_ROWS; r++)
        if (r < rows)
            SIMD512_UNROLL
    for (int c = 0; c < AVX512_COLS; c++)
        if (c < cols)
            _mm512_storeu_ps(out + (size_t)r * o->a->dp + c * 16,
                             _mm512_add_ps(acc[r][c], _mm512_setzero_ps()));
}

/* Lanes of the tile of tokens from J on that a row seeing [lo, hi) sees. */
SIMD512_INLINE __mmask16 avx512_attn_mask(size_t j, size_t lo, size_t hi)
{
    __mmask16 below = simd512_head(lo > j ? lo - j : 0), end = simd512_head(hi > j ? hi - j : 0);

    return (__mmask16)(end & ~below);
}

/* Stores the weights of one tile as words of A. */
SIMD512_INLINE void avx512_attn_put(uint32_t *p, size_t j, __m512 w, enum avx512_kind kind)
{
    if (kind == AVX512_F32 || kind == AVX512_I8)
        _mm512_storeu_ps(p + j, w);
    else if (kind == AVX512_WIDE)
        _mm512_storeu_si512(p + j, _mm512_slli_epi32(simd512_round_bf16(w), 16));
#if defined(__AVX512BF16__) || defined(KERN_EMULATE_AVX512)
    else
        _mm256_storeu_si256((__m256i *)(void *)(p + j / 2), simd512_flush_bf16(w));
#endif
}

/* The second phase for row R of the tile: its dot products become weights. */
SIMD512_INLINE void avx512_attn_weigh(const struct avx512_attn *o, size_t r, enum avx512_kind kind)
{
    const struct kern_attn *a = o->a;
    size_t lo = (size_t)a->lo[o->row + r], hi = (size_t)a->hi[o->row + r];
    float *s = o->s + r * AVX512_ATTN_STRIDE;
    uint32_t *p = o->p + r * AVX512_ATTN_STRIDE;
    __m512 top = _mm512_set1_ps(-INFINITY), sum = _mm512_setzero_ps(), x;
    float max;

    for (size_t j = o->t0 * KERN_TILE; j < o->t1 * KERN_TILE; j += KERN_TILE) {
        x = _mm512_loadu_ps(s + j);
        if (kind == AVX512_I8)
            x = _mm512_mul_ps(x, avx512_attn_scales(a->k_tile[j / KERN_TILE], a->dp));
        x = _mm512_mul_ps(_mm512_set1_ps(a->scale), x);
        if (a->softcap > 0)
            x = _mm512_mul_ps(_mm512_set1_ps(a->softcap),
                              simd512_tanh(_mm512_div_ps(x, _mm512_set1_ps(a->softcap))));
        _mm512_storeu_ps(s + j, x);
        top = _mm512_mask_max_ps(top, avx512_attn_mask(j, lo, hi), x, top);
    }
    max = simd512_fold_max(top) + 0.0f;
    for (size_t j = o->t0 * KERN_TILE; j < o->t1 * KERN_TILE; j += KERN_TILE) {
        x = simd512_exp(_mm512_sub_ps(_mm512_loadu_ps(s + j), _mm512_set1_ps(max)));
        x = _mm512_maskz_mov_ps(avx512_attn_mask(j, lo, hi), x);
        sum = _mm512_add_ps(sum, x);
        if (kind == AVX512_I8)
            x = _mm512_mul_ps(x, avx512_attn_scales(a->v_tile[j / KERN_TILE], a->dp));
        avx512_attn_put(p, j, x, kind);
    }
    a->max[o->row + r] = max;
    a->sum[o->row + r] = simd512_fold_add(sum);
}

/* The micro-kernels of a kind: [rows - 1]. */
typedef void avx512_attn_dots_fn(const struct avx512_attn *o, size_t t, size_t d, size_t n, bool begin);
typedef void avx512_attn_values_fn(const struct avx512_attn *o, size_t d);

struct avx512_attn_micro {
    avx512_attn_dots_fn *dots[AVX512_ROWS];     /* 4 tiles up to 4 rows, then 2 */
    avx512_attn_values_fn *values[AVX512_ROWS]; /* 4 x 16 dims up to 4 rows, then 2 x 16 */
    avx512_attn_values_fn *narrow[AVX512_ROWS]; /* 16 dims */
};

#define AVX512_ATTN_FN(rows, kind)                                                                 \
    static void dots_##rows(const struct avx512_attn *o, size_t t, size_t d, size_t n, bool begin) \
    {                                                                                              \
        avx512_attn_dots(o, t, d, n, begin, rows, rows <= 4 ? 4 : 2, kind);                        \
    }                                                                                              \
    static void values_##rows(const struct avx512_attn *o, size_t d)                               \
    {                                                                                              \
        avx512_attn_values(o, d, rows, rows <= 4 ? 4 : 2, kind);                                   \
    }                                                                                              \
    static void narrow_##rows(const struct avx512_attn *o, size_t d)                               \
    {                                                                                              \
        avx512_attn_values(o, d, rows, 1, kind);                                                   \
    }
#define AVX512_ATTN_LIST(f)                                                                   \
    {                                                                                         \
        f##_1, f##_2, f##_3, f##_4, f##_5, f##_6, f##_7, f##_8, f##_9, f##_10, f##_11, f##_12 \
    }
#define AVX512_ATTN_TABLE(kind)                                                                      \
    AVX512_ATTN_FN(1, kind)                                                                          \
    AVX512_ATTN_FN(2, kind)                                                                          \
    AVX512_ATTN_FN(3, kind)                                                                          \
    AVX512_ATTN_FN(4, kind)                                                                          \
    AVX512_ATTN_FN(5, kind)                                                                          \
    AVX512_ATTN_FN(6, kind)                                                                          \
    AVX512_ATTN_FN(7, kind)                                                                          \
    AVX512_ATTN_FN(8, kind)                                                                          \
    AVX512_ATTN_FN(9, kind)                                                                          \
    AVX512_ATTN_FN(10, kind)                                                                         \
    AVX512_ATTN_FN(11, kind)                                                                         \
    AVX512_ATTN_FN(12, kind)                                                                         \
    static const struct avx512_attn_micro micro = {AVX512_ATTN_LIST(dots), AVX512_ATTN_LIST(values), \
                                                   AVX512_ATTN_LIST(narrow)}

#if defined(__AVX512BF16__) || defined(KERN_EMULATE_AVX512)
/* Pairs of the dims [d, d + n) of q as words: rounded, or (LOW) what rounding took away, rounded. */
SIMD512_INLINE void avx512_attn_split(const struct avx512_attn *o, size_t d, size_t n, bool low)
{
    for (size_t r = 0; r < o->rows; r++) {
        const float *q = (const float *)o->a->q + (o->row + r) * o->a->dp + d;
        uint32_t *to = o->q + r * AVX512_STRIDE;

        for (size_t i = 0; i < n; i += 16) {
            __m512 x = _mm512_loadu_ps(q + i);
            __m512i h = simd512_round_bf16(x);

            if (low)
                h = simd512_round_bf16(_mm512_sub_ps(x, _mm512_castsi512_ps(_mm512_slli_epi32(h, 16))));
            _mm256_storeu_si256((__m256i *)(void *)(to + i / 2), _mm512_cvtepi32_epi16(h));
        }
    }
}
#endif

/* The first phase: all dims of q, in bf16 dots once rounded and once the rest. */
SIMD512_INLINE void avx512_attn_scores(const struct avx512_attn *o, const struct avx512_attn_micro *micro,
                                       enum avx512_kind kind)
{
    size_t dp = o->a->dp, wide = o->rows <= 4 ? 4 : 2;
    size_t most = AVX512_WORDS / avx512_tile_words(kind) * avx512_tile_unit(kind);

    for (int low = 0; low < (kind == AVX512_DOT ? 2 : 1); low++)
        for (size_t d = 0; d < dp; d += most) {
            size_t n = dp - d < most ? dp - d : most;

#if defined(__AVX512BF16__) || defined(KERN_EMULATE_AVX512)
            if (kind == AVX512_DOT)
                avx512_attn_split(o, d, n, low);
            else
#endif
                avx512_tile_fill(o->q, o->a->q, dp, o->row, o->rows, d, n, AVX512_F32);
            for (size_t t = o->t0; t < o->t1; t += wide)
                micro->dots[o->rows - 1](o, t, d, n, low == 0 && d == 0);
        }
}

/* All three phases for the rows of O. */
SIMD512_INLINE void avx512_attn_rows(struct avx512_attn *o, const struct avx512_attn_micro *micro,
                                     enum avx512_kind kind)
{
    size_t dp = o->a->dp, wide = o->rows <= 4 ? 4 : 2;

    avx512_attn_scores(o, micro, kind);
    for (size_t r = 0; r < o->rows; r++)
        avx512_attn_weigh(o, r, kind);
    for (size_t d = 0; d < dp;) {
        if (dp - d >= wide * 16) {
            micro->values[o->rows - 1](o, d);
            d += wide * 16;
        } else {
            micro->narrow[o->rows - 1](o, d);
            d += 16;
        }
    }
}

SIMD512_INLINE void avx512_attn_drive(const struct kern_attn *a, const struct avx512_attn_micro *micro,
                                      enum avx512_kind kind)
{
    _Alignas(64) uint32_t q[AVX512_ROWS * AVX512_STRIDE];
    struct avx512_attn o = {.a = a, .q = q, .s = a->scratch, .p = (uint32_t *)(void *)a->scratch};
    size_t tiles = (a->m + AVX512_ROWS - 1) / AVX512_ROWS;

    if (kind != AVX512_F32 && kind != AVX512_I8)
        o.p += KERN_ATTN_ROWS * KERN_CHUNK;
    for (size_t i = 0; i < tiles; i++) {
        int32_t lo = INT32_MAX, hi = 0;

        o.row = a->m * i / tiles;
        o.rows = a->m * (i + 1) / tiles - o.row;
        for (size_t r = o.row; r < o.row + o.rows; r++) {
            if (a->lo[r] >= a->hi[r])
                continue;
            lo = a->lo[r] < lo ? a->lo[r] : lo;
            hi = a->hi[r] > hi ? a->hi[r] : hi;
        }
        o.t0 = hi > lo ? (size_t)lo / KERN_TILE : 0;
        o.t1 = hi > lo ? ((size_t)hi + KERN_TILE - 1) / KERN_TILE : 0;
        avx512_attn_rows(&o, micro, kind);
    }
}

#endif
