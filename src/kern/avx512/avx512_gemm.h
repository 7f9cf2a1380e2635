/* avx512_gemm.h - how the 512-bit gemms walk: the blocks, the micro-kernels for a tile of rows, the edges.
 *
 * Rows are cut into tiles of at most 12, as equal as can be (13 rows are 7 + 6: one row alone would leave the
 * pipes idle).
 *   one tile      K in blocks of 512 words of A, all panels of the call for each: the weights stream by once
 *   many tiles    blocks of 516 rows x 8 panels x 128 steps: panel blocks (8 x 16 KB), the block of A and of
 *                 C lie in the level 2 cache; a tile's copy of A (6 KB, or 12 KB widened) and one panel block
 *                 in level 1
 *   few rows      one or two rows take four panels side by side, three to five take two: memory gives a core
 *                 half as much again in four streams as in one
 * Between blocks of K the sums wait in C, as they are, so no cut changes a bit. Every step of a panel is 128
 * bytes.
 */
#ifndef GALLOP_KERN_AVX512_GEMM_H
#define GALLOP_KERN_AVX512_GEMM_H

#include "kern/ahead.h"
#include "kern/avx512/avx512_tile.h"

enum {
    AVX512_GEMM_STEP = 128,  /* bytes of a panel */
    AVX512_GEMM_AHEAD = 64,  /* columns of zmm that are asked for early: 32 steps of a panel, 8 of four */
    AVX512_GEMM_FEW = 5,     /* rows at most that take panels side by side */
    AVX512_GEMM_BLOCK = 128, /* steps of K when there are many tiles */
    AVX512_GEMM_GROUP = 8,   /* panels then */
    AVX512_GEMM_HEIGHT = 43 * AVX512_ROWS,
};

/* One call of a micro-kernel: C[rows, 32 a panel] (+)= A x the panels over STEPS. */
struct avx512_gemm {
    const uint32_t *a;
    const char *b, *next; /* the first panel block, and the one to be asked for after it */
    float *c;
    const float *bias;        /* NULL unless this is the last block of K */
    size_t ldc, steps, panel; /* PANEL: bytes from panel to panel */
    __mmask16 mask[2];        /* of the columns of a lone panel */
    bool first, level2;       /* LEVEL2: lines are asked for into level 2 only */
};

typedef void avx512_gemm_fn(const struct avx512_gemm *t);

/* The sums of C so far, and back. Two columns may be cut short by the masks. */
SIMD512_INLINE void avx512_gemm_load(__m512 acc[AVX512_ROWS][AVX512_COLS], const struct avx512_gemm *t,
                                     int rows, int cols, __mmask16 m0, __mmask16 m1)
{
    SIMD512_UNROLL
    for (int r = 0; r < AVX512_ROWS; r++) {
        SIMD512_UNROLL
        for (int c = 0; c < AVX512_COLS; c++)
            if (r < rows && c < cols)
                acc[r][c] = simd512_load(t->c + (size_t)r * t->ldc + 16 * c, c % 2 ? m1 : m0);
    }
}

SIMD512_INLINE void avx512_gemm_store(__m512 acc[AVX512_ROWS][AVX512_COLS], const struct avx512_gemm *t,
                                      int rows, int cols, __mmask16 m0, __mmask16 m1)
{
    SIMD512_UNROLL
    for (int r = 0; r < AVX512_ROWS; r++) {
        SIMD512_UNROLL
        for (int c = 0; c < AVX512_COLS; c++)
            if (r < rows && c < cols)
                simd512_store(t->c + (size_t)r * t->ldc + 16 * c, c % 2 ? m1 : m0, acc[r][c]);
    }
}

SIMD512_INLINE void avx512_gemm_bias(__m512 acc[AVX512_ROWS][AVX512_COLS], const struct avx512_gemm *t,
                                     int rows, int cols)
{
    SIMD512_UNROLL
    for (int c = 0; c < AVX512_COLS; c++)
        if (c < cols) {
            __m512 v = simd512_load(t->bias + 16 * c, cols > 2 ? SIMD512_ALL : t->mask[c % 2]);

            SIMD512_UNROLL
            for (int r = 0; r < AVX512_ROWS; r++)
                if (r < rows)
                    acc[r][c] = _mm512_add_ps(acc[r][c], v);
        }
}

