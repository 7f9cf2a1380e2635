/* avx512_attn.h - one chunk of attention with 512-bit vectors, in three phases, for at most 12 rows at a
 * time.
 *
 *   scores  a tile of 16 tokens is one zmm of scores for each row, so no horizontal sums are needed
 *   weights row by row: scale, softcap, mask, maximum, exp, 16-lane sum; stored as words of operand A
 *   values  sums of weighted values, tokens ascending through all tiles of the chunk
 *
 * A query row becomes a row of words (avx512_attn_parts.h). The sums in registers are 12 rows x 2 zmm, or up
 * to 4 x 4, so that a single row has four chains to hide the latency.
 *
 * Tiles that no row sees are skipped. If some rows do not see a token of a tile, its weight in these rows is
 * +0. A weight of +0 changes no sum except for the sign of a zero, and the "+ 0" at the end makes zeros
 * positive.
 *
 * A decoding step reads keys and values from memory once, and arithmetic must not wait for memory. Every
 * phase prefetches the lines that are read some tiles later, as many lines as it reads itself: first the keys
 * of the chunk, then its values, then the keys of the next chunk (kern_attn.next). Prefetching follows the
 * order of memory, because four tiles side by side are more streams than the hardware prefetcher follows (25
 * GB/s, against 43 GB/s with one stream).
 *
 * A core drops prefetches while as many lines are in flight as it can track (Zen 5: 64), and a call with few
 * query rows prefetches faster than memory answers: of 16 KB prefetched at 72 GB/s most lines were missing
 * later, at 52 GB/s all were present. Such a call therefore prefetches each line twice, the second time half
 * as far ahead.
 */
#ifndef GALLOP_KERN_AVX512_ATTN_H
#define GALLOP_KERN_AVX512_ATTN_H

#include "kern/attention.h"
#include "kern/avx512/avx512_attn_parts.h"

/* Sets up the prefetches of the second phase: each tile of weights prefetches a few lines of the next tiles of values,
 * beginning after the tiles that were prefetched already. */
SIMD512_INLINE void avx512_attn_look(struct avx512_attn *o)
{
    size_t n = o->t1 - o->t0, steps = o->rows * n, lines = o->lead * o->tile_bytes / 64;

    o->ahead = prefetch_attn_from(o->a, o->t0, o->t1, o->tile_bytes, n + o->lead, n + 2 * o->lead);
    o->lines = (AVX512_ATTN_SOME * lines + steps - 1) / steps;
}

/* Prefetches COLS lines from AHEAD on. With at most AVX512_ATTN_TWICE query rows, prefetches COLS lines from AGAIN on a
 * second time. */
SIMD512_INLINE void avx512_attn_ask(const char *ahead, const char *again, int rows, int cols, bool level2)
{
    SIMD512_UNROLL
    for (int c = 0; c < AVX512_COLS; c++)
        if (c < cols) {
            prefetch_line(ahead + c * PREFETCH_LINE, level2);
            if (rows <= AVX512_ATTN_TWICE)
                prefetch_line(again + c * PREFETCH_LINE, level2);
        }
}

/* Computes the first phase: the dot products of ROWS query rows with the key tiles [t, t + cols). */
SIMD512_INLINE void avx512_attn_dots(const struct avx512_attn *o, size_t t, int rows, int cols,
                                     enum avx512_kind kind)
{
    __m512 acc[AVX512_MOST_ROWS][AVX512_COLS];
    const char *k[AVX512_COLS];
    const uint32_t *q = o->q;
    const size_t line = AVX512_ATTN_LINE, steps = o->a->dp / avx512_tile_unit(kind);
    const bool level2 = o->level2;
    size_t at = 0;

