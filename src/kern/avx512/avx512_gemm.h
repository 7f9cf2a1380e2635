/* avx512_gemm.h - how the 512-bit gemms walk: the blocks, the micro-kernel for a tile of rows x one panel,
 * its edges.
 *
 * Rows are cut into tiles of at most 12, as equal as can be (13 rows are 7 + 6: one row alone would leave the
 * pipes idle).
 *   one tile      K in blocks of 512 words of A, all panels of the call for each: the weights stream by once
 *   many tiles    blocks of 516 rows x 8 panels x 128 steps: panel blocks (8 x 16 KB), the block of A and of
 *                 C lie in the level 2 cache; a tile's copy of A (6 KB, or 12 KB widened) and one panel block
 *                 in level 1
 * Between blocks of K the sums wait in C, as they are, so no cut changes a bit. Every step of a panel is 128
 * bytes. The micro-kernel asks for the panel's lines AHEAD steps early, and near the end of a block for those
 * of the next.
 */
#ifndef GALLOP_KERN_AVX512_GEMM_H
#define GALLOP_KERN_AVX512_GEMM_H

#include "kern/avx512/avx512_tile.h"

enum {
    AVX512_GEMM_STEP = 128,  /* bytes of a panel */
    AVX512_GEMM_AHEAD = 32,  /* steps */
    AVX512_GEMM_BLOCK = 128, /* steps of K when there are many tiles */
    AVX512_GEMM_GROUP = 8,   /* panels then */
    AVX512_GEMM_HEIGHT = 43 * AVX512_ROWS,
};

/* One call of a micro-kernel: C[rows, 32] (+)= A x panel over STEPS. */
struct avx512_gemm {
    const uint32_t *a;
    const char *b, *next; /* the panel block, and the one to be asked for next */
    float *c;
    const float *bias; /* NULL unless this is the last block of K */
    size_t ldc, steps;
    __mmask16 mask[2];
    bool first;
};

typedef void avx512_gemm_fn(const struct avx512_gemm *t);

/* The sums of C so far, and back. The masks are those of the two columns of zmm. */
SIMD512_INLINE void avx512_gemm_load(__m512 acc[AVX512_ROWS][AVX512_COLS], const float *c, size_t ldc,
                                     int rows, __mmask16 m0, __mmask16 m1)
{
    SIMD512_UNROLL
    for (int r = 0; r < AVX512_ROWS; r++)
        if (r < rows) {
            acc[r][0] = simd512_load(c + (size_t)r * ldc, m0);
            acc[r][1] = simd512_load(c + (size_t)r * ldc + 16, m1);
        }
}

SIMD512_INLINE void avx512_gemm_store(__m512 acc[AVX512_ROWS][AVX512_COLS], float *c, size_t ldc, int rows,
                                      __mmask16 m0, __mmask16 m1)
{
    SIMD512_UNROLL
    for (int r = 0; r < AVX512_ROWS; r++)
        if (r < rows) {
            simd512_store(c + (size_t)r * ldc, m0, acc[r][0]);
            simd512_store(c + (size_t)r * ldc + 16, m1, acc[r][1]);
        }
}

SIMD512_INLINE void avx512_gemm_micro(const struct avx512_gemm *t, int rows, enum avx512_kind kind)
{
    __m512 acc[AVX512_ROWS][AVX512_COLS];
    const char *b[2] = {t->b, t->b + 64};
    const uint32_t *a = t->a;
    size_t ahead = t->steps < AVX512_GEMM_AHEAD ? t->steps : AVX512_GEMM_AHEAD;
    size_t n = t->steps - ahead, words = avx512_tile_words(kind);
    const char *pf = t->b + ahead * AVX512_GEMM_STEP;

    if (t->first) {
        SIMD512_UNROLL
        for (int r = 0; r < AVX512_ROWS; r++)
            if (r < rows)
                acc[r][0] = acc[r][1] = _mm512_setzero_ps();
    } else if (t->mask[1] == SIMD512_ALL) {
        avx512_gemm_load(acc, t->c, t->ldc, rows, SIMD512_ALL, SIMD512_ALL);
    } else {
        avx512_gemm_load(acc, t->c, t->ldc, rows, t->mask[0], t->mask[1]);
    }
    for (int part = 0; part < 2; part++, n = ahead, pf = t->next) {
        for (; n > 0; n--) {
            _mm_prefetch(pf, _MM_HINT_T0);
            _mm_prefetch(pf + 64, _MM_HINT_T0);
            avx512_tile_step(acc, a, AVX512_STRIDE, b, 0, rows, 2, kind);
            a += words;
            b[0] += AVX512_GEMM_STEP;
            b[1] += AVX512_GEMM_STEP;
            pf += AVX512_GEMM_STEP;
        }
    }
    if (t->bias) {
        __m512 b0 = simd512_load(t->bias, t->mask[0]), b1 = simd512_load(t->bias + 16, t->mask[1]);

        SIMD512_UNROLL
        for (int r = 0; r < AVX512_ROWS; r++)
            if (r < rows) {
                acc[r][0] = _mm512_add_ps(acc[r][0], b0);
                acc[r][1] = _mm512_add_ps(acc[r][1], b1);
            }
    }
    if (t->mask[1] == SIMD512_ALL)
        avx512_gemm_store(acc, t->c, t->ldc, rows, SIMD512_ALL, SIMD512_ALL);
    else
        avx512_gemm_store(acc, t->c, t->ldc, rows, t->mask[0], t->mask[1]);
}