/* Sums STEPS steps; lines are asked for AHEAD steps early, at the end those of the next block. */
SIMD512_INLINE void avx512_gemm_sum(__m512 acc[AVX512_ROWS][AVX512_COLS], const struct avx512_gemm *t,
                                    int rows, int cols, enum avx512_kind kind)
{
    const char *b[AVX512_COLS];
    const uint32_t *a = t->a;
    size_t most = AVX512_GEMM_AHEAD / (size_t)cols, ahead = t->steps < most ? t->steps : most;
    size_t end = (t->steps - ahead) * AVX512_GEMM_STEP, at = 0;
    uintptr_t ask = ahead * AVX512_GEMM_STEP; /* from a line to the one asked for */
    const bool level2 = t->level2;

    SIMD512_UNROLL
    for (int c = 0; c < AVX512_COLS; c++)
        if (c < cols)
            b[c] = t->b + (size_t)(c / 2) * t->panel + 64 * (c % 2);
    for (int part = 0; part < 2; part++) {
        for (; at < end; at += AVX512_GEMM_STEP) {
            SIMD512_UNROLL
            for (int c = 0; c < AVX512_COLS; c++)
                if (c < cols)
                    ahead_line((const char *)((uintptr_t)b[c] + ask + at), level2);
            avx512_tile_step(acc, a, AVX512_STRIDE, b, at, rows, cols, kind);
            a += avx512_tile_words(kind);
        }
        ask = (uintptr_t)t->next - (uintptr_t)t->b - end;
        end = t->steps * AVX512_GEMM_STEP;
    }
}

SIMD512_INLINE void avx512_gemm_micro(const struct avx512_gemm *t, int rows, int panels,
                                      enum avx512_kind kind)
{
    __m512 acc[AVX512_ROWS][AVX512_COLS];
    int cols = 2 * panels;
    bool whole = panels > 1 || t->mask[1] == SIMD512_ALL;

    if (t->first) {
        SIMD512_UNROLL
        for (int r = 0; r < AVX512_ROWS; r++) {
            SIMD512_UNROLL
            for (int c = 0; c < AVX512_COLS; c++)
                if (r < rows && c < cols)
                    acc[r][c] = _mm512_setzero_ps();
        }
    } else if (whole) {
        avx512_gemm_load(acc, t, rows, cols, SIMD512_ALL, SIMD512_ALL);
    } else {
        avx512_gemm_load(acc, t, rows, cols, t->mask[0], t->mask[1]);
    }
    avx512_gemm_sum(acc, t, rows, cols, kind);
    if (t->bias)
        avx512_gemm_bias(acc, t, rows, cols);
    if (whole)
        avx512_gemm_store(acc, t, rows, cols, SIMD512_ALL, SIMD512_ALL);
    else
        avx512_gemm_store(acc, t, rows, cols, t->mask[0], t->mask[1]);
}

/* The micro-kernels of a kind: [rows - 1], for one panel, and for some that fit the registers side by
 * side. */
struct avx512_gemm_micros {
    avx512_gemm_fn *one[AVX512_ROWS];
    avx512_gemm_fn *wide[AVX512_GEMM_FEW];
};

/* Panels of a wide micro-kernel. */
SIMD512_INLINE size_t avx512_gemm_wide(size_t rows)
{
    return rows <= 2 ? 4 : 2;
}

#define AVX512_GEMM_ONE(rows, kind)                       \
    static void micro_##rows(const struct avx512_gemm *t) \
    {                                                     \
        avx512_gemm_micro(t, rows, 1, kind);              \
    }
#define AVX512_GEMM_WIDE(rows, kind)                                   \
    static void wide_##rows(const struct avx512_gemm *t)               \
    {                                                                  \
        avx512_gemm_micro(t, rows, (int)avx512_gemm_wide(rows), kind); \
    }