    /* Columns beyond the last tile compute the last tile again; their results are not stored. */
    SIMD512_UNROLL
    for (int c = 0; c < AVX512_COLS; c++)
        if (c < cols) {
            size_t mine = t + (size_t)c < o->t1 ? t + (size_t)c : o->t1 - 1;

            k[c] = o->a->k_tile[mine];
            SIMD512_UNROLL
            for (int i = 0; i < AVX512_ROWS; i++)
                if (i < rows)
                    acc[i][c] = avx512_attn_begin(o, (size_t)i, kind);
        }
    SIMD512_LOOP
    for (int tile = 0; tile < cols; tile++) {
        const size_t now = t - o->t0 + (size_t)tile;
        const char *ahead = prefetch_attn_tile(o->a, o->t0, o->t1, now + o->lead),
                   *again = prefetch_attn_tile(o->a, o->t0, o->t1, now + o->lead / 2);

        if (avx512_attn_is_i8(kind))
            prefetch_line(ahead + steps * line, level2);
        SIMD512_LOOP
        for (size_t i = 0; i < steps / (size_t)cols; i++, at += line) {
            avx512_attn_ask(ahead, again, rows, cols, level2);
            ahead += (size_t)cols * line;
            again += (size_t)cols * line;
            avx512_tile_step(acc, q, AVX512_STRIDE, k, at, rows, cols, kind);
            q += avx512_tile_words(kind);
        }
    }
    SIMD512_UNROLL
    for (int c = 0; c < AVX512_COLS; c++)
        if (c < cols && t + (size_t)c < o->t1) {
            __m512 scales = _mm512_setzero_ps();

            if (avx512_attn_is_i8(kind))
                scales = avx512_attn_scales(k[c], o->a->dp);
            SIMD512_UNROLL
            for (int i = 0; i < AVX512_ROWS; i++)
                if (i < rows) {
                    __m512 s = avx512_attn_sum(acc[i][c], o->q_step[i], kind);

                    if (avx512_attn_is_i8(kind))
                        s = _mm512_mul_ps(s, scales);
                    _mm512_storeu_ps(o->s + (size_t)i * KERN_CHUNK + (t + (size_t)c) * KERN_TILE, s);
                }
        }
}

/* Computes the third phase: out[rows, cols * 16 dims from dim d on] = sum over the tokens of p x v. */
SIMD512_INLINE void avx512_attn_values(const struct avx512_attn *o, size_t d, int rows, int cols,
                                       enum avx512_kind kind)
{
    __m512 acc[AVX512_MOST_ROWS][AVX512_COLS];
    const enum avx512_kind by = avx512_attn_p_kind(kind);
    const size_t unit = avx512_tile_unit(by), words = avx512_tile_words(by), line = o->a->dp / 16 * 64;
    const uint32_t *p = o->p + o->t0 * (KERN_TILE / unit) * words;
    const bool level2 = o->level2;

    SIMD512_UNROLL
    for (int i = 0; i < AVX512_ROWS; i++)
        if (i < rows)
            SIMD512_UNROLL
    for (int c = 0; c < AVX512_COLS; c++)
        if (c < cols)
            acc[i][c] = _mm512_setzero_ps();
    for (size_t t = o->t0; t < o->t1; t++) {
        const size_t now = o->t1 - o->t0 + t - o->t0;
        const char *v[AVX512_COLS], *ahead = prefetch_attn_tile(o->a, o->t0, o->t1, now + 2 * o->lead),
                                    *again = prefetch_attn_tile(o->a, o->t0, o->t1, now + o->lead / 2);

        SIMD512_UNROLL
        for (int c = 0; c < AVX512_COLS; c++)
            if (c < cols)
                v[c] = (const char *)o->a->v_tile[t] + (d / 16 + (size_t)c) * 64;
        if (avx512_attn_is_i8(kind) && d == 0)
            prefetch_line(ahead + o->a->dp * KERN_TILE, level2);
        ahead += d * 4;
        again += d * 4;
        if (by == AVX512_I8_VALS) {
            SIMD512_UNROLL
            for (size_t i = 0; i < KERN_TILE / 4; i++, p++) {
                avx512_attn_ask(ahead + i * line, again + i * line, rows, cols, level2);
                avx512_tile_step(acc, p, KERN_CHUNK, v, i * line, rows, cols, by);
            }
            continue;
        }
        SIMD512_LOOP
        for (size_t i = 0; i < KERN_TILE / unit; i++, p += words) {
            avx512_attn_ask(ahead + i * line, again + i * line, rows, cols, level2);
            avx512_tile_step(acc, p, KERN_CHUNK, v, i * line, rows, cols, by);
        }
    }
    SIMD512_UNROLL
    for (int i = 0; i < AVX512_ROWS; i++)
        if (i < rows) {
            float *out = o->a->out + (o->row + (size_t)i) * o->a->dp + d;

            SIMD512_UNROLL
            for (int c = 0; c < AVX512_COLS; c++)
                if (c < cols)
                    _mm512_storeu_ps(
                        out + c * 16,
                        _mm512_add_ps(avx512_attn_sum(acc[i][c], o->p_step[i], kind), _mm512_setzero_ps()));
        }
}

