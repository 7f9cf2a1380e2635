/* avx512_gemm.h - the 512-bit gemms: the layout of the input, the loops over K and rows, and the
 * micro-kernels for a tile of rows.
 *
 *   rows    cut into tiles of at most 12 (bytes and pairs of bf16: 14, so that PARD's 13 rows read a panel once), as
 *           equal as possible (15 rows are 8 + 7, because a tile of one row would leave the pipes idle)
 *   input   tile after tile, each [lines][rows][16] words: a cache line of every row, then the next line. A
 *           word is a float, a pair of bf16 or four bytes (avx512_tile.h). The part of the last line beyond
 *           K is not read. Bytes have 128 added; the scales of the rows are stored after all tiles
 *   KC      slice of a panel: 1024 steps of 128 bytes. A thread reads its panels as one stream of KC slices in
 *           the order of memory. Every tile of rows reads the slice from L2 and prefetches its share of
 *           the next slice, so that memory never idles while the tiles compute
 *   few     rows: they compute whole panels and prefetch nothing, because the hardware prefetches one stream
 *           faster by itself (Zen 4: 100 % of the memory bandwidth with one to eight rows, 77 to 95 % with any
 *           software prefetching; Zen 5: 42.9 GB/s against 39 to 40 GB/s with one or two rows in bf16, but with
 *           five rows 37.5 against 39.2 GB/s)
 *
 * Between the slices, the sums of a panel are stored in an array of the thread: for each tile [rows][16] of
 * the left 16 columns (side 0), then [rows][16] of the right ones (side 1). The sums are stored unchanged, so
 * the bits do not depend on where K is cut. The epilogue adds the bias and stores the sums in C or, after an
 * activation, in the input of the next gemm. With KERN_GLU, the left columns are gate and the right ones up.
 */
#ifndef GALLOP_KERN_AVX512_GEMM_H
#define GALLOP_KERN_AVX512_GEMM_H

#include "kern/avx512/avx512.h"
#include "kern/avx512/avx512_tile.h"
#include "kern/prefetch.h"

enum {
    AVX512_GEMM_STEP = 128,     /* bytes of a panel in one step along K (one k, a pair of k or four k) */
    AVX512_GEMM_KC = 1024,      /* steps of a KC slice: 128 KB; L2 holds two of them and the tiles of A */
    AVX512_GEMM_LINE = 16,      /* words of each row in a line of the input */
    AVX512_GEMM_UNROLL = 4,     /* steps in one iteration of the inner loop */
    AVX512_GEMM_FEW = 2,        /* maximum rows without software prefetching */
    AVX512_GEMM_FEW_LEVEL2 = 8, /* the same limit if lines are prefetched into L2 */
    AVX512_GEMM_AT_ONCE = 4,    /* level amx: panels of 4 to 8 bits that are read at once for few rows */
    AVX512_GEMM_AHEAD = 2048,   /* bytes to prefetch ahead in these panels and in panels for AMX tiles */
    AVX512_GEMM_TILES =
        43, /* maximum tiles that a panel is multiplied with at once: 512 rows, 75 KB of sums at most */
};

/* The arguments of a micro-kernel: it multiplies a tile of rows of A with a KC slice of a panel and adds the
 * products to the sums. */
struct avx512_gemm {
    const uint32_t *a;
    const char *b, *next; /* b: the KC slice; next: the first line to prefetch */
    float *sums;          /* the sums, [2][rows][16]: left and right columns of the panel */
    size_t steps, ask;    /* steps: those of the slice; ask: lines to prefetch from next on */
    bool first, level2;   /* first: start the sums at zero; level2: prefetch into L2 only */
};

typedef void avx512_gemm_fn(const struct avx512_gemm *t);

/* The rows of a tile. */
struct avx512_gemm_rows {
    size_t first, rows;
};

SIMD512_INLINE size_t avx512_gemm_tiles(size_t m, enum avx512_kind kind)
{
    size_t most = kind == AVX512_DOT || kind == AVX512_I8_GEMM ? AVX512_MOST_ROWS : AVX512_ROWS;

    return (m + most - 1) / most;
}

/* Returns tile I of the M rows. */
SIMD512_INLINE struct avx512_gemm_rows avx512_gemm_tile(size_t i, size_t m, enum avx512_kind kind)
{
    size_t tiles = avx512_gemm_tiles(m, kind), first = m * i / tiles;

    return (struct avx512_gemm_rows){first, m * (i + 1) / tiles - first};
}

