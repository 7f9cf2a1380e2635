/* avx512_gemm.h - how the 512-bit gemms walk: the input's form, the blocks, the micro-kernels for a tile of
 * rows.
 *
 *   rows    cut into tiles of at most 12, as equal as can be (13 rows are 7 + 6: one row alone would leave
 *           the pipes idle)
 *   input   tile behind tile, each [lines][rows][16] words: a line of cache of every row, then the next. A
 *           word is a float or a pair of bf16 (avx512_tile.h); what of the last line is beyond K is not read
 *   blocks  of a panel: 1024 steps of 128 bytes. A thread's panels are one stream of blocks in the order of
 *           memory; every tile of rows walks the block that lies in level 2, and asks memory for its share of
 *           the block behind it. So memory never idles while the tiles compute
 *   few     rows take panels whole and ask for nothing: the hardware's own prefetching of one stream is
 *           faster (Zen 4: 100 % of what memory gives from one to eight rows, 77 to 95 % with any asking in
 *           software)
 *
 * Between blocks the sums wait in C, as they are, so no cut changes a bit.
 */
#ifndef GALLOP_KERN_AVX512_GEMM_H
#define GALLOP_KERN_AVX512_GEMM_H

#include "kern/ahead.h"
#include "kern/avx512/avx512_tile.h"

enum {
    AVX512_GEMM_STEP = 128,     /* bytes of a panel */
    AVX512_GEMM_BLOCK = 1024,   /* steps: 128 KB, of which level 2 holds two and the tiles of A */
    AVX512_GEMM_LINE = 16,      /* words of a line of the input */
    AVX512_GEMM_UNROLL = 4,     /* steps of one turn of the inner loop */
    AVX512_GEMM_FEW = 5,        /* rows at most that ask for nothing, */
    AVX512_GEMM_FEW_LEVEL2 = 8, /* and where lines are asked for into level 2 */
};

/* One call of a micro-kernel: C[rows, 32] (+)= A x a block of a panel. */
struct avx512_gemm {
    const uint32_t *a;
    const char *b, *next; /* the block, and the first line to be asked for */
    float *c;
    const float *bias;      /* NULL unless this is the last block of the panel */
    size_t ldc, steps, ask; /* ASK: lines from NEXT on */
    __mmask16 mask[2];      /* of the columns */
    bool first, level2;     /* LEVEL2: lines are asked for into level 2 only */
};

typedef void avx512_gemm_fn(const struct avx512_gemm *t);

/* The sums of C so far, and back. Columns may be cut short by the masks. */
SIMD512_INLINE void avx512_gemm_load(__m512 acc[AVX512_ROWS][AVX512_COLS], const struct avx512_gemm *t,
                                     int rows, __mmask16 m0, __mmask16 m1)
{
    SIMD512_UNROLL
    for (int r = 0; r < AVX512_ROWS; r++)
        if (r < rows) {
            acc[r][0] = simd512_load(t->c + (size_t)r * t->ldc, m0);
            acc[r][1] = simd512_load(t->c + (size_t)r * t->ldc + 16, m1);
        }
}

SIMD512_INLINE void avx512_gemm_store(__m512 acc[AVX512_ROWS][AVX512_COLS], const struct avx512_gemm *t,
                                      int rows, __mmask16 m0, __mmask16 m1)
{
    SIMD512_UNROLL
    for (int r = 0; r < AVX512_ROWS; r++)
        if (r < rows) {
            simd512_store(t->c + (size_t)r * t->ldc, m0, acc[r][0]);
            simd512_store(t->c + (size_t)r * t->ldc + 16, m1, acc[r][1]);
        }
}

SIMD512_INLINE void avx512_gemm_bias(__m512 acc[AVX512_ROWS][AVX512_COLS], const struct avx512_gemm *t,
                                     int rows)
{
    __m512 b0 = simd512_load(t->bias, t->mask[0]), b1 = simd512_load(t->bias + 16, t->mask[1]);

    SIMD512_UNROLL
    for (int r = 0; r < AVX512_ROWS; r++)
        if (r < rows) {
            acc[r][0] = _mm512_add_ps(acc[r][0], b0);
            acc[r][1] = _mm512_add_ps(acc[r][1], b1);
        }
}

/* Which tile a row is of. */
struct avx512_gemm_rows {
    size_t first, rows;
};

SIMD512_INLINE size_t avx512_gemm_tiles(size_t m)
{
    return (m + AVX512_ROWS - 1) / AVX512_ROWS;
}

