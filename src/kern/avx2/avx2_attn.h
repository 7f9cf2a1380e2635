/* avx2_attn.h - one chunk of attention for up to 48 query rows: scores, softmax, weighted values. The three
 * types of keys and values share this code.
 *
 *   groups  of 1 to 6 query rows, as equal as possible; a group reads the tiles that its rows see and has its
 *           sums in registers (avx2_attn_step.h)
 *   scores  sixteen tokens of a tile are two registers for each row, so no horizontal sums are needed. All
 *           groups score a few tiles before the next tiles. The scratch holds dot products as [row][256]
 *   softmax row by row: scale, softcap, mask, maximum, exp, 16-lane sum; the weights replace the dot products
 *   values  lanes are dims. All groups compute all dims of a few tiles, which stay in L1, before the next
 *   q       is copied to rows at a fixed distance, 256 dims at a time
 *
 * Tiles that no query row sees are not read. In the other tiles, masked tokens are computed like all tokens,
 * with the weight +0. Each phase prefetches tiles that it reads later. Callers pass the type of keys and
 * values (enum avx2_kind) as a constant.
 */
#ifndef GALLOP_KERN_AVX2_AVX2_ATTN_H
#define GALLOP_KERN_AVX2_AVX2_ATTN_H

#include <immintrin.h>

#include "kern/avx2/avx2.h"
#include "kern/avx2/avx2_attn_step.h"
#include "kern/avx2/avx2_math.h"
#include "kern/prefetch.h"

enum {
    AVX2_ATTN_STRIDE = KERN_CHUNK, /* floats from one row of dot products to the next */
    AVX2_ATTN_DIMS = 256,          /* dims of q that are copied at a time */
    AVX2_ATTN_Q = AVX2_ATTN_DIMS + 16,
    AVX2_ATTN_GROUPS = (KERN_ATTN_ROWS + AVX2_ROWS - 1) / AVX2_ROWS,
    AVX2_ATTN_TILES = 6,    /* tiles that all groups score before the next tiles */
    AVX2_ATTN_PIECE = 8192, /* bytes of values that one group reads at a time; doubled for several */
    AVX2_ATTN_LINE = 64,    /* bytes of a cache line; keys of 16 tokens take one line a step */
    AVX2_ATTN_LEAD = 12288, /* bytes that are prefetched ahead of the current tile */
};

/* A group of query rows whose sums are in registers at the same time, and the tiles [t0, t1) that they
 * see. */
struct avx2_group {
    size_t row, rows, t0, t1;
};

/* The state of the query rows that are computed together, at most KERN_ATTN_ROWS, and the tiles [t0, t1) that
 * they see. */
struct avx2_attn {
    const struct kern_attn *a;
    size_t row, rows, t0, t1;
    float *q; /* [rows][AVX2_ATTN_Q] copy of the dims [d0, d0 + dims) */
    size_t d0, dims;
    size_t end; /* the current group scores the tiles below this number in this pass */
    float *p;   /* [rows][AVX2_ATTN_STRIDE] dot products, then weights */
    struct avx2_group group[AVX2_ATTN_GROUPS];
    size_t groups;
    size_t tile_bytes; /* bytes of a tile without its scales */
    struct prefetch_attn ahead;
};

/* ---- scores ---- */

/* Returns the number of registers with sums that each row gets in a group of ROWS rows. */
AVX2_INLINE int avx2_attn_width(size_t rows)
{
    static const int width[AVX2_ROWS + 1] = {0, 8, 6, 4, 3, 2, 2};

    return width[rows];
}

/* The scores of a query row are numbered in registers of 8 tokens. Sets REG to the register numbers [v, v +
 * COLS) and K to the addresses of their keys, from dim o->d0 on. Numbers beyond tile o->end repeat the last
 * register before it; otherwise the products of the next tile would be added twice. */
AVX2_INLINE void avx2_attn_columns(const struct avx2_attn *o, size_t v, int cols, const char **k, size_t *reg,
                                   enum avx2_kind kind)
{
    const size_t first = o->d0 * KERN_TILE * avx2_attn_size(kind);