/* Returns the number of words that a row of K elements takes in the input. */
SIMD512_INLINE size_t avx512_gemm_width(size_t k, enum avx512_kind kind)
{
    size_t words = (k + avx512_tile_unit(kind) - 1) / avx512_tile_unit(kind) * avx512_tile_words(kind);

    return (words + AVX512_GEMM_LINE - 1) / AVX512_GEMM_LINE * AVX512_GEMM_LINE;
}

/* Returns the number of steps that the weights of a panel of K rows take. avx512_gemm_tail() returns the
 * size, in steps, of the sums and scales after them (int8). */
SIMD512_INLINE size_t avx512_gemm_steps_of(size_t k, enum avx512_kind kind)
{
    return (k + avx512_tile_unit(kind) - 1) / avx512_tile_unit(kind);
}

SIMD512_INLINE size_t avx512_gemm_tail(enum avx512_kind kind)
{
    return kind == AVX512_I8_GEMM ? KERN_I8_TAIL / AVX512_GEMM_STEP : 0;
}

/* Returns the number of elements of each row in a line of the input. */
SIMD512_INLINE size_t avx512_gemm_columns(enum avx512_kind kind)
{
    return AVX512_GEMM_LINE / avx512_tile_words(kind) * avx512_tile_unit(kind);
}

/* Stores X[N] as columns AT to AT + N - 1 of row R of TILE in the input IN. AT is a multiple of 16, and all
 * columns are in the same line of the input. */
SIMD512_INLINE void avx512_gemm_put_line(uint32_t *in, struct avx512_gemm_rows tile, size_t r, size_t k,
                                         size_t at, const float *x, size_t n, enum avx512_kind kind)
{
    size_t most = avx512_gemm_columns(kind);

    in += tile.first * avx512_gemm_width(k, kind) + (at / most * tile.rows + r) * AVX512_GEMM_LINE +
          at % most / avx512_tile_unit(kind) * avx512_tile_words(kind);
    if (kind == AVX512_F32)
        avx512_tile_fill_f32(in, x, n);
#if defined(__AVX512BF16__) || defined(KERN_EMULATE_AVX512)
    else if (kind == AVX512_DOT)
        avx512_tile_fill_dot(in, x, n);
#endif
    else
        avx512_tile_fill_wide(in, x, n);
}

/* Returns the address of the scales [m] of the rows of an int8 input. */
SIMD512_INLINE float *avx512_gemm_scales(const void *in, size_t m, size_t k)
{
    return (float *)(uintptr_t)in + m * avx512_gemm_width(k, AVX512_I8_GEMM);
}

/* Stores X, row ROW of M rows, in the input IN. */
SIMD512_INLINE void avx512_gemm_put(uint32_t *in, const float *x, size_t row, size_t m, size_t k,
                                    enum avx512_kind kind)
{
    struct avx512_gemm_rows t = avx512_gemm_tile(((row + 1) * avx512_gemm_tiles(m, kind) - 1) / m, m, kind);
    size_t most = avx512_gemm_columns(kind);

    for (size_t at = 0; at < k; at += most)
        avx512_gemm_put_line(in, t, row - t.first, k, at, x + at, k - at < most ? k - at : most, kind);
}

/* Returns the bits of the largest |x|. As bits, a NaN is above infinity, and infinity above all numbers. */
SIMD512_INLINE uint32_t avx512_gemm_largest(const float *x, size_t k)
{
    const __m512i all = _mm512_set1_epi32(0x7fffffff);
    uint32_t lane[16], most = 0;
    __m512i m = _mm512_setzero_si512();

    for (size_t i = 0; i < k; i += 16)
        m = _mm512_max_epu32(
            m, _mm512_and_si512(all, _mm512_castps_si512(simd512_load(x + i, simd512_head(k - i)))));
    _mm512_storeu_si512(lane, m);
    for (size_t i = 0; i < 16; i++)
        most = lane[i] > most ? lane[i] : most;
    return most;
}