#define AVX512_GEMM_TABLE(kind)                                                                            \
    AVX512_GEMM_ONE(1, kind)                                                                               \
    AVX512_GEMM_ONE(2, kind)                                                                               \
    AVX512_GEMM_ONE(3, kind)                                                                               \
    AVX512_GEMM_ONE(4, kind)                                                                               \
    AVX512_GEMM_ONE(5, kind)                                                                               \
    AVX512_GEMM_ONE(6, kind)                                                                               \
    AVX512_GEMM_ONE(7, kind)                                                                               \
    AVX512_GEMM_ONE(8, kind)                                                                               \
    AVX512_GEMM_ONE(9, kind)                                                                               \
    AVX512_GEMM_ONE(10, kind)                                                                              \
    AVX512_GEMM_ONE(11, kind)                                                                              \
    AVX512_GEMM_ONE(12, kind)                                                                              \
    AVX512_GEMM_WIDE(1, kind)                                                                              \
    AVX512_GEMM_WIDE(2, kind)                                                                              \
    AVX512_GEMM_WIDE(3, kind)                                                                              \
    AVX512_GEMM_WIDE(4, kind)                                                                              \
    AVX512_GEMM_WIDE(5, kind)                                                                              \
    static const struct avx512_gemm_micros micro = {{micro_1, micro_2, micro_3, micro_4, micro_5, micro_6, \
                                                     micro_7, micro_8, micro_9, micro_10, micro_11,        \
                                                     micro_12},                                            \
                                                    {wide_1, wide_2, wide_3, wide_4, wide_5}}

/* A tile of rows against some panels over a part of K. */
struct avx512_gemm_pass {
    const struct kern_gemm *g;
    uint32_t *words;       /* AVX512_ROWS x AVX512_STRIDE */
    size_t row, rows;      /* the tile */
    size_t p0, p1;         /* panels */
    size_t from, n, steps; /* steps [from, from + n) of STEPS */
    bool level2;
};

SIMD512_INLINE void avx512_gemm_run(const struct avx512_gemm_pass *o, const struct avx512_gemm_micros *micro,
                                    enum avx512_kind kind)
{
    const struct kern_gemm *g = o->g;
    struct avx512_gemm t = {
        .a = o->words, .ldc = g->ldc, .steps = o->n, .first = o->from == 0, .level2 = o->level2};
    size_t unit = avx512_tile_unit(kind), k = o->from * unit, side = avx512_gemm_wide(o->rows), n;
    const char *b = (const char *)g->b + o->from * AVX512_GEMM_STEP;
    bool last = o->from + o->n == o->steps;

    t.panel = o->steps * AVX512_GEMM_STEP;
    avx512_tile_fill(o->words, g->a, g->lda, o->row, o->rows, k, last ? g->k - k : o->n * unit, kind);
    for (size_t p = o->p0; p < o->p1; p += n) {
        size_t left = g->n - p * KERN_NR;

        n = o->rows <= AVX512_GEMM_FEW && o->p1 - p >= side && left >= side * KERN_NR ? side : 1;
        t.b = b + p * t.panel;
        t.next = p + n < o->p1 ? t.b + n * t.panel : b + o->p0 * t.panel + o->n * AVX512_GEMM_STEP;
        t.c = g->c + o->row * g->ldc + p * KERN_NR;
        t.bias = last && g->bias ? g->bias + p * KERN_NR : NULL;
        t.mask[0] = simd512_head(left);
        t.mask[1] = left > 16 ? simd512_head(left - 16) : 0;
        if (n > 1)
            micro->wide[o->rows - 1](&t);
        else
            micro->one[o->rows - 1](&t);
    }
}

/* All of C[rows m0..m1, panels p0..p1]. */
SIMD512_INLINE void avx512_gemm_block(struct avx512_gemm_pass *o, size_t m0, size_t m1,
                                      const struct avx512_gemm_micros *micro, enum avx512_kind kind)
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
                                      const struct avx512_gemm_micros *micro, enum avx512_kind kind)
{
    _Alignas(64) uint32_t words[AVX512_ROWS * AVX512_STRIDE];
    struct avx512_gemm_pass o = {.g = g, .words = words, .level2 = cpu_level2_ahead()};
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