/* The twelve micro-kernels of a kind, as a table micro[rows - 1]. */
#define AVX512_GEMM_FN(rows, kind)                        \
    static void micro_##rows(const struct avx512_gemm *t) \
    {                                                     \
        avx512_gemm_micro(t, rows, kind);                 \
    }
#define AVX512_GEMM_TABLE(kind)                                                              \
    AVX512_GEMM_FN(1, kind)                                                                  \
    AVX512_GEMM_FN(2, kind)                                                                  \
    AVX512_GEMM_FN(3, kind)                                                                  \
    AVX512_GEMM_FN(4, kind)                                                                  \
    AVX512_GEMM_FN(5, kind)                                                                  \
    AVX512_GEMM_FN(6, kind)                                                                  \
    AVX512_GEMM_FN(7, kind)                                                                  \
    AVX512_GEMM_FN(8, kind)                                                                  \
    AVX512_GEMM_FN(9, kind)                                                                  \
    AVX512_GEMM_FN(10, kind)                                                                 \
    AVX512_GEMM_FN(11, kind)                                                                 \
    AVX512_GEMM_FN(12, kind)                                                                 \
    static avx512_gemm_fn *const micro[AVX512_ROWS] = {micro_1, micro_2,  micro_3,  micro_4, \
                                                       micro_5, micro_6,  micro_7,  micro_8, \
                                                       micro_9, micro_10, micro_11, micro_12}

/* A tile of rows against some panels over a part of K. */
struct avx512_gemm_pass {
    const struct kern_gemm *g;
    uint32_t *words;       /* AVX512_ROWS x AVX512_STRIDE */
    size_t row, rows;      /* the tile */
    size_t p0, p1;         /* panels */
    size_t from, n, steps; /* steps [from, from + n) of STEPS */
};

SIMD512_INLINE void avx512_gemm_run(const struct avx512_gemm_pass *o, avx512_gemm_fn *const *micro,
                                    enum avx512_kind kind)
{
    const struct kern_gemm *g = o->g;
    struct avx512_gemm t = {.a = o->words, .ldc = g->ldc, .steps = o->n, .first = o->from == 0};
    size_t unit = avx512_tile_unit(kind), k = o->from * unit, panel = o->steps * AVX512_GEMM_STEP;
    const char *b = (const char *)g->b + o->from * AVX512_GEMM_STEP;
    bool last = o->from + o->n == o->steps;

    avx512_tile_fill(o->words, g->a, g->lda, o->row, o->rows, k, last ? g->k - k : o->n * unit, kind);
    for (size_t p = o->p0; p < o->p1; p++) {
        size_t left = g->n - p * KERN_NR;

        t.b = b + p * panel;
        t.next = p + 1 < o->p1 ? t.b + panel : b + o->p0 * panel + o->n * AVX512_GEMM_STEP;
        t.c = g->c + o->row * g->ldc + p * KERN_NR;
        t.bias = last && g->bias ? g->bias + p * KERN_NR : NULL;
        t.mask[0] = simd512_head(left);
        t.mask[1] = left > 16 ? simd512_head(left - 16) : 0;
        micro[o->rows - 1](&t);
    }
}

/* All of C[rows m0..m1, panels p0..p1]. */
SIMD512_INLINE void avx512_gemm_block(struct avx512_gemm_pass *o, size_t m0, size_t m1,
                                      avx512_gemm_fn *const *micro, enum avx512_kind kind)
{
    size_t tiles = (m1 - m0 + AVX512_ROWS - 1) / AVX512_ROWS, block = AVX512_GEMM_BLOCK;

    if (tiles == 1)
        block = AVX512_WORDS / avx512_tile_words(kind);
    o->from = 0;
    do {
        o->n = o->steps - o->from < block ? o->steps - o->from : block;
        for (size_t i = 0; i < tiles; i++) {
            o->row = m0 + (m1 - m0) * i / tiles;
            o->rows = m0 + (m1 - m0) * (i + 1) / tiles - o->row;
            avx512_gemm_run(o, micro, kind);
        }
        o->from += o->n;
    } while (o->from < o->steps);
}

SIMD512_INLINE void avx512_gemm_drive(const struct kern_gemm *g, size_t p0, size_t p1,
                                      avx512_gemm_fn *const *micro, enum avx512_kind kind)
{
    _Alignas(64) uint32_t words[AVX512_ROWS * AVX512_STRIDE];
    struct avx512_gemm_pass o = {.g = g, .words = words};
    size_t unit = avx512_tile_unit(kind), group = g->m > AVX512_ROWS ? AVX512_GEMM_GROUP : p1 - p0;

    o.steps = (g->k + unit - 1) / unit;
    for (size_t m0 = 0; m0 < g->m; m0 += AVX512_GEMM_HEIGHT) {
        size_t m1 = g->m - m0 < AVX512_GEMM_HEIGHT ? g->m : m0 + AVX512_GEMM_HEIGHT;

        for (o.p0 = p0; o.p0 < p1; o.p0 = o.p1) {
            o.p1 = p1 - o.p0 < group ? p1 : o.p0 + group;
            avx512_gemm_block(&o, m0, m1, micro, kind);
        }
    }
}

#endif