/* Rounds sixteen floats times INV to int8 and returns them as unsigned bytes with 128 added. */
SIMD512_INLINE __m128i avx512_gemm_bytes(__m512 x, __m512 inv)
{
    __m512 y = _mm512_max_ps(_mm512_mul_ps(x, inv), _mm512_set1_ps(-127));
    __m512i n = _mm512_cvtps_epi32(_mm512_min_ps(y, _mm512_set1_ps(127)));

    return _mm512_cvtepi32_epi8(_mm512_add_epi32(n, _mm512_set1_epi32(128)));
}

/* Quantizes X, row ROW of M rows, which belongs to TILE, and stores its bytes and scale in the input IN. */
SIMD512_INLINE void avx512_gemm_put_i8(void *in, struct avx512_gemm_rows tile, const float *x, size_t row,
                                       size_t m, size_t k, float fixed)
{
    enum { LINE = AVX512_GEMM_LINE * 4 };
    uint8_t *to =
        (uint8_t *)in +
        (tile.first * avx512_gemm_width(k, AVX512_I8_GEMM) + (row - tile.first) * AVX512_GEMM_LINE) * 4;
    __m512 inv = _mm512_set1_ps(
        kmath_i8_inv(kmath_i8_largest(avx512_gemm_largest(x, k), fixed), &avx512_gemm_scales(in, m, k)[row]));

    for (size_t at = 0; at < k; at += LINE, to += tile.rows * LINE)
        for (size_t i = 0; i < LINE && at + i < k;
             i += 16) /* the last 16 bytes are stored whole, because the line has room for them */
            _mm_storeu_si128((__m128i *)(void *)(to + i),
                             avx512_gemm_bytes(simd512_load(x + at + i, simd512_head(k - at - i)), inv));
}

/* Computes STEPS steps with words of one line of the input. */
SIMD512_INLINE void avx512_gemm_steps(__m512 acc[AVX512_MOST_ROWS][AVX512_COLS], const uint32_t *a,
                                      const char *at, int steps, int rows, enum avx512_kind kind)
{
    const char *b[AVX512_COLS] = {at, at + AVX512_GEMM_STEP / 2};

    SIMD512_UNROLL
    for (int s = 0; s < AVX512_GEMM_UNROLL; s++)
        if (s < steps)
            avx512_tile_step(acc, a + (size_t)s * avx512_tile_words(kind), AVX512_GEMM_LINE, b,
                             (size_t)s * AVX512_GEMM_STEP, rows, 2, kind);
}

/* Computes the KC slice and spreads the prefetches of t->ask lines evenly over its iterations. */
SIMD512_INLINE void avx512_gemm_sum(__m512 acc[AVX512_MOST_ROWS][AVX512_COLS], const struct avx512_gemm *t,
                                    int rows, enum avx512_kind kind)
{
    const size_t words = avx512_tile_words(kind), line = AVX512_GEMM_LINE / words;
    const size_t iterations = t->steps / AVX512_GEMM_UNROLL,
                 rate = iterations ? (t->ask + iterations - 1) / iterations : 0;
    const char *b = t->b, *ask = t->next, *end = t->next + 64 * t->ask;
    const uint32_t *a = t->a;
    const bool level2 = t->level2;
    size_t s = 0;

    for (size_t i = 0; i < iterations; i++, b += AVX512_GEMM_UNROLL * AVX512_GEMM_STEP) {
        ask = prefetch_lines(ask, end, rate, level2);
        avx512_gemm_steps(acc, a, b, AVX512_GEMM_UNROLL, rows, kind);
        a += AVX512_GEMM_UNROLL * words;
        s += AVX512_GEMM_UNROLL;
        if (s == line) { /* continues with the next cache line of every row */
            a += (size_t)(rows - 1) * AVX512_GEMM_LINE;
            s = 0;
        }
    }
    for (size_t i = iterations * AVX512_GEMM_UNROLL; i < t->steps; i++, b += AVX512_GEMM_STEP, a += words)
        avx512_gemm_steps(acc, a, b, 1, rows, kind);
}