    AVX2_UNROLL
    for (int c = 0; c < AVX2_ATTN_REGS; c++)
        if (c < cols) {
            reg[c] = v + (size_t)c < 2 * o->end ? v + (size_t)c : 2 * o->end - 1;
            k[c] = (const char *)o->a->k_tile[reg[c] / 2] + first + reg[c] % 2 * AVX2_ATTN_LANES;
        }
}

/* Stores the sums over the dims so far as dot products of the group. With int8 and after the last dims,
 * multiplies them by the scales of the keys. */
AVX2_INLINE void avx2_attn_put_dots(const struct avx2_attn *o, const struct avx2_group *g, avx2_sums acc,
                                    const size_t *reg, int rows, int cols, enum avx2_kind kind)
{
    bool last = o->d0 + o->dims == o->a->dp;

    AVX2_UNROLL
    for (int c = 0; c < AVX2_ATTN_REGS; c++)
        if (c < cols) {
            float *p = o->p + g->row * AVX2_ATTN_STRIDE + reg[c] * 8;
            const float *scale = NULL;

            if (kind == AVX2_I8 && last)
                scale = (const float *)((const char *)o->a->k_tile[reg[c] / 2] + KERN_TILE * o->a->dp) +
                        reg[c] % 2 * 8;
            AVX2_UNROLL
            for (int r = 0; r < AVX2_ROWS; r++)
                if (r < rows) {
                    if (kind == AVX2_I8 && last)
                        acc[r][c] = _mm256_mul_ps(acc[r][c], _mm256_loadu_ps(scale));
                    _mm256_storeu_ps(p + r * AVX2_ATTN_STRIDE, acc[r][c]);
                }
        }
}

/* Adds the products of the copied dims of q and the keys to the dot products of a group, for the registers
 * [v, v + COLS) of each row. */
AVX2_INLINE void avx2_attn_dots(struct avx2_attn *o, const struct avx2_group *g, size_t v, int rows, int cols,
                                enum avx2_kind kind)
{
    const bool look = g == o->group; /* only the first group prefetches */
    const char *k[AVX2_ATTN_REGS];
    const float *q = o->q + g->row * AVX2_ATTN_Q;
    size_t reg[AVX2_ATTN_REGS];
    avx2_sums acc;

    avx2_attn_columns(o, v, cols, k, reg, kind);
    AVX2_UNROLL
    for (int r = 0; r < AVX2_ROWS; r++)
        if (r < rows) {
            AVX2_UNROLL
            for (int c = 0; c < AVX2_ATTN_REGS; c++)
                if (c < cols)
                    acc[r][c] =
                        o->d0 == 0
                            ? _mm256_setzero_ps()
                            : _mm256_loadu_ps(o->p + (g->row + (size_t)r) * AVX2_ATTN_STRIDE + reg[c] * 8);
        }
    for (size_t at = 0, end = o->dims / avx2_attn_unit(kind) * AVX2_ATTN_LINE; at < end;
         at += AVX2_ATTN_LINE) {
        if (look)
            prefetch_attn_ask(&o->ahead, ((size_t)cols + at / AVX2_ATTN_LINE % 2) / 2);
        avx2_attn_step(acc, k, at, q, AVX2_ATTN_Q, rows, cols, kind);
        q += avx2_attn_unit(kind);
    }
    avx2_attn_put_dots(o, g, acc, reg, rows, cols, kind);
}

/* ---- softmax ---- */

/* Rounds weights, which are not negative, to bf16 and widens them again. Taking the minimum limits the bits
 * of a NaN, so that the addition does not carry into the sign. */
AVX2_INLINE __m256 avx2_attn_round(__m256 p)
{
    __m256i u = _mm256_min_epu32(_mm256_castps_si256(p), _mm256_set1_epi32(0x7fff0000));
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));

    u = _mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7fff)), odd);
    return _mm256_castsi256_ps(_mm256_and_si256(u, _mm256_set1_epi32((int)0xffff0000u)));
}

/* Replaces the dot products of the tiles [t, end) by scores. Callers skip this if there is no soft cap and
 * the scale is positive: then the largest dot product belongs to the largest score. */
