/* amx_gemm.h - how the gemms of tiles walk: the input's form, the blocks, the micro-kernel for two tiles of
 * rows.
 *
 *   rows    cut into tiles of 16, the last of what is left; two go through a panel together, so that each
 *           line of the panel is loaded once for 32 rows
 *   input   that of avx512_gemm.h with these tiles: a line of cache of every row, then the next, which is a
 *           tile of A; what of the last line is beyond K is not read
 *   panels  as everywhere: 16 steps of 128 bytes are a tile of B for each side
 *   blocks  of 256 steps, 32 KB, and groups of panels: the lines of A of a block stay in level 2 while all
 *           panels of the group take them, and the block of a panel stays in level 1 for all rows. Rows whose
 *           input stays in level 2 as a whole need no groups, and few rows no blocks
 *   ahead   while a block computes, its rows ask memory for their shares of the next one, into level 2
 *
 * Sums wait in an array of the thread's own, as in avx512_gemm.h, from which they go on as they do there. A
 * cut is at a multiple of 16 steps, where TDPBF16PS begins anew, so that no cut changes a bit.
 */
#ifndef GALLOP_KERN_AMX_GEMM_H
#define GALLOP_KERN_AMX_GEMM_H

#include <string.h>

#include "kern/amx/amx_tile.h"
#include "kern/avx512/avx512.h"
#include "kern/avx512/avx512_gemm.h"

enum {
    AMX_GEMM_BLOCK = 1024,   /* steps */
    AMX_GEMM_PANELS = 8,     /* of a group */
    AMX_GEMM_MOST = 256,     /* rows that go through panels together */
    AMX_GEMM_STREAMS = 8,    /* in which lines are asked for */
    AMX_GEMM_STAYS = 1 << 20 /* bytes of the input that stay in level 2 */
};

/* Which tile of the M rows row ROW is of. */
SIMD512_INLINE struct avx512_gemm_rows amx_gemm_tile(size_t row, size_t m)
{
    size_t first = row / AMX_ROWS * AMX_ROWS;

    return (struct avx512_gemm_rows){first, m - first < AMX_ROWS ? m - first : AMX_ROWS};
}

/* X, row ROW of M, to its place in IN. */
SIMD512_INLINE void amx_gemm_put(uint32_t *in, const float *x, size_t row, size_t m, size_t k,
                                 enum avx512_kind kind)
{
    struct avx512_gemm_rows t = amx_gemm_tile(row, m);
    size_t most = avx512_gemm_columns(kind);

    for (size_t at = 0; at < k; at += most)
        avx512_gemm_put_line(in, t, row - t.first, k, at, x + at, k - at < most ? k - at : most, kind);
}

/* One call of the micro-kernel: the sums of two tiles of rows (+)= A x a block of a panel. */
struct amx_gemm {
    const uint32_t *a[2];
    const char *b, *next; /* the block, and the one that is wanted next, */
    size_t stream;        /* in AMX_GEMM_STREAMS streams of so many bytes, */
    size_t ask, asked;    /* of whose lines, in turns, these are asked for */
    float *sums[2];       /* [2][rows][16] each */
    size_t rows[2];       /* the second may be 0 */
    size_t steps;
    bool first;
};

/* Turns of 16 steps, or one of what is left. */
SIMD512_INLINE void amx_gemm_turns(const struct amx_gemm *t, size_t turns, int pair, enum avx512_kind kind)
{
    const size_t apart[2] = {t->rows[0] * AMX_WORDS, t->rows[1] * AMX_WORDS};
    const size_t rate = turns ? (t->asked - t->ask + turns - 1) / turns : 0;
    const char *b = t->b;
    size_t ask = t->ask;
    const uint32_t *a = t->a[0], *a1 = t->a[1];

    for (size_t i = 0; i < turns; i++, b += AMX_WORDS * AVX512_GEMM_STEP) {
        if (i % 8 == 7)
            AMX_STORE(0, t->sums[0], AMX_LINE);
        const size_t stop = t->asked - ask < rate ? t->asked : ask + rate;

        for (; ask < stop; ask++)
            ahead_line(t->next + ask % AMX_GEMM_STREAMS * t->stream + ask / AMX_GEMM_STREAMS * AMX_LINE,
                       true);
        AMX_LOAD(4, a, AMX_LINE);
        AMX_LOAD(6, b, AVX512_GEMM_STEP);
        AMX_LOAD(7, b + AVX512_GEMM_STEP / 2, AVX512_GEMM_STEP);
        if (kind == AVX512_DOT)
            AMX_BF16(0, 4, 6);
        else
            AMX_I8(0, 4, 6);
        if (pair)
            AMX_LOAD(5, a1, AMX_LINE);
        if (kind == AVX512_DOT)
            AMX_BF16(1, 4, 7);
        else
            AMX_I8(1, 4, 7);
        if (pair && kind == AVX512_DOT) {
            AMX_BF16(2, 5, 6);
            AMX_BF16(3, 5, 7);
        } else if (pair) {
            AMX_I8(2, 5, 6);
            AMX_I8(3, 5, 7);
        }
        a += apart[0];
        a1 += apart[1];
    }
}