SIMD512_INLINE void avx512_gemm_micro(const struct avx512_gemm *t, int rows, enum avx512_kind kind)
{
    __m512 acc[AVX512_MOST_ROWS][AVX512_COLS];

    if (t->first) {
        SIMD512_UNROLL
        for (int r = 0; r < AVX512_MOST_ROWS; r++)
            if (r < rows)
                acc[r][0] = acc[r][1] = _mm512_setzero_ps();
    } else {
        SIMD512_UNROLL
        for (int r = 0; r < AVX512_MOST_ROWS; r++)
            if (r < rows) {
                acc[r][0] = _mm512_loadu_ps(t->sums + 16 * r);
                acc[r][1] = _mm512_loadu_ps(t->sums + 16 * (rows + r));
            }
    }
    avx512_gemm_sum(acc, t, rows, kind);
    SIMD512_UNROLL
    for (int r = 0; r < AVX512_MOST_ROWS; r++)
        if (r < rows) {
            _mm512_storeu_ps(t->sums + 16 * r, acc[r][0]);
            _mm512_storeu_ps(t->sums + 16 * (rows + r), acc[r][1]);
        }
}

#define AVX512_GEMM_ONE(rows, kind)                       \
    static void micro_##rows(const struct avx512_gemm *t) \
    {                                                     \
        avx512_gemm_micro(t, rows, kind);                 \
    }
/* Defines the micro-kernels of a kind as micro[rows - 1]. AVX512_GEMM_TALL() is for kinds with larger tiles. */
#define AVX512_GEMM_TABLE(kind)          \
    SIMD512_TO_12(AVX512_GEMM_ONE, kind) \
    static avx512_gemm_fn *const micro[AVX512_ROWS] = {SIMD512_TO_12(SIMD512_NAMED, micro)}
#define AVX512_GEMM_TALL(kind)                                                                            \
    SIMD512_TO_12(AVX512_GEMM_ONE, kind)                                                                  \
    AVX512_GEMM_ONE(13, kind)                                                                             \
    AVX512_GEMM_ONE(14, kind)                                                                             \
    static avx512_gemm_fn *const micro[AVX512_MOST_ROWS] = {SIMD512_TO_12(SIMD512_NAMED, micro) micro_13, \
                                                            micro_14}

/* Adds the bias to SUMS, the sums of panel P for the rows ROWS, and stores the result in C. */
SIMD512_INLINE void avx512_gemm_store(const struct kern_gemm *g, size_t p, struct avx512_gemm_rows rows,
                                      const float *sums)
{
    for (size_t side = 0, at = p * KERN_NR; side < 2 && at < g->n; side++, at += 16) {
        __mmask16 mask = simd512_head(g->n - at);
        __m512 bias = g->bias ? simd512_load(g->bias + at, mask) : _mm512_setzero_ps();
        float *c = g->c + rows.first * g->ldc + at;

        for (size_t r = 0; r < rows.rows; r++, sums += 16) {
            __m512 y = _mm512_loadu_ps(sums);

            simd512_store(c + r * g->ldc, mask, g->bias ? _mm512_add_ps(y, bias) : y);
        }
    }
}

/* Loads SUMS, the sums of panel P for the rows ROWS, from C, for a gemm that continues another one (g->onto). */
SIMD512_INLINE void avx512_gemm_load(const struct kern_gemm *g, size_t p, struct avx512_gemm_rows rows,
                                     float *sums)
{
    for (size_t side = 0, at = p * KERN_NR; side < 2; side++, at += 16) {
        __mmask16 mask = simd512_head(at < g->n ? g->n - at : 0);
        const float *c = g->c + rows.first * g->ldc + (mask ? at : 0);

        for (size_t r = 0; r < rows.rows; r++, sums += 16)
            _mm512_storeu_ps(sums, simd512_load(c + r * g->ldc, mask));
    }
}

/* Adds the bias of panel P to its SUMS [2][n]: N floats of the left 16 columns, then N of the right 16. */
SIMD512_INLINE void avx512_gemm_bias(const struct kern_gemm *g, size_t p, size_t n, float *sums)
{
    bool glu = g->end == KERN_GLU;

    for (size_t side = 0; side < 2 && g->bias; side++) {
        size_t column = p * KERN_NR + 16 * side, left = glu || column >= g->n ? 16 * glu : g->n - column;
        __m512 bias = simd512_load(g->bias + column, simd512_head(left));

        for (size_t i = side * n; i < (side + 1) * n; i += 16)
            _mm512_storeu_ps(sums + i, _mm512_add_ps(_mm512_loadu_ps(sums + i), bias));
    }
}

