/* avx2_attn.h - one chunk of attention for up to 24 query rows: scores, softmax, weighted values; the walk that
 * the three types of keys and values share.
 *
 *   groups  of 1 to 6 rows, as equal as can be. A group has a tile of sums of 1 row x 8 registers, 2 x 6, 3 x 4,
 *           4 x 3, 5 x 2 or 6 x 2: more sums than the FMA's latency needs (8), no more registers than there are.
 *           It works on the tiles that its rows see
 *   scores  sixteen tokens of a tile are two registers a row, so there are no horizontal sums. Blocks of tiles,
 *           every group on each. A row's dots lie in scratch [row][256]
 *   softmax row by row: scale, softcap, mask, maximum, exp, 16-lane sum; the weights replace the dots
 *   values  dims in lanes; tiles in pieces that stay in the first cache together with the piece that follows
 *   q       is copied to rows at a fixed distance, 256 dims at a time
 *
 * A step is what one 64-byte line of keys holds for a token's lane: a dim of fp32, two of bf16; int8 takes one dim
 * of its quarter line. Tiles outside of every row's [lo, hi) are not read. In the others a masked token has the
 * weight +0 and is worked on like the rest. What is needed next is prefetched in every phase, so that decoding
 * does not wait for memory. Written for a constant kind.
 */
#ifndef GALLOP_KERN_AVX2_AVX2_ATTN_H
#define GALLOP_KERN_AVX2_AVX2_ATTN_H

#include <immintrin.h>

#include "kern/avx2/avx2.h"
#include "kern/avx2/avx2_math.h"
#include "kern/avx2/avx2_tile.h"

enum avx2_kind { AVX2_F32, AVX2_BF16, AVX2_I8 };

enum {
    AVX2_ATTN_STRIDE = KERN_CHUNK, /* floats between rows of dots */
    AVX2_ATTN_REGS = 8,            /* of the widest tile of sums */
    AVX2_ATTN_GROUPS = (KERN_ATTN_ROWS + AVX2_ROWS - 1) / AVX2_ROWS,
    AVX2_ATTN_DIMS = 256, /* of q in the copy */
    AVX2_ATTN_Q = AVX2_ATTN_DIMS + 16,
    AVX2_ATTN_BLOCK = 6,    /* tiles that all groups score before the next */
#ifndef PIECE
#define PIECE 8192
#endif
    AVX2_ATTN_PIECE = PIECE, /* bytes of values */
    AVX2_ATTN_LINE = 64,    /* of the caches */
};

/* Rows that share a tile of sums, and the tiles [t0, t1) that they see. */
struct avx2_group {
    size_t row, rows, t0, t1;
};

/* Rows of one call, at most KERN_ATTN_ROWS, and the tiles [t0, t1) that they see. */
struct avx2_attn {
    const struct kern_attn *a;
    size_t row, rows, t0, t1;
    float *q; /* [rows][AVX2_ATTN_Q] copy of the dims [d0, d0 + dims) */
    size_t d0, dims;
    float *p; /* [rows][AVX2_ATTN_STRIDE] dots, then weights */
    struct avx2_group group[AVX2_ATTN_GROUPS];
    size_t groups;
    const char *ahead, *ahead_end; /* of values in the softmax: the next to prefetch, in tile ahead_tile */
    size_t ahead_tile;
};

typedef __m256 avx2_sums[AVX2_ROWS][AVX2_ATTN_REGS];

/* What of the lanes of pairs is the upper half. */
static const uint32_t avx2_attn_upper[1][8] __attribute__((aligned(32))) = {
    {0xffff0000u, 0xffff0000u, 0xffff0000u, 0xffff0000u, 0xffff0000u, 0xffff0000u, 0xffff0000u, 0xffff0000u}};

/* The dims of a row of keys, or tokens of values, that one step takes. */
AVX2_INLINE size_t avx2_attn_unit(enum avx2_kind kind)
{
    return kind == AVX2_BF16 ? 2 : 1;
}

/* Bytes of 8 lanes in memory. */
AVX2_INLINE size_t avx2_attn_lanes(enum avx2_kind kind)
{
    return kind == AVX2_I8 ? 8 : 32;
}