AVX2_INLINE void avx2_attn_cap(const struct kern_attn *a, float *p, size_t t, size_t end)
{
    const __m256 cap = _mm256_set1_ps(a->softcap), scale = _mm256_set1_ps(a->scale);

    for (size_t i = t * KERN_TILE; i < end * KERN_TILE; i += 8) {
        __m256 s = _mm256_mul_ps(scale, _mm256_loadu_ps(p + i));

        if (a->softcap > 0)
            s = _mm256_mul_ps(cap, avx2_tanh(_mm256_div_ps(s, cap)));
        _mm256_storeu_ps(p + i, s);
    }
}

/* Returns a mask for the eight tokens from I on: all bits of a lane are set if query row R sees its token. */
AVX2_INLINE __m256 avx2_attn_seen(const struct avx2_attn *o, size_t r, size_t i)
{
    ptrdiff_t at = (ptrdiff_t)i, lo = o->a->lo[o->row + r], hi = o->a->hi[o->row + r];

    return _mm256_castsi256_ps(_mm256_andnot_si256(avx2_first(lo - at), avx2_first(hi - at)));
}

/* Sets the scores of those tokens of tile T that query row R does not see to -infinity. */
AVX2_INLINE void avx2_attn_hide(const struct avx2_attn *o, size_t r, size_t t)
{
    float *p = o->p + r * AVX2_ATTN_STRIDE;

    AVX2_UNROLL
    for (size_t i = t * KERN_TILE; i < (t + 1) * KERN_TILE; i += 8)
        _mm256_storeu_ps(p + i, _mm256_blendv_ps(_mm256_set1_ps(-INFINITY), _mm256_loadu_ps(p + i),
                                                 avx2_attn_seen(o, r, i)));
}

AVX2_INLINE float avx2_attn_max(const float *p, size_t t, size_t end)
{
    __m256 m[2] = {_mm256_set1_ps(-INFINITY), _mm256_set1_ps(-INFINITY)};

    for (size_t i = t * KERN_TILE; i < end * KERN_TILE; i += KERN_TILE) {
        m[0] = _mm256_max_ps(_mm256_loadu_ps(p + i), m[0]);
        m[1] = _mm256_max_ps(_mm256_loadu_ps(p + i + 8), m[1]);
    }
    return avx2_fold_max(_mm256_max_ps(m[0], m[1]));
}

/* Replaces the dot products of the tiles [t, end) by weights, 0 for tokens that query row R does not see,
 * and returns the sum of the weights. TWOS times a dot product is score / ln 2; TOP is the largest score /
 * ln 2. */
AVX2_INLINE float avx2_attn_exp(struct avx2_attn *o, size_t r, size_t t, size_t end, float twos, float top,
                                enum avx2_kind kind)
{
    float *p = o->p + r * AVX2_ATTN_STRIDE;
    const size_t lines = AVX2_ATTN_LEAD / AVX2_ATTN_LINE / (o->rows * (o->t1 - o->t0)) + 1;
    const size_t lo = (size_t)o->a->lo[o->row + r], hi = (size_t)o->a->hi[o->row + r];
    const __m256 by = _mm256_set1_ps(twos), most = _mm256_set1_ps(top);
    __m256 sum[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};

    for (; t < end; t++) {
        const float *v_scale = (const float *)(const void *)((const char *)o->a->v_tile[t] + o->tile_bytes);
        const bool whole = lo <= t * KERN_TILE && (t + 1) * KERN_TILE <= hi;

        AVX2_UNROLL
        for (int v = 0; v < 2; v++) {
            float *to = p + t * KERN_TILE + 8 * v;
            __m256 e = avx2_exp2(_mm256_sub_ps(_mm256_mul_ps(by, _mm256_loadu_ps(to)), most));

            if (!whole)
                e = _mm256_and_ps(e, avx2_attn_seen(o, r, t * KERN_TILE + 8 * (size_t)v));
            sum[v] = _mm256_add_ps(sum[v], e);
            if (kind == AVX2_BF16)
                e = avx2_attn_round(e);
            if (kind == AVX2_I8)
                e = _mm256_mul_ps(e, _mm256_loadu_ps(v_scale + 8 * v));
            _mm256_storeu_ps(to, e);
        }
        prefetch_attn_ask(&o->ahead, lines);
    }
    return avx2_fold(sum[0], sum[1]);
}