/* Adds the bias and applies the activation, if any, to SUMS, the sums of panel P for the rows ROWS, in place. The
 * result is [rows][16] with KERN_GLU, otherwise [2][rows][16]. */
SIMD512_INLINE void avx512_gemm_finish(const struct kern_gemm *g, size_t p, struct avx512_gemm_rows rows,
                                       float *sums)
{
    size_t n = rows.rows * 16;

    avx512_gemm_bias(g, p, n, sums);
    if (g->end == KERN_GLU)
        AVX512_NAME(avx512_glu)(sums, sums, sums + n, n, g->act);
    else if (g->end == KERN_ACT)
        AVX512_NAME(avx512_act)(sums, sums, 2 * n, g->act);
}

/* Adds the bias to SUMS, the sums of panel P for the rows ROWS, and applies the activation. Stores the columns below
 * column N in C or in the input of the next gemm. */
SIMD512_INLINE void avx512_gemm_activate(const struct kern_gemm *g, size_t p, struct avx512_gemm_rows rows,
                                         float *sums, enum avx512_kind kind)
{
    bool glu = g->end == KERN_GLU;
    size_t at = p * (glu ? KERN_PAIRS : KERN_NR);

    avx512_gemm_finish(g, p, rows, sums);
    for (size_t side = 0; side < (glu ? 1 : 2) && at < g->n; side++, at += 16)
        for (size_t r = 0; r < rows.rows; r++, sums += 16)
            if (g->c)
                simd512_store(g->c + (rows.first + r) * g->ldc + at, simd512_head(g->n - at),
                              _mm512_loadu_ps(sums));
            else
                avx512_gemm_put_line(g->out, rows, r, g->n, at, sums, g->n - at < 16 ? g->n - at : 16, kind);
}

/* Converts the integer sums of an int8 gemm to floats, in place: adds the correction for the 128 that was
 * added to the input, and multiplies by the scales of the row and of the column. TAIL, the end of the panel,
 * has the corrections and the scales of its columns. */
SIMD512_INLINE void avx512_gemm_to_floats(const struct kern_gemm *g, const char *tail,
                                          struct avx512_gemm_rows rows, float *sums)
{
    const float *scale = avx512_gemm_scales(g->in, g->m, g->k) + rows.first;

    for (size_t side = 0; side < 2; side++) {
        __m512i added = _mm512_loadu_si512(tail + 64 * side);
        __m512 column = _mm512_loadu_ps((const float *)(const void *)(tail + KERN_I8_TAIL / 2 + 64 * side));

        for (size_t r = 0; r < rows.rows; r++, sums += 16) {
            __m512 y = _mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_loadu_si512(sums), added));

            _mm512_storeu_ps(sums, _mm512_mul_ps(y, _mm512_mul_ps(_mm512_set1_ps(scale[r]), column)));
        }
    }
}

/* Computes the epilogue of G for SUMS, the sums of panel P for the rows ROWS. */
SIMD512_INLINE void avx512_gemm_end(const struct kern_gemm *g, size_t p, struct avx512_gemm_rows rows,
                                    float *sums, enum avx512_kind kind)
{
    if (g->end == KERN_SUMS)
        avx512_gemm_store(g, p, rows, sums);
    else
        avx512_gemm_activate(g, p, rows, sums, kind);
}

/* Prefetches the lines to which the epilogue will store the results of panel P for the rows ROWS. The rows of
 * C are far apart, and a store to a line that is in no cache of the core delays the stores after it. */
SIMD512_INLINE void avx512_gemm_want(const struct kern_gemm *g, size_t p, struct avx512_gemm_rows rows,
                                     enum avx512_kind kind)
{
    bool glu = g->end == KERN_GLU;
    size_t at = p * (glu ? KERN_PAIRS : KERN_NR);

    if (g->c) {
        const float *c = g->c + rows.first * g->ldc + at;

        for (size_t r = 0; r < rows.rows; r++) {
            __builtin_prefetch(c + r * g->ldc, 1, 3);
            if (!glu)
                __builtin_prefetch(c + r * g->ldc + 16, 1, 3);
        }
    } else {
        const uint32_t *line = (const uint32_t *)g->out + rows.first * avx512_gemm_width(g->n, kind) +
                               at / avx512_gemm_columns(kind) * rows.rows * AVX512_GEMM_LINE;

        for (size_t r = 0; r < rows.rows; r++)
            __builtin_prefetch(line + r * AVX512_GEMM_LINE, 1, 3);
    }
}