/* Returns a mask of the tokens J to J + 15 that are in [lo, hi), the tokens that a row sees. */
SIMD512_INLINE __mmask16 avx512_attn_mask(size_t j, size_t lo, size_t hi)
{
    __mmask16 below, end;

    if (lo <= j && j + KERN_TILE <= hi)
        return SIMD512_ALL;
    below = simd512_head(lo > j ? lo - j : 0);
    end = simd512_head(hi > j ? hi - j : 0);
    return (__mmask16)(end & ~below);
}

/* Up to AVX512_ATTN_SOME rows whose weights are computed together, so that they hide each other's latency. */
struct avx512_attn_some {
    struct avx512_attn *o;
    size_t r;                    /* the first row */
    float *s;                    /* the dot products of the first row; rows begin KERN_CHUNK apart */
    uint32_t *p;                 /* the words of weights of the first row; rows begin KERN_CHUNK apart */
    size_t from, to;             /* the range of tokens whose tiles all of these rows see completely */
    float by, twos;              /* by * dot product = score; twos * dot product = score / ln 2 */
    float top[AVX512_ATTN_SOME]; /* the largest score / ln 2 of each row */
    __m512 sum[AVX512_ATTN_SOME], most[AVX512_ATTN_SOME];
};

/* Returns a mask of the tokens J to J + 15 that row I of W sees; all of them if WHOLE. */
SIMD512_INLINE __mmask16 avx512_attn_seen(const struct avx512_attn_some *w, size_t j, int i, bool whole)
{
    const struct kern_attn *a = w->o->a;
    size_t row = w->o->row + w->r + (size_t)i;

    return whole ? SIMD512_ALL : avx512_attn_mask(j, (size_t)a->lo[row], (size_t)a->hi[row]);
}

SIMD512_INLINE void avx512_attn_some_begin(struct avx512_attn_some *w, int n)
{
    const struct kern_attn *a = w->o->a;
    size_t from = w->o->t0 * KERN_TILE, to = w->o->t1 * KERN_TILE;

    for (int i = 0; i < n; i++) {
        size_t row = w->o->row + w->r + (size_t)i, lo = (size_t)a->lo[row], hi = (size_t)a->hi[row];

        from = lo > from ? lo : from;
        to = hi < to ? hi : to;
    }
    w->from = (from + KERN_TILE - 1) / KERN_TILE * KERN_TILE;
    w->to = to / KERN_TILE * KERN_TILE;
}

/* Replaces the dot products S of the tokens [from, to) by scores. Callers skip it if there is no soft cap and
 * the scale is positive, because then the order of the dot products is that of the scores. */
SIMD512_INLINE void avx512_attn_cap(const struct kern_attn *a, float *s, size_t from, size_t to)
{
    const __m512 scale = _mm512_set1_ps(a->scale), cap = _mm512_set1_ps(a->softcap);

    for (size_t j = from; j < to; j += KERN_TILE) {
        __m512 x = _mm512_mul_ps(scale, _mm512_loadu_ps(s + j));

        if (a->softcap > 0)
            x = _mm512_mul_ps(cap, simd512_tanh(_mm512_div_ps(x, cap)));
        _mm512_storeu_ps(s + j, x);
    }
}

/* Sets the largest score, and the largest score / ln 2, of N rows. Each is the largest dot product times a
 * positive number, because rounding is monotonic. */
SIMD512_INLINE void avx512_attn_top(struct avx512_attn_some *w, int n)
{
    const struct avx512_attn *o = w->o;
    __m512 top[AVX512_ATTN_SOME];

    SIMD512_UNROLL
    for (int i = 0; i < AVX512_ATTN_SOME; i++)
        top[i] = _mm512_set1_ps(-INFINITY);
    for (size_t j = o->t0 * KERN_TILE; j < o->t1 * KERN_TILE; j += KERN_TILE) {
        const float *s = w->s + j;
        bool whole = w->from <= j && j < w->to;

        SIMD512_UNROLL
        for (int i = 0; i < AVX512_ATTN_SOME; i++)
            if (i < n) {
                __m512 x = _mm512_loadu_ps(s + (size_t)i * KERN_CHUNK);

                top[i] = whole ? _mm512_max_ps(x, top[i])
                               : _mm512_mask_max_ps(top[i], avx512_attn_seen(w, j, i, false), x, top[i]);
            }
    }
    SIMD512_UNROLL
    for (int i = 0; i < AVX512_ATTN_SOME; i++)
        if (i < n) {
            float most = simd512_fold_max(top[i]);

            o->a->max[o->row + w->r + (size_t)i] = w->by * most + 0.0f;
            w->top[i] = w->twos * most;
        }
}