/* Bytes of an element of keys and values. */
AVX2_INLINE size_t avx2_attn_size(enum avx2_kind kind)
{
    return kind == AVX2_F32 ? 4 : kind == AVX2_BF16 ? 2 : 1;
}

/* The registers of a tile of sums for ROWS rows. */
AVX2_INLINE int avx2_attn_width(size_t rows)
{
    static const int width[AVX2_ROWS + 1] = {0, 8, 6, 4, 3, 2, 2};

    return width[rows];
}

/* Eight elements of keys or values; the upper half of pairs if UPPER. Volatile, like the other two steps of the
 * inner loops: their order is the one in which no more registers are needed than there are, and gcc 12 left to
 * itself finds others, that spill. */
AVX2_INLINE __m256 avx2_attn_load(const char *b, bool upper, enum avx2_kind kind)
{
    __m256 w;

    if (kind == AVX2_I8)
        __asm__ volatile("vpmovsxbd %1, %0\n\tvcvtdq2ps %0, %0" : "=x"(w) : "m"(*(const char(*)[8])b));
    else if (kind == AVX2_F32)
        __asm__ volatile("vmovups %1, %0" : "=x"(w) : "m"(*(const char(*)[32])b));
    else if (upper)
        __asm__ volatile("vmovaps %2, %0\n\tvandps %1, %0, %0"
                         : "=&x"(w)
                         : "m"(*(const char(*)[32])b), "m"(*avx2_attn_upper));
    else
        __asm__ volatile("vmovups %1, %0\n\tvpslld $16, %0, %0" : "=x"(w) : "m"(*(const char(*)[32])b));
    return w;
}

AVX2_INLINE __m256 avx2_attn_broadcast(const float *x)
{
    __m256 y;

    __asm__ volatile("vbroadcastss %1, %0" : "=x"(y) : "m"(*x));
    return y;
}

/* *acc = fma(x, y, *acc) */
AVX2_INLINE void avx2_attn_fma(__m256 *acc, __m256 x, __m256 y)
{
    __asm__ volatile("vfmadd231ps %2, %1, %0" : "+x"(*acc) : "x"(x), "x"(y));
}

/* acc += x[row] x one element of each of the COLS columns b[c]; x[row] are AVX2_ATTN_Q or AVX2_ATTN_STRIDE
 * floats apart. Keeps in registers whatever is fewer, the row's elements or the columns'. */
AVX2_INLINE void avx2_attn_outer(avx2_sums acc, const char *const *b, size_t at, const float *x,
                                 size_t stride, bool upper, int rows, int cols, enum avx2_kind kind)
{
    __m256 w[4], one;

    if (cols <= 3 || rows > cols) {
        AVX2_UNROLL
        for (int c = 0; c < 4; c++)
            if (c < cols)
                w[c] = avx2_attn_load(b[c] + at, upper, kind);
        AVX2_UNROLL
        for (int r = 0; r < AVX2_ROWS; r++) {
            if (r >= rows)
                break;
            one = avx2_attn_broadcast(x + (size_t)r * stride);
            AVX2_UNROLL
            for (int c = 0; c < 4; c++)
                if (c < cols)
                    avx2_attn_fma(&acc[r][c], one, w[c]);
        }
        return;
    }
    AVX2_UNROLL
    for (int r = 0; r < 4; r++)
        if (r < rows)
            w[r] = avx2_attn_broadcast(x + (size_t)r * stride);
    AVX2_UNROLL
    for (int c = 0; c < AVX2_ATTN_REGS; c++) {
        if (c >= cols)
            break;
        one = avx2_attn_load(b[c] + at, upper, kind);
        AVX2_UNROLL
        for (int r = 0; r < 4; r++)
            if (r < rows)
                avx2_attn_fma(&acc[r][c], w[r], one);
    }
}

/* The step for 4 rows x 3 columns, all 16 registers of it: twelve sums, three columns, a broadcast. gcc 12 spills
 * some of the sums when left to choose. */
#define AVX2_ATTN_ROW43(R, DIM, S0, S1, S2)                        \
    "vbroadcastss " #R "*%c[stride]+4*" #DIM "(%[x]), %%ymm15\n\t" \
    "vfmadd231ps %%ymm12, %%ymm15, %" S0 "\n\t"                    \
    "vfmadd231ps %%ymm13, %%ymm15, %" S1 "\n\t"                    \
    "vfmadd231ps %%ymm14, %%ymm15, %" S2 "\n\t"