/* Computes the steps [from, from + n) of panel P, which has STEPS, for the tiles [t0, t1) of rows, whose
 * sums are in SUMS. Prefetches the ASK lines that follow, of this panel or, after its last step, of the
 * next one. */
SIMD512_INLINE void avx512_gemm_slice(const struct kern_gemm *g, size_t p, size_t from, size_t n,
                                      size_t steps, size_t ask, size_t t0, size_t t1, float *sums,
                                      avx512_gemm_fn *const *micro, enum avx512_kind kind)
{
    size_t tiles = t1 - t0, width = avx512_gemm_width(g->k, kind),
           apart = avx512_gemm_steps_of(kern_gemm_panel_k(g), kind) -
                   steps; /* steps of a panel that are outside of this gemm's K (kern_gemm.panel_k) */
    const char *b = (const char *)g->b +
                    ((p - g->first) * (apart + steps + avx512_gemm_tail(kind)) + from) * AVX512_GEMM_STEP,
               *end = b + n * AVX512_GEMM_STEP,
               *next = end + (from + n == steps ? apart * AVX512_GEMM_STEP : 0);
    struct avx512_gemm t = {
        .b = b, .sums = sums, .steps = n, .first = from == 0 && !g->onto, .level2 = cpu_prefetches_to_l2()};

    for (size_t i = 0; i < tiles; i++) {
        struct avx512_gemm_rows rows = avx512_gemm_tile(t0 + i, g->m, kind);

        t.a = (const uint32_t *)g->in + rows.first * width + from * avx512_tile_words(kind) * rows.rows;
        t.next = next + ask * i / tiles * 64;
        t.ask = ask * (i + 1) / tiles - ask * i / tiles;
        if (from == 0 && g->onto)
            avx512_gemm_load(g, p, rows, t.sums);
        if (from + n == steps)
            avx512_gemm_want(g, p, rows, kind);
        micro[rows.rows - 1](&t);
        if (from + n == steps && kind == AVX512_I8_GEMM)
            avx512_gemm_to_floats(g, end, rows, t.sums);
        if (from + n == steps)
            avx512_gemm_end(g, p, rows, t.sums, kind);
        t.sums += rows.rows * KERN_NR;
    }
}

/* Computes the panels [p0, p1) for the tiles [t0, t1) of rows. */
SIMD512_INLINE void avx512_gemm_panels(const struct kern_gemm *g, size_t p0, size_t p1, size_t t0, size_t t1,
                                       avx512_gemm_fn *const *micro, enum avx512_kind kind)
{
    float sums[AVX512_GEMM_TILES * AVX512_MOST_ROWS * KERN_NR] __attribute__((aligned(64)));
    size_t steps = avx512_gemm_steps_of(g->k, kind), n;
    bool few = g->m <= (cpu_prefetches_to_l2() ? AVX512_GEMM_FEW_LEVEL2 : AVX512_GEMM_FEW);
    size_t most = few ? steps : AVX512_GEMM_KC;

    for (size_t p = p0; p < p1; p++) {
        size_t from = 0;

        do {
            size_t behind = ((g->ahead > p1 ? g->ahead : p1) - p) * (steps + avx512_gemm_tail(kind)) -
                            from; /* steps from here to the end of the panels that may be prefetched */

            n = steps - from < most ? steps - from : most;
            behind = behind - n < n ? behind - n : n;
            avx512_gemm_slice(g, p, from, n, steps, few ? 0 : 2 * behind, t0, t1, sums, micro, kind);
            from += n;
        } while (from < steps);
    }
}

SIMD512_INLINE void avx512_gemm_drive(const struct kern_gemm *g, size_t p0, size_t p1,
                                      avx512_gemm_fn *const *micro, enum avx512_kind kind)
{
    size_t t0, tiles;

    kern_gemm_share(g, avx512_gemm_tiles(g->m, kind), &t0, &tiles);
    for (; t0 < tiles; t0 += AVX512_GEMM_TILES)
        avx512_gemm_panels(g, p0, p1, t0, tiles - t0 < AVX512_GEMM_TILES ? tiles : t0 + AVX512_GEMM_TILES,
                           micro, kind);
}

#endif