/* Replaces the dot products of query row R by weights, and stores its maximum score and sum of weights.
 * Rounding is monotonic, so the largest dot product times a positive scale is the largest score. */
AVX2_INLINE void avx2_attn_weigh(struct avx2_attn *o, const struct avx2_group *g, size_t r,
                                 enum avx2_kind kind)
{
    const struct kern_attn *a = o->a;
    const int32_t *lo = a->lo + o->row, *hi = a->hi + o->row;
    float *p = o->p + r * AVX2_ATTN_STRIDE, scale = a->scale, most;
    size_t t = lo[r] < hi[r] ? (size_t)lo[r] / KERN_TILE : g->t1;
    size_t end = lo[r] < hi[r] ? ((size_t)hi[r] + KERN_TILE - 1) / KERN_TILE : g->t1;

    memset(p + g->t0 * KERN_TILE, 0, (t - g->t0) * KERN_TILE * sizeof *p);
    memset(p + end * KERN_TILE, 0, (g->t1 - end) * KERN_TILE * sizeof *p);
    a->max[o->row + r] = -INFINITY;
    a->sum[o->row + r] = 0;
    if (t == end)
        return;
    if (a->softcap > 0 || !(scale > 0)) {
        avx2_attn_cap(a, p, t, end);
        scale = 1;
    }
    if (lo[r] % KERN_TILE)
        avx2_attn_hide(o, r, t);
    if (hi[r] % KERN_TILE)
        avx2_attn_hide(o, r, end - 1);
    most = avx2_attn_max(p, t, end);
    a->max[o->row + r] = scale * most + 0.0f;
    scale *= KMATH_LOG2E;
    a->sum[o->row + r] = avx2_attn_exp(o, r, t, end, scale, scale * most, kind);
}

/* ---- values ---- */

/* Computes out += weights x values over the tiles [t, end), for the rows of a group and COLS registers of
 * dims from dim D on. At the group's first tile the sums start from zero; after its last tile +0 is added. */
AVX2_INLINE void avx2_attn_values(struct avx2_attn *o, const struct avx2_group *g, size_t t, size_t end,
                                  size_t d, int rows, int cols, enum avx2_kind kind)
{
    const size_t dp = o->a->dp, line = dp * avx2_attn_unit(kind) * avx2_attn_size(kind);
    float *out = o->a->out + (o->row + g->row) * dp + d;
    const bool begin = t == g->t0, look = g == o->group;
    avx2_sums acc;

    AVX2_UNROLL
    for (int r = 0; r < AVX2_ROWS; r++)
        if (r < rows) {
            AVX2_UNROLL
            for (int c = 0; c < AVX2_ATTN_REGS; c++)
                if (c < cols)
                    acc[r][c] = begin ? _mm256_setzero_ps() : _mm256_loadu_ps(out + (size_t)r * dp + 8 * c);
        }
    for (; t < end; t++) {
        const char *v = (const char *)o->a->v_tile[t] + d * AVX2_ATTN_LANES / 8;
        const float *p = o->p + g->row * AVX2_ATTN_STRIDE + t * KERN_TILE;

        for (size_t i = 0; i < KERN_TILE; i += avx2_attn_unit(kind), v += line) {
            const char *b[AVX2_ATTN_REGS];

            AVX2_UNROLL
            for (int c = 0; c < AVX2_ATTN_REGS; c++)
                if (c < cols)
                    b[c] = v + c * AVX2_ATTN_LANES;
            if (look)
                prefetch_attn_ask(&o->ahead, ((size_t)cols + i / avx2_attn_unit(kind) % 2) / 2);
            avx2_attn_step(acc, b, 0, p + i, AVX2_ATTN_STRIDE, rows, cols, kind);
        }
    }
    AVX2_UNROLL
    for (int r = 0; r < AVX2_ROWS; r++)
        if (r < rows) {
            AVX2_UNROLL
            for (int c = 0; c < AVX2_ATTN_REGS; c++)
                if (c < cols) {
                    if (end == g->t1)
                        acc[r][c] = _mm256_add_ps(acc[r][c], _mm256_setzero_ps());
                    _mm256_storeu_ps(out + (size_t)r * dp + 8 * c, acc[r][c]);
                }
        }
}