/* Tile I of the M rows. */
SIMD512_INLINE struct avx512_gemm_rows avx512_gemm_tile(size_t i, size_t m)
{
    size_t tiles = avx512_gemm_tiles(m), first = m * i / tiles;

    return (struct avx512_gemm_rows){first, m * (i + 1) / tiles - first};
}

/* Words of the input that a row of K takes. */
SIMD512_INLINE size_t avx512_gemm_width(size_t k, enum avx512_kind kind)
{
    size_t words = (k + avx512_tile_unit(kind) - 1) / avx512_tile_unit(kind) * avx512_tile_words(kind);

    return (words + AVX512_GEMM_LINE - 1) / AVX512_GEMM_LINE * AVX512_GEMM_LINE;
}

/* X, row ROW of M, to its place in IN. */
SIMD512_INLINE void avx512_gemm_put(uint32_t *in, const float *x, size_t row, size_t m, size_t k,
                                    enum avx512_kind kind)
{
    struct avx512_gemm_rows t = avx512_gemm_tile(((row + 1) * avx512_gemm_tiles(m) - 1) / m, m);
    size_t most = AVX512_GEMM_LINE / avx512_tile_words(kind) * avx512_tile_unit(kind);

    in += t.first * avx512_gemm_width(k, kind) + (row - t.first) * AVX512_GEMM_LINE;
    for (size_t at = 0; at < k; at += most, in += t.rows * AVX512_GEMM_LINE) {
        size_t n = k - at < most ? k - at : most;

        if (kind == AVX512_F32)
            avx512_tile_fill_f32(in, x + at, n);
        else if (kind == AVX512_DOT)
            avx512_tile_fill_dot(in, x + at, n);
        else
            avx512_tile_fill_wide(in, x + at, n);
    }
}

/* Some steps of a line. */
SIMD512_INLINE void avx512_gemm_steps(__m512 acc[AVX512_ROWS][AVX512_COLS], const uint32_t *a, const char *at,
                                      int steps, int rows, enum avx512_kind kind)
{
    const char *b[AVX512_COLS] = {at, at + AVX512_GEMM_STEP / 2};

    SIMD512_UNROLL
    for (int s = 0; s < AVX512_GEMM_UNROLL; s++)
        if (s < steps)
            avx512_tile_step(acc, a + (size_t)s * avx512_tile_words(kind), AVX512_GEMM_LINE, b,
                             (size_t)s * AVX512_GEMM_STEP, rows, 2, kind);
}

/* The block, and its share of lines asked for, evenly. */
SIMD512_INLINE void avx512_gemm_sum(__m512 acc[AVX512_ROWS][AVX512_COLS], const struct avx512_gemm *t,
                                    int rows, enum avx512_kind kind)
{
    const size_t words = avx512_tile_words(kind), line = AVX512_GEMM_LINE / words;
    const size_t turns = t->steps / AVX512_GEMM_UNROLL, rate = turns ? (t->ask + turns - 1) / turns : 0;
    const char *b = t->b, *ask = t->next, *end = t->next + 64 * t->ask;
    const uint32_t *a = t->a;
    const bool level2 = t->level2;
    size_t s = 0;

    for (size_t turn = 0; turn < turns; turn++, b += AVX512_GEMM_UNROLL * AVX512_GEMM_STEP) {
        const char *stop = (size_t)(end - ask) < 64 * rate ? end : ask + 64 * rate;

        for (; ask < stop; ask += 64)
            ahead_line(ask, level2);
        avx512_gemm_steps(acc, a, b, AVX512_GEMM_UNROLL, rows, kind);
        a += AVX512_GEMM_UNROLL * words;
        s += AVX512_GEMM_UNROLL;
        if (s == line) { /* on to every row's next line of cache */
            a += (size_t)(rows - 1) * AVX512_GEMM_LINE;
            s = 0;
        }
    }
    for (size_t i = turns * AVX512_GEMM_UNROLL; i < t->steps; i++, b += AVX512_GEMM_STEP, a += words)
        avx512_gemm_steps(acc, a, b, 1, rows, kind);
}