#define AVX2_ATTN_ROWS43(DIM)              \
    AVX2_ATTN_ROW43(0, DIM, "0", "1", "2") \
    AVX2_ATTN_ROW43(1, DIM, "3", "4", "5") \
    AVX2_ATTN_ROW43(2, DIM, "6", "7", "8") \
    AVX2_ATTN_ROW43(3, DIM, "9", "10", "11")
#define AVX2_ATTN_ASM43(CODE)                                                                              \
    __asm__(CODE                                                                                           \
            : "+x"(acc[0][0]), "+x"(acc[0][1]), "+x"(acc[0][2]), "+x"(acc[1][0]), "+x"(acc[1][1]),         \
              "+x"(acc[1][2]), "+x"(acc[2][0]), "+x"(acc[2][1]), "+x"(acc[2][2]), "+x"(acc[3][0]),         \
              "+x"(acc[3][1]), "+x"(acc[3][2])                                                             \
            : [x] "r"(x), [stride] "i"(stride * sizeof(float)), [b0] "m"(*(const char(*)[32])(b[0] + at)), \
              [b1] "m"(*(const char(*)[32])(b[1] + at)), [b2] "m"(*(const char(*)[32])(b[2] + at)),        \
              [mask] "m"(*avx2_attn_upper)                                                                 \
            : "xmm12", "xmm13", "xmm14", "xmm15", "memory")

AVX2_INLINE void avx2_attn_step43(avx2_sums acc, const char *const *b, size_t at, const float *x,
                                  const size_t stride, enum avx2_kind kind)
{
    if (kind == AVX2_F32)
        AVX2_ATTN_ASM43(
            "vmovups %[b0], %%ymm12\n\tvmovups %[b1], %%ymm13\n\tvmovups %[b2], %%ymm14\n\t" AVX2_ATTN_ROWS43(
                0));
    else if (kind == AVX2_I8)
        AVX2_ATTN_ASM43(
            "vpmovsxbd %[b0], %%ymm12\n\tvpmovsxbd %[b1], %%ymm13\n\tvpmovsxbd %[b2], %%ymm14\n\t"
            "vcvtdq2ps %%ymm12, %%ymm12\n\tvcvtdq2ps %%ymm13, %%ymm13\n\tvcvtdq2ps %%ymm14, %%ymm14\n\t" AVX2_ATTN_ROWS43(
                0));
    else
        AVX2_ATTN_ASM43(
            "vmovups %[b0], %%ymm12\n\tvmovups %[b1], %%ymm13\n\tvmovups %[b2], %%ymm14\n\t"
            "vpslld $16, %%ymm12, %%ymm12\n\tvpslld $16, %%ymm13, %%ymm13\n\t"
            "vpslld $16, %%ymm14, %%ymm14\n\t" AVX2_ATTN_ROWS43(
                0) "vmovaps %[mask], %%ymm12\n\tvmovaps %[mask], %%ymm13\n\tvmovaps %[mask], %%ymm14\n\t"
                   "vandps %[b0], %%ymm12, %%ymm12\n\tvandps %[b1], %%ymm13, %%ymm13\n\t"
                   "vandps %[b2], %%ymm14, %%ymm14\n\t" AVX2_ATTN_ROWS43(1));
}

/* A step: the element x, and for pairs also the one that follows. */
AVX2_INLINE void avx2_attn_step(avx2_sums acc, const char *const *b, size_t at, const float *x, size_t stride,
                                int rows, int cols, enum avx2_kind kind)
{
    if (rows == 4 && cols == 3) {
        avx2_attn_step43(acc, b, at, x, stride, kind);
        return;
    }
    avx2_attn_outer(acc, b, at, x, stride, false, rows, cols, kind);
    if (kind == AVX2_BF16)
        avx2_attn_outer(acc, b, at, x + 1, stride, true, rows, cols, kind);
}

/* ---- scores ---- */

/* Where the registers [v, v + cols) of a row of scores lie in the keys, from the copied dims on; registers beyond
 * the last repeat it. */