/* Computes out += weights x values over the tiles [t, end) for all dims, as many registers at a time as a
 * group of ROWS rows allows. The last 8 registers are computed as 4 + 4 rather than 6 + 2, and the last 4 as
 * 2 + 2 rather than 3 + 1. */
AVX2_INLINE void avx2_attn_all_values(struct avx2_attn *o, const struct avx2_group *g, size_t t, size_t end,
                                      int rows, enum avx2_kind kind)
{
    const int wide = rows == 1 ? 8 : rows == 2 ? 6 : rows == 3 ? 4 : rows == 4 ? 3 : 2;
    const size_t dp = o->a->dp;
    size_t d = 0;

    for (; d + (size_t)wide * 8 <= dp && dp - d != (size_t)wide * 8 + (wide == 3 ? 8 : 16);
         d += (size_t)wide * 8)
        avx2_attn_values(o, g, t, end, d, rows, wide, kind);
    if (rows <= 2)
        for (; d + 32 <= dp; d += 32)
            avx2_attn_values(o, g, t, end, d, rows, 4, kind);
    for (; d < dp; d += 16)
        avx2_attn_values(o, g, t, end, d, rows, 2, kind);
}

/* ---- all phases ---- */

typedef void avx2_dots_fn(struct avx2_attn *o, const struct avx2_group *g, size_t v);
typedef void avx2_values_fn(struct avx2_attn *o, const struct avx2_group *g, size_t t, size_t end);

struct avx2_micro {
    avx2_dots_fn *dots[AVX2_ROWS + 1];
    avx2_values_fn *values[AVX2_ROWS + 1];
};

#define AVX2_ATTN_FN(ROWS, COLS, KIND)                                                               \
    static void dots_##ROWS(struct avx2_attn *o, const struct avx2_group *g, size_t v)               \
    {                                                                                                \
        avx2_attn_dots(o, g, v, ROWS, COLS, KIND);                                                   \
    }                                                                                                \
    static void values_##ROWS(struct avx2_attn *o, const struct avx2_group *g, size_t t, size_t end) \
    {                                                                                                \
        avx2_attn_all_values(o, g, t, end, ROWS, KIND);                                              \
    }
#define AVX2_ATTN_TABLE(KIND)                                               \
    AVX2_ATTN_FN(1, 8, KIND)                                                \
    AVX2_ATTN_FN(2, 6, KIND)                                                \
    AVX2_ATTN_FN(3, 4, KIND)                                                \
    AVX2_ATTN_FN(4, 3, KIND)                                                \
    AVX2_ATTN_FN(5, 2, KIND)                                                \
    AVX2_ATTN_FN(6, 2, KIND)                                                \
    static const struct avx2_micro micro = {                                \
        {NULL, dots_1, dots_2, dots_3, dots_4, dots_5, dots_6},             \
        {NULL, values_1, values_2, values_3, values_4, values_5, values_6}, \
    }

/* Divides the query rows into groups. Sets the range of tiles that each group sees, and the range that all of
 * them see together. */
AVX2_INLINE void avx2_attn_cut(struct avx2_attn *o)
{
    size_t n = (o->rows + AVX2_ROWS - 1) / AVX2_ROWS;

    o->groups = n;
    o->t0 = KERN_CHUNK_TILES;
    o->t1 = 0;
    for (size_t i = 0; i < n; i++) {
        struct avx2_group *g = &o->group[i];
        int32_t from = INT32_MAX, to = 0;

        g->row = o->rows * i / n;
        g->rows = o->rows * (i + 1) / n - g->row;
        for (size_t r = o->row + g->row; r < o->row + g->row + g->rows; r++)
            if (o->a->lo[r] < o->a->hi[r]) {
                from = o->a->lo[r] < from ? o->a->lo[r] : from;
                to = o->a->hi[r] > to ? o->a->hi[r] : to;
            }
        g->t0 = from < to ? (size_t)from / KERN_TILE : 0;
        g->t1 = from < to ? ((size_t)to + KERN_TILE - 1) / KERN_TILE : 0;
        if (from < to) {
            o->t0 = g->t0 < o->t0 ? g->t0 : o->t0;
            o->t1 = g->t1 > o->t1 ? g->t1 : o->t1;
        }
    }
}