/* Replaces the dot products of the tokens J to J + 15 by weights. WHOLE: all rows see all of these tokens. */
SIMD512_INLINE void avx512_attn_weigh_tile(struct avx512_attn_some *w, size_t j, int n, bool whole,
                                           enum avx512_kind kind)
{
    __m512 scales = _mm512_setzero_ps(), x;

    if (avx512_attn_is_i8(kind))
        scales = avx512_attn_scales(w->o->a->v_tile[j / KERN_TILE], w->o->a->dp);
    SIMD512_UNROLL
    for (int i = 0; i < AVX512_ATTN_SOME; i++)
        if (i < n) {
            x = _mm512_loadu_ps(w->s + i * KERN_CHUNK + j);
            x = simd512_exp2(
                _mm512_sub_ps(_mm512_mul_ps(_mm512_set1_ps(w->twos), x), _mm512_set1_ps(w->top[i])));
            if (!whole)
                x = _mm512_maskz_mov_ps(avx512_attn_seen(w, j, i, false), x);
            w->sum[i] = _mm512_add_ps(w->sum[i], x);
            if (avx512_attn_is_i8(kind))
                x = _mm512_mul_ps(x, scales);
            if (kind == AVX512_I8_KEYS)
                w->most[i] = _mm512_max_ps(x, w->most[i]);
            avx512_attn_put(w->p + i * KERN_CHUNK, w->s + i * KERN_CHUNK, j, x, kind);
        }
}

/* Computes the second phase for N rows from row R on: replaces their dot products by weights. */
SIMD512_INLINE void avx512_attn_weigh(struct avx512_attn *o, size_t r, int n, enum avx512_kind kind)
{
    const struct kern_attn *a = o->a;
    const size_t from = o->t0 * KERN_TILE, to = o->t1 * KERN_TILE;
    struct avx512_attn_some w = {
        .o = o, .r = r, .s = o->s + r * KERN_CHUNK, .p = o->p + r * KERN_CHUNK, .by = a->scale};

    if (a->softcap > 0 || !(w.by > 0)) {
        for (int i = 0; i < n; i++)
            avx512_attn_cap(a, w.s + i * KERN_CHUNK, from, to);
        w.by = 1;
    }
    w.twos = w.by * KMATH_LOG2E;
    avx512_attn_some_begin(&w, n);
    avx512_attn_top(&w, n);
    SIMD512_UNROLL
    for (int i = 0; i < AVX512_ATTN_SOME; i++)
        w.most[i] = w.sum[i] = _mm512_setzero_ps();
    for (size_t j = from; j < to; j += KERN_TILE) {
        prefetch_attn_ask(&o->ahead, o->lines);
        if (w.from <= j && j < w.to)
            avx512_attn_weigh_tile(&w, j, n, true, kind);
        else
            avx512_attn_weigh_tile(&w, j, n, false, kind);
    }
    SIMD512_UNROLL
    for (int i = 0; i < AVX512_ATTN_SOME; i++)
        if (i < n) {
            a->sum[o->row + r + (size_t)i] = simd512_fold_add(w.sum[i]);
            if (kind == AVX512_I8_KEYS)
                avx512_attn_put_fours(o, r + (size_t)i, simd512_fold_max(w.most[i]));
        }
}

/* Computes the second phase for all rows. */
SIMD512_INLINE void avx512_attn_weigh_all(struct avx512_attn *o, enum avx512_kind kind)
{
    size_t n = 0;

    if (o->t0 < o->t1)
        avx512_attn_look(o);
    for (; n + AVX512_ATTN_SOME <= o->rows; n += AVX512_ATTN_SOME)
        avx512_attn_weigh(o, n, AVX512_ATTN_SOME, kind);
    if (n + 2 <= o->rows) {
        avx512_attn_weigh(o, n, 2, kind);
        n += 2;
    }
    if (n < o->rows)
        avx512_attn_weigh(o, n, 1, kind);
}

/* The micro-kernels of a kind, indexed by rows - 1. */
typedef void avx512_attn_dots_fn(const struct avx512_attn *o, size_t t);
typedef void avx512_attn_values_fn(const struct avx512_attn *o, size_t d);

struct avx512_attn_micro {
    avx512_attn_dots_fn *dots[AVX512_ROWS];     /* 4 tiles at once with up to 4 rows, 2 tiles with more */
    avx512_attn_values_fn *values[AVX512_ROWS]; /* 4 x 16 dims at once with up to 4 rows, 2 x 16 with more */
    avx512_attn_values_fn *narrow[AVX512_ROWS]; /* 16 dims */
};