SIMD512_INLINE void avx512_gemm_micro(const struct avx512_gemm *t, int rows, enum avx512_kind kind)
{
    __m512 acc[AVX512_ROWS][AVX512_COLS];
    bool whole = t->mask[1] == SIMD512_ALL;

    if (t->first) {
        SIMD512_UNROLL
        for (int r = 0; r < AVX512_ROWS; r++)
            if (r < rows)
                acc[r][0] = acc[r][1] = _mm512_setzero_ps();
    } else if (whole) {
        avx512_gemm_load(acc, t, rows, SIMD512_ALL, SIMD512_ALL);
    } else {
        avx512_gemm_load(acc, t, rows, t->mask[0], t->mask[1]);
    }
    avx512_gemm_sum(acc, t, rows, kind);
    if (t->bias)
        avx512_gemm_bias(acc, t, rows);
    if (whole)
        avx512_gemm_store(acc, t, rows, SIMD512_ALL, SIMD512_ALL);
    else
        avx512_gemm_store(acc, t, rows, t->mask[0], t->mask[1]);
}

#define AVX512_GEMM_ONE(rows, kind)                       \
    static void micro_##rows(const struct avx512_gemm *t) \
    {                                                     \
        avx512_gemm_micro(t, rows, kind);                 \
    }
/* The micro-kernels of a kind: [rows - 1]. */
#define AVX512_GEMM_TABLE(kind)                                                              \
    AVX512_GEMM_ONE(1, kind)                                                                 \
    AVX512_GEMM_ONE(2, kind)                                                                 \
    AVX512_GEMM_ONE(3, kind)                                                                 \
    AVX512_GEMM_ONE(4, kind)                                                                 \
    AVX512_GEMM_ONE(5, kind)                                                                 \
    AVX512_GEMM_ONE(6, kind)                                                                 \
    AVX512_GEMM_ONE(7, kind)                                                                 \
    AVX512_GEMM_ONE(8, kind)                                                                 \
    AVX512_GEMM_ONE(9, kind)                                                                 \
    AVX512_GEMM_ONE(10, kind)                                                                \
    AVX512_GEMM_ONE(11, kind)                                                                \
    AVX512_GEMM_ONE(12, kind)                                                                \
    static avx512_gemm_fn *const micro[AVX512_ROWS] = {micro_1, micro_2,  micro_3,  micro_4, \
                                                       micro_5, micro_6,  micro_7,  micro_8, \
                                                       micro_9, micro_10, micro_11, micro_12}

/* The steps [from, from + n) of STEPS of panel P, by every tile of rows; ASK lines behind them are wanted
 * next. */
SIMD512_INLINE void avx512_gemm_block(const struct kern_gemm *g, size_t p, size_t from, size_t n,
                                      size_t steps, size_t ask, avx512_gemm_fn *const *micro,
                                      enum avx512_kind kind)
{
    size_t tiles = avx512_gemm_tiles(g->m), left = g->n - p * KERN_NR, width = avx512_gemm_width(g->k, kind);
    const char *b = (const char *)g->b + (p * steps + from) * AVX512_GEMM_STEP,
               *next = b + n * AVX512_GEMM_STEP;
    struct avx512_gemm t = {
        .b = b, .ldc = g->ldc, .steps = n, .first = from == 0, .level2 = cpu_level2_ahead()};

    t.bias = from + n == steps && g->bias ? g->bias + p * KERN_NR : NULL;
    t.mask[0] = simd512_head(left);
    t.mask[1] = left > 16 ? simd512_head(left - 16) : 0;
    for (size_t i = 0; i < tiles; i++) {
        struct avx512_gemm_rows rows = avx512_gemm_tile(i, g->m);

        t.a = (const uint32_t *)g->in + rows.first * width + from * avx512_tile_words(kind) * rows.rows;
        t.c = g->c + rows.first * g->ldc + p * KERN_NR;
        t.next = next + ask * i / tiles * 64;
        t.ask = ask * (i + 1) / tiles - ask * i / tiles;
        micro[rows.rows - 1](&t);
    }
}

SIMD512_INLINE void avx512_gemm_drive(const struct kern_gemm *g, size_t p0, size_t p1,
                                      avx512_gemm_fn *const *micro, enum avx512_kind kind)
{
    size_t steps = (g->k + avx512_tile_unit(kind) - 1) / avx512_tile_unit(kind), n;
    bool few = g->m <= (cpu_level2_ahead() ? AVX512_GEMM_FEW_LEVEL2 : AVX512_GEMM_FEW);
    size_t most = few ? steps : AVX512_GEMM_BLOCK;

    for (size_t p = p0; p < p1; p++) {
        size_t from = 0;

        do {
            size_t behind = (p1 - p) * steps - from; /* that are there yet */

            n = steps - from < most ? steps - from : most;
            behind = behind - n < n ? behind - n : n;
            avx512_gemm_block(g, p, from, n, steps, few ? 0 : 2 * behind, micro, kind);
            from += n;
        } while (from < steps);
    }
}

#endif