/* Computes the first phase, the dot products: 256 dims at a time, and if there are several groups, a few
 * tiles at a time. */
AVX2_INLINE void avx2_attn_scores(struct avx2_attn *o, const struct avx2_micro *micro)
{
    const struct kern_attn *a = o->a;
    size_t tiles = o->groups == 1 ? KERN_CHUNK_TILES : AVX2_ATTN_TILES;

    for (o->d0 = 0; o->d0 < a->dp; o->d0 += AVX2_ATTN_DIMS) {
        o->dims = a->dp - o->d0 < AVX2_ATTN_DIMS ? a->dp - o->d0 : AVX2_ATTN_DIMS;
        avx2_copy_rows(o->q, AVX2_ATTN_Q, (const float *)a->q + o->row * a->dp + o->d0, a->dp, o->rows,
                       o->dims);
        for (size_t b = o->t0; b < o->t1; b += tiles)
            for (const struct avx2_group *g = o->group; g < o->group + o->groups; g++) {
                size_t t = b > g->t0 ? b : g->t0;

                o->end = b + tiles < g->t1 ? b + tiles : g->t1;
                for (size_t v = 2 * t; v < 2 * o->end; v += (size_t)avx2_attn_width(g->rows))
                    micro->dots[g->rows](o, g, v);
            }
    }
}

/* Computes the third phase, the weighted sums of values, a few tiles at a time, which stay in L1 for all
 * groups. */
AVX2_INLINE void avx2_attn_weighted(struct avx2_attn *o, const struct avx2_micro *micro, enum avx2_kind kind)
{
    const size_t bytes = KERN_TILE * o->a->dp * avx2_attn_size(kind);
    const size_t most = o->groups > 1 ? 2 * AVX2_ATTN_PIECE : AVX2_ATTN_PIECE;
    const size_t piece = bytes < most ? most / bytes : 1;

    for (const struct avx2_group *g = o->group; g < o->group + o->groups; g++)
        if (g->t0 == g->t1)
            memset(o->a->out + (o->row + g->row) * o->a->dp, 0, g->rows * o->a->dp * sizeof(float));
    for (size_t b = o->t0; b < o->t1; b += piece)
        for (const struct avx2_group *g = o->group; g < o->group + o->groups; g++) {
            size_t t = b > g->t0 ? b : g->t0, end = b + piece < g->t1 ? b + piece : g->t1;

            if (t < end)
                micro->values[g->rows](o, g, t, end);
        }
}

AVX2_INLINE void avx2_attn_drive(const struct kern_attn *a, const struct avx2_micro *micro,
                                 enum avx2_kind kind)
{
    float q[KERN_ATTN_ROWS * AVX2_ATTN_Q] __attribute__((aligned(64)));
    const size_t bytes = KERN_TILE * a->dp * avx2_attn_size(kind);

    for (size_t row = 0; row < a->m; row += KERN_ATTN_ROWS) {
        struct avx2_attn o = {.a = a, .row = row, .q = q, .p = a->scratch};

        o.rows = a->m - row < KERN_ATTN_ROWS ? a->m - row : KERN_ATTN_ROWS;
        avx2_attn_cut(&o);
        o.tile_bytes = bytes;
        if (o.t0 < o.t1)
            o.ahead = prefetch_attn_from(a, o.t0, o.t1, bytes, AVX2_ATTN_LEAD / bytes + 1,
                                         2 * (o.t1 - o.t0) + a->n_next);
        avx2_attn_scores(&o, micro);
        for (const struct avx2_group *g = o.group; g < o.group + o.groups; g++)
            for (size_t r = g->row; r < g->row + g->rows; r++)
                avx2_attn_weigh(&o, g, r, kind);
        avx2_attn_weighted(&o, micro, kind);
    }
}

#endif