SIMD512_INLINE void amx_gemm_begin(const struct amx_gemm *t, int pair)
{
    if (t->first) {
        AMX_ZERO(0);
        AMX_ZERO(1);
    } else {
        AMX_LOAD(0, t->sums[0], AMX_LINE);
        AMX_LOAD(1, t->sums[0] + AMX_WORDS * t->rows[0], AMX_LINE);
    }
    if (pair && t->first) {
        AMX_ZERO(2);
        AMX_ZERO(3);
    } else if (pair) {
        AMX_LOAD(2, t->sums[1], AMX_LINE);
        AMX_LOAD(3, t->sums[1] + AMX_WORDS * t->rows[1], AMX_LINE);
    }
}

SIMD512_INLINE void amx_gemm_keep(const struct amx_gemm *t, int pair)
{
    AMX_STORE(0, t->sums[0], AMX_LINE);
    AMX_STORE(1, t->sums[0] + AMX_WORDS * t->rows[0], AMX_LINE);
    if (pair) {
        AMX_STORE(2, t->sums[1], AMX_LINE);
        AMX_STORE(3, t->sums[1] + AMX_WORDS * t->rows[1], AMX_LINE);
    }
}

SIMD512_INLINE void amx_gemm_micro(const struct amx_gemm *t, int pair, enum avx512_kind kind)
{
    size_t turns = t->steps / AMX_WORDS, left = t->steps % AMX_WORDS;

    amx_gemm_begin(t, pair);
    amx_gemm_turns(t, turns, pair, kind);
    amx_gemm_keep(t, pair);
    if (left) {
        struct amx_gemm rest = *t;

        rest.a[0] += turns * AMX_WORDS * t->rows[0];
        rest.a[1] += turns * AMX_WORDS * t->rows[1];
        rest.b += turns * AMX_WORDS * AVX512_GEMM_STEP;
        rest.ask = rest.asked;
        rest.first = false;
        amx_shape(t->rows, left);
        amx_gemm_begin(&rest, pair);
        amx_gemm_turns(&rest, 1, pair, kind);
        amx_gemm_keep(&rest, pair);
        amx_shape(t->rows, AMX_WORDS);
    }
}

/* Rows [r0, r0 + rows) of a gemm through some of its panels. */
struct amx_gemm_walk {
    const struct kern_gemm *g;
    size_t r0, rows, steps, panel_bytes;
    size_t shaped[2]; /* rows of tiles as they are */
    float *sums;      /* [panels of a group][rows][32] */
};

SIMD512_INLINE const char *amx_gemm_at(const struct amx_gemm_walk *w, size_t p, size_t from)
{
    return (const char *)w->g->b + (p - w->g->first) * w->panel_bytes + from * AVX512_GEMM_STEP;
}

/* The steps [from, from + n) of panel P, whose sums are SUMS, by all rows; LINES lines at NEXT are wanted
 * then. */