AVX2_INLINE void avx2_attn_columns(const struct avx2_attn *o, const struct avx2_group *g, size_t v, int cols,
                                   const char **k, size_t *reg, enum avx2_kind kind)
{
    const size_t first = o->d0 * KERN_TILE * avx2_attn_size(kind);

    AVX2_UNROLL
    for (int c = 0; c < AVX2_ATTN_REGS; c++)
        if (c < cols) {
            reg[c] = v + (size_t)c < 2 * g->t1 ? v + (size_t)c : 2 * g->t1 - 1;
            k[c] = (const char *)o->a->k_tile[reg[c] / 2] + first + reg[c] % 2 * avx2_attn_lanes(kind);
        }
}

/* The sums of the copied dims join the dots of the group; int8 takes its scale when all dims are in. */
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

/* Adds what the copied dims give to the dots of a group with the registers [v, v + COLS). */
AVX2_INLINE void avx2_attn_dots(const struct avx2_attn *o, const struct avx2_group *g, size_t v, int rows,
                                int cols, enum avx2_kind kind)
{
    const size_t line = KERN_TILE * avx2_attn_unit(kind) * avx2_attn_size(kind); /* 64, or 16 of int8 */
    const char *k[AVX2_ATTN_REGS], *next[AVX2_ATTN_REGS / 2 + 1];
    const float *q = o->q + g->row * AVX2_ATTN_Q;
    size_t reg[AVX2_ATTN_REGS], units = kind == AVX2_I8 ? 4 : 1;
    avx2_sums acc;

    avx2_attn_columns(o, g, v, cols, k, reg, kind);
    AVX2_UNROLL
    for (int i = 0; i < AVX2_ATTN_REGS / 2 + 1; i++)
        if (i < (cols + 1) / 2) {
            size_t t = (v + (size_t)cols + 2 * (size_t)i) / 2;

            next[i] = t < g->t1 ? o->a->k_tile[t] : o->a->v_tile[g->t0];
            next[i] += o->d0 * KERN_TILE * avx2_attn_size(kind);
        }
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
    for (size_t at = 0, end = o->dims / avx2_attn_unit(kind) * line; at < end;) {
        AVX2_UNROLL
        for (int i = 0; i < AVX2_ATTN_REGS / 2 + 1; i++)
            if (i < (cols + 1) / 2)
                _mm_prefetch(next[i] + at, _MM_HINT_T0);
        for (size_t u = 0; u < units; u++) {
            avx2_attn_step(acc, k, at, q, AVX2_ATTN_Q, rows, cols, kind);
            at += line;
            q += avx2_attn_unit(kind);
        }
    }
    avx2_attn_put_dots(o, g, acc, reg, rows, cols, kind);
}

/* ---- softmax ---- */

/* Rounds a weight, which is not negative, to bf16 and widens it again. The smallest of itself and a NaN keeps the
 * carry out of the sign. */
AVX2_INLINE __m256 avx2_attn_round(__m256 p)
{
    __m256i u = _mm256_min_epu32(_mm256_castps_si256(p), _mm256_set1_epi32(0x7fff0000));
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));

    u = _mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7fff)), odd);
    return _mm256_castsi256_ps(_mm256_and_si256(u, _mm256_set1_epi32((int)0xffff0000u)));
}

/* Asks for two more lines of the first piece of values. */
AVX2_INLINE void avx2_attn_look_ahead(struct avx2_attn *o, size_t bytes)
{
    if (o->ahead == o->ahead_end)
        return;
    _mm_prefetch(o->ahead, _MM_HINT_T0);
    _mm_prefetch(o->ahead + AVX2_ATTN_LINE, _MM_HINT_T0);
    o->ahead += 2 * AVX2_ATTN_LINE;
    if (o->ahead == o->ahead_end && ++o->ahead_tile < o->t1 &&
        (o->ahead_tile - o->t0 + 1) * bytes <= AVX2_ATTN_PIECE) {
        o->ahead = o->a->v_tile[o->ahead_tile];
        o->ahead_end = o->ahead + bytes;
    }
}

/* Scores from the dots of the tiles [t, end) where that is more than a positive factor. */
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