#define AVX512_ATTN_FN(rows, kind)                                   \
    static void dots_##rows(const struct avx512_attn *o, size_t t)   \
    {                                                                \
        avx512_attn_dots(o, t, rows, rows <= 4 ? 4 : 2, kind);       \
    }                                                                \
    static void values_##rows(const struct avx512_attn *o, size_t d) \
    {                                                                \
        avx512_attn_values(o, d, rows, rows <= 4 ? 4 : 2, kind);     \
    }                                                                \
    static void narrow_##rows(const struct avx512_attn *o, size_t d) \
    {                                                                \
        avx512_attn_values(o, d, rows, 1, kind);                     \
    }
#define AVX512_ATTN_TABLE(kind)                                                            \
    SIMD512_TO_12(AVX512_ATTN_FN, kind)                                                    \
    static const struct avx512_attn_micro micro = {{SIMD512_TO_12(SIMD512_NAMED, dots)},   \
                                                   {SIMD512_TO_12(SIMD512_NAMED, values)}, \
                                                   {SIMD512_TO_12(SIMD512_NAMED, narrow)}}

/* Computes the scores, the weights and the weighted sums of values for the query rows of O. */
SIMD512_INLINE void avx512_attn_rows(struct avx512_attn *o, const struct avx512_attn_micro *micro,
                                     enum avx512_kind kind)
{
    size_t dp = o->a->dp, wide = o->rows <= 4 ? 64 : 32, d = 0;

    avx512_attn_fill(o, kind);
    for (size_t t = o->t0; t < o->t1; t += o->rows <= 4 ? 4 : 2)
        micro->dots[o->rows - 1](o, t);
    avx512_attn_weigh_all(o, kind);
    for (; dp - d >= wide; d += wide)
        micro->values[o->rows - 1](o, d);
    for (; d < dp; d += 16)
        micro->narrow[o->rows - 1](o, d);
}

/* Returns the prefetch distance in tiles: a measured number of bytes divided by the size of a tile, but at
 * least 1, or 2 if lines are prefetched into L2. */
SIMD512_INLINE size_t avx512_attn_lead(const struct avx512_attn *o)
{
    size_t bytes = o->level2 ? AVX512_ATTN_LEAD_LEVEL2 : AVX512_ATTN_LEAD;
    size_t tiles = bytes / o->tile_bytes, least = o->level2 ? 2 : 1;

    return tiles > least ? tiles : least;
}

/* Makes [row, end) the query rows that O computes next, and sets [t0, t1) to the range of tiles that they see. */
SIMD512_INLINE void avx512_attn_take(struct avx512_attn *o, size_t row, size_t end)
{
    const struct kern_attn *a = o->a;
    int32_t lo = INT32_MAX, hi = 0;

    o->row = row;
    o->rows = end - row;
    for (size_t r = row; r < end; r++) {
        if (a->lo[r] >= a->hi[r])
            continue;
        lo = a->lo[r] < lo ? a->lo[r] : lo;
        hi = a->hi[r] > hi ? a->hi[r] : hi;
    }
    o->t0 = hi > lo ? (size_t)lo / KERN_TILE : 0;
    o->t1 = hi > lo ? ((size_t)hi + KERN_TILE - 1) / KERN_TILE : 0;
}

SIMD512_INLINE void avx512_attn_drive(const struct kern_attn *a, const struct avx512_attn_micro *micro,
                                      enum avx512_kind kind)
{
    _Alignas(64) uint32_t q[AVX512_ROWS * AVX512_STRIDE];
    struct avx512_attn o = {.a = a, .q = q, .s = a->scratch, .p = (uint32_t *)(void *)a->scratch};
    size_t tiles = (a->m + AVX512_ROWS - 1) / AVX512_ROWS;

    if (kind != AVX512_F32 && kind != AVX512_I8)
        o.p += KERN_ATTN_ROWS * KERN_CHUNK;
    o.tile_bytes = a->dp * (KERN_TILE * 4 / avx512_tile_unit(kind));
    o.level2 = cpu_prefetches_to_l2();
    o.lead = avx512_attn_lead(&o);
    for (size_t i = 0; i < tiles; i++) {
        avx512_attn_take(&o, a->m * i / tiles, a->m * (i + 1) / tiles);
        avx512_attn_rows(&o, micro, kind);
        o.lead = 0; /* for the next rows all tiles are in L2 */
    }
}

#endif