SIMD512_INLINE void amx_gemm_block(struct amx_gemm_walk *w, size_t p, size_t from, size_t n, const char *next,
                                   size_t lines, float *sums, enum avx512_kind kind)
{
    const struct kern_gemm *g = w->g;
    const uint32_t *in = (const uint32_t *)g->in + w->r0 * avx512_gemm_width(g->k, kind);
    size_t width = avx512_gemm_width(g->k, kind), pairs = (w->rows + 2 * AMX_ROWS - 1) / (2 * AMX_ROWS);

    for (size_t i = 0; i < pairs; i++) {
        size_t at = i * 2 * AMX_ROWS, left = w->rows - at;
        struct amx_gemm t = {.b = amx_gemm_at(w, p, from), .steps = n, .first = from == 0 && !g->onto};

        t.rows[0] = left < AMX_ROWS ? left : AMX_ROWS;
        t.rows[1] = left - t.rows[0] < AMX_ROWS ? left - t.rows[0] : AMX_ROWS;
        for (size_t j = 0; j < 2; j++, at += AMX_ROWS) {
            t.a[j] = in + at * width + from * t.rows[j];
            t.sums[j] = sums + at * KERN_NR;
            if (from == 0 && g->onto && t.rows[j])
                avx512_gemm_load(g, p, (struct avx512_gemm_rows){w->r0 + at, t.rows[j]}, t.sums[j]);
        }
        t.next = next;
        t.stream = lines / AMX_GEMM_STREAMS * AMX_LINE;
        t.ask = lines * i / pairs;
        t.asked = lines * (i + 1) / pairs;
        if (t.rows[0] != w->shaped[0] || t.rows[1] != w->shaped[1]) {
            amx_shape(t.rows, AMX_WORDS);
            memcpy(w->shaped, t.rows, sizeof(w->shaped));
        }
        amx_gemm_micro(&t, t.rows[1] != 0, kind);
    }
}

/* Whole sums of panel P to where they go. */
SIMD512_INLINE void amx_gemm_end(const struct amx_gemm_walk *w, size_t p, float *sums, enum avx512_kind kind)
{
    for (size_t at = 0; at < w->rows; at += AMX_ROWS, sums += AMX_ROWS * KERN_NR) {
        struct avx512_gemm_rows rows = {w->r0 + at, w->rows - at < AMX_ROWS ? w->rows - at : AMX_ROWS};

        if (kind == AVX512_I8_GEMM)
            avx512_gemm_to_floats(w->g, amx_gemm_at(w, p, w->steps), rows, sums);
        avx512_gemm_end(w->g, p, rows, sums, kind);
    }
}

/* The panels [p, end) of a group, block by block; the caller goes on up to panel LAST. */
SIMD512_INLINE void amx_gemm_group(struct amx_gemm_walk *w, size_t p, size_t end, size_t last, size_t most,
                                   enum avx512_kind kind)
{
    size_t tail = avx512_gemm_tail(kind), from = 0, n;

    do {
        n = w->steps - from < most ? w->steps - from : most;
        for (size_t q = p; q < end; q++) {
            float *sums = w->sums + (q - p) * w->rows * KERN_NR;
            bool done = from + n == w->steps;
            const char *next = q + 1 < end ? amx_gemm_at(w, q + 1, from)
                               : done      ? amx_gemm_at(w, end, 0)
                                           : amx_gemm_at(w, p, from + n);
            size_t left = q + 1 < end ? n : done ? (end < last ? n : 0) : w->steps - from - n;

            amx_gemm_block(w, q, from, n, next, 2 * (left < n ? left : n) + (done ? tail : 0), sums, kind);
            if (done)
                amx_gemm_end(w, q, sums, kind);
        }
        from += n;
    } while (from < w->steps);
}

SIMD512_INLINE void amx_gemm_drive(const struct kern_gemm *g, size_t p0, size_t p1, enum avx512_kind kind)
{
    float sums[AMX_GEMM_PANELS * AMX_GEMM_MOST * KERN_NR] __attribute__((aligned(64)));
    size_t steps = avx512_gemm_steps_of(g->k, kind), last = g->ahead > p1 ? g->ahead : p1;
    struct amx_gemm_walk w = {
        .g = g,
        .steps = steps,
        .panel_bytes =
            (avx512_gemm_steps_of(kern_gemm_panel_k(g), kind) + avx512_gemm_tail(kind)) * AVX512_GEMM_STEP,
        .sums = sums};

    for (; w.r0 < g->m; w.r0 += w.rows) {
        size_t left = g->m - w.r0, parts = (left + AMX_GEMM_MOST - 1) / AMX_GEMM_MOST, panels, most;

        w.rows = (left / parts + 2 * AMX_ROWS - 1) / (2 * AMX_ROWS) * 2 * AMX_ROWS;
        w.rows = w.rows < left ? w.rows : left;
        panels = w.rows * steps * 4 <= AMX_GEMM_STAYS ? 1 : AMX_GEMM_PANELS;
        most = w.rows <= 2 * AMX_ROWS ? steps : AMX_GEMM_BLOCK;
        for (size_t p = p0; p < p1; p += panels)
            amx_gemm_group(&w, p, p1 - p < panels ? p1 : p + panels, last, most, kind);
    }
    AMX_RELEASE();
}

#endif