/* Makes -infinity of the scores of tile T that lie outside of [lo, hi). */
AVX2_INLINE void avx2_attn_hide(float *p, size_t t, size_t lo, size_t hi)
{
    AVX2_UNROLL
    for (size_t i = t * KERN_TILE; i < (t + 1) * KERN_TILE; i += 8) {
        __m256i seen = _mm256_andnot_si256(avx2_first((ptrdiff_t)lo - (ptrdiff_t)i),
                                           avx2_first((ptrdiff_t)hi - (ptrdiff_t)i));

        _mm256_storeu_ps(p + i, _mm256_blendv_ps(_mm256_set1_ps(-INFINITY), _mm256_loadu_ps(p + i),
                                                 _mm256_castsi256_ps(seen)));
    }
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

/* Weights in place of the dots of the tiles [t, end); returns their sum. Nothing exceeds the maximum, so that
 * the exp needs no upper bound. */
AVX2_INLINE float avx2_attn_exp(struct avx2_attn *o, float *p, size_t t, size_t end, float scale, float most,
                                enum avx2_kind kind)
{
    const size_t bytes = KERN_TILE * o->a->dp * avx2_attn_size(kind);
    const __m256 by = _mm256_set1_ps(scale), max = _mm256_set1_ps(most);
    __m256 sum[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};

    for (; t < end; t++) {
        const float *v_scale = (const float *)(const void *)((const char *)o->a->v_tile[t] + bytes);

        AVX2_UNROLL
        for (int v = 0; v < 2; v++) {
            float *to = p + t * KERN_TILE + 8 * v;
            __m256 e = avx2_exp_low(_mm256_sub_ps(_mm256_mul_ps(by, _mm256_loadu_ps(to)), max));

            sum[v] = _mm256_add_ps(sum[v], e);
            if (kind == AVX2_BF16)
                e = avx2_attn_round(e);
            if (kind == AVX2_I8)
                e = _mm256_mul_ps(e, _mm256_loadu_ps(v_scale + 8 * v));
            _mm256_storeu_ps(to, e);
        }
        avx2_attn_look_ahead(o, bytes);
    }
    return avx2_fold(sum[0], sum[1]);
}

/* Turns the dots of row R of a group into weights, and gives its maximum and sum. The maximum of the dots times a
 * positive scale is the maximum of the scores, for rounding keeps the order. */
AVX2_INLINE void avx2_attn_weigh(struct avx2_attn *o, const struct avx2_group *g, size_t r,
                                 enum avx2_kind kind)
{
    const struct kern_attn *a = o->a;
    const int32_t *lo = a->lo + o->row, *hi = a->hi + o->row;
    float *p = o->p + r * AVX2_ATTN_STRIDE, scale = a->scale, max;
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
        avx2_attn_hide(p, t, (size_t)lo[r], (size_t)hi[r]);
    if (hi[r] % KERN_TILE)
        avx2_attn_hide(p, end - 1, (size_t)lo[r], (size_t)hi[r]);
    max = scale * avx2_attn_max(p, t, end) + 0.0f;
    a->max[o->row + r] = max;
    a->sum[o->row + r] = avx2_attn_exp(o, p, t, end, scale, max, kind);
}

/* ---- values ---- */

/* out += weights x values for the tiles [t, end) of a piece, the rows of a group and COLS registers from dim D on.
 * The first piece begins the sums, the last ends them by adding +0. The piece that follows is prefetched, the part
 * of its tiles that corresponds to D. */
AVX2_INLINE void avx2_attn_values(const struct avx2_attn *o, const struct avx2_group *g, size_t t, size_t end,
                                  size_t d, int rows, int cols, enum avx2_kind kind)
{
    const size_t dp = o->a->dp, line = dp * avx2_attn_unit(kind) * avx2_attn_size(kind), piece = end - t;
    const size_t wide = (size_t)cols * avx2_attn_lanes(kind); /* bytes of a step */
    float *out = o->a->out + (o->row + g->row) * dp + d;
    const bool begin = t == g->t0;
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
        const char *v = (const char *)o->a->v_tile[t] + d * avx2_attn_lanes(kind) / 8;
        const char *next = (const char *)o->a->v_tile[t + piece < o->t1 ? t + piece : t] +
                           d * KERN_TILE * avx2_attn_size(kind);
        const float *p = o->p + g->row * AVX2_ATTN_STRIDE + t * KERN_TILE;

        for (size_t i = 0; i < KERN_TILE; i += avx2_attn_unit(kind), v += line, next += wide) {
            const char *b[AVX2_ATTN_REGS];

            AVX2_UNROLL
            for (int c = 0; c < AVX2_ATTN_REGS; c++)
                if (c < cols) {
                    b[c] = v + (size_t)c * avx2_attn_lanes(kind);
                    if (c % 2 == 0 && wide >= AVX2_ATTN_LINE)
                        _mm_prefetch(next + (c + 2 <= cols ? c * 32 : c * 32 - 32), _MM_HINT_T0);
                }
            if (wide < AVX2_ATTN_LINE)
                _mm_prefetch(next, _MM_HINT_T0);
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

/* All dims: as wide as the group allows, but rather 4 + 4 than 6 + 2 and 2 + 2 than 3 + 1. */
AVX2_INLINE void avx2_attn_all_values(const struct avx2_attn *o, const struct avx2_group *g, size_t t,
                                      size_t end, int rows, enum avx2_kind kind)
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

/* ---- the walk ---- */

typedef void avx2_dots_fn(const struct avx2_attn *o, const struct avx2_group *g, size_t v);
typedef void avx2_values_fn(const struct avx2_attn *o, const struct avx2_group *g, size_t t, size_t end);

struct avx2_micro {
    avx2_dots_fn *dots[AVX2_ROWS + 1];
    avx2_values_fn *values[AVX2_ROWS + 1];
};

#define AVX2_ATTN_FN(ROWS, COLS, KIND)                                                                     \
    static void dots_##ROWS(const struct avx2_attn *o, const struct avx2_group *g, size_t v)               \
    {                                                                                                      \
        avx2_attn_dots(o, g, v, ROWS, COLS, KIND);                                                         \
    }                                                                                                      \
    static void values_##ROWS(const struct avx2_attn *o, const struct avx2_group *g, size_t t, size_t end) \
    {                                                                                                      \
        avx2_attn_all_values(o, g, t, end, ROWS, KIND);                                                    \
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

/* Cuts the rows into groups and finds the tiles that each sees, and all of them. */
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

/* The first phase: 256 dims at a time, block by block of tiles; a lone group has no reason for blocks. */
AVX2_INLINE void avx2_attn_scores(struct avx2_attn *o, const struct avx2_micro *micro)
{
    const struct kern_attn *a = o->a;
    size_t block = o->groups == 1 ? KERN_CHUNK_TILES : AVX2_ATTN_BLOCK;

    for (o->d0 = 0; o->d0 < a->dp; o->d0 += AVX2_ATTN_DIMS) {
        o->dims = a->dp - o->d0 < AVX2_ATTN_DIMS ? a->dp - o->d0 : AVX2_ATTN_DIMS;
        avx2_copy_rows(o->q, AVX2_ATTN_Q, a->q, o->row * a->dp + o->d0, a->dp, o->rows, o->dims, false);
        for (size_t b = o->t0; b < o->t1; b += block)
            for (const struct avx2_group *g = o->group; g < o->group + o->groups; g++) {
                size_t t = b > g->t0 ? b : g->t0, end = b + block < g->t1 ? b + block : g->t1;

                for (size_t v = 2 * t; v < 2 * end; v += (size_t)avx2_attn_width(g->rows))
                    micro->dots[g->rows](o, g, v);
            }
    }
}

/* The third phase, piece by piece of the tiles. */
AVX2_INLINE void avx2_attn_weighted(const struct avx2_attn *o, const struct avx2_micro *micro,
                                    enum avx2_kind kind)
{
    const size_t bytes = KERN_TILE * o->a->dp * avx2_attn_size(kind);
    const size_t piece = bytes < AVX2_ATTN_PIECE ? AVX2_ATTN_PIECE / bytes : 1;

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
        if (o.t0 < o.t1) {
            const char *k = a->k_tile[o.t0];

            for (size_t i = 0; i < bytes; i += AVX2_ATTN_LINE)
                _mm_prefetch(k + i, _MM_HINT_T0);
            o.ahead = a->v_tile[o.t0];
            o.ahead_end = o.ahead + bytes;
            o.ahead_tile = o.t0;
        }
        avx2_attn_scores(&o, micro);
        for (const struct avx2_group *g = o.group; g < o.group + o.groups; g++)
            for (size_t r = g->row; r < g->row + g->rows; r++)
                avx2_attn_weigh(&o, g, r, kind);
        avx2_attn_weighted(&o, micro, kind);
    }
}

#endif
