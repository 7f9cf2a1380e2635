/* amx_unpacked.h - the gemms with AMX tiles over weights of 4 bits: the weights of one or more iterations are
 * unpacked to L1, while the AMX unit computes the iterations before.
 *
 *   one   tile of rows: three panels at once, which are three streams from memory; sums stay in the AMX tiles
 *   two   tiles of rows: one panel at a time; sums stay in the AMX tiles
 *   more  tiles, up to 256 rows: sums are stored and loaded after some iterations, which costs less than
 *         storing the unpacked weights of a whole panel to L2 and loading them
 *
 * With one or two tiles of rows, one iteration is unpacked at a time. Unpacking also prefetches later lines,
 * and a core can have only a few lines in flight: prefetching for many iterations at once would not bring the
 * lines sooner, and memory would idle while the AMX unit computes.
 *
 * An iteration multiplies 16 steps of a panel along K, 2 KB of unpacked weights.
 */
#ifndef GALLOP_KERN_AMX_UNPACKED_H
#define GALLOP_KERN_AMX_UNPACKED_H

#include "kern/amx/amx_gemm.h"

enum { AMX_UNPACKED_MANY = 8 /* iterations that are unpacked at once for more than two tiles of rows */ };

/* A gemm over 4-bit weights. The function unpack() unpacks the weights of the iterations [from, from + n) of
 * panel P to TO. */
struct amx_unpacked {
    const struct kern_gemm *g;
    size_t group; /* size of a quantization group, for unpack() */
    size_t iterations;
    void (*unpack)(char *to, const struct amx_unpacked *u, size_t p, size_t from, size_t n);
    /* int8 only: the tail of panel g->first, its column sums and scales (KERN_I8_TAIL). The tails of
     * consecutive panels are tail_apart bytes apart. */
    const char *tail;
    size_t tail_apart;
};

typedef char amx_unpacked_b[AMX_WORDS * AVX512_GEMM_STEP];

/* The state for a single tile of rows: the unpacked weights of the current and of the next iteration, and the
 * sums. */
struct amx_unpacked_one {
    amx_unpacked_b b[2] __attribute__((aligned(64)));
    float sums[AMX_GEMM_AT_ONCE * AMX_ROWS * KERN_NR] __attribute__((aligned(64)));
    size_t rows;
};

/* Returns the unpacked weights of iteration I of panel P + NUMBER, which the previous call put in buffer
 * *NOW. Unpacks the next weights to the other buffer and sets *NOW to it: the weights of iteration I of the
 * next panel or, after the last of PANELS panels, of iteration I + 1 of panel P. */
SIMD512_INLINE const char *amx_unpacked_next(struct amx_unpacked_one *t, const struct amx_unpacked *u,
                                             size_t p, size_t i, int number, int panels, size_t *now)
{
    const char *b = t->b[*now];

    *now = 1 - *now;
    if (number + 1 < panels)
        u->unpack(t->b[*now], u, p + (size_t)number + 1, i, 1);
    else if (i + 1 < u->iterations)
        u->unpack(t->b[*now], u, p, i + 1, 1);
    return b;
}

/* Computes the panels [p, p + PANELS) for a single tile of rows. */
SIMD512_INLINE void amx_unpacked_panels(struct amx_unpacked_one *t, const struct amx_unpacked *u, size_t p,
                                        int panels, enum avx512_kind kind)
{
    const struct avx512_gemm_rows rows = {0, t->rows};
    const uint32_t *a = u->g->in;
    size_t now = 0;

    memset(t->sums, 0, sizeof(t->sums));
    AMX_GEMM_ONE_SUMS(AMX_LOAD, t, panels);
    u->unpack(t->b[now], u, p, 0, 1);
    for (size_t i = 0; i < u->iterations; i++, a += t->rows * AMX_WORDS) {
        const char *b = amx_unpacked_next(t, u, p, i, 0, panels, &now);

        AMX_LOAD(7, a, AMX_LINE);
        AMX_GEMM_SIDE(kind, 0, b);
        AMX_GEMM_SIDE(kind, 1, b + AVX512_GEMM_STEP / 2);
        if (panels > 1) {
            b = amx_unpacked_next(t, u, p, i, 1, panels, &now);
            AMX_GEMM_SIDE(kind, 2, b);
            AMX_GEMM_SIDE(kind, 3, b + AVX512_GEMM_STEP / 2);
        }
        if (panels > 2) {
            b = amx_unpacked_next(t, u, p, i, 2, panels, &now);
            AMX_GEMM_SIDE(kind, 4, b);
            AMX_GEMM_SIDE(kind, 5, b + AVX512_GEMM_STEP / 2);
        }
    }
    AMX_GEMM_ONE_SUMS(AMX_STORE, t, panels);
    for (size_t i = 0; i < (size_t)panels; i++) {
        float *sums = t->sums + i * t->rows * KERN_NR;

        if (kind == AVX512_I8_GEMM)
            avx512_gemm_to_floats(u->g, u->tail + (p + i - u->g->first) * u->tail_apart, rows, sums);
        avx512_gemm_end(u->g, p + i, rows, sums, kind);
    }
}

SIMD512_INLINE void amx_unpacked_drive_one(const struct amx_unpacked *u, size_t p0, size_t p1,
                                           enum avx512_kind kind)
{
    struct amx_unpacked_one t = {.rows = u->g->m};

    amx_gemm_shape_one(t.rows, AMX_WORDS);
    for (size_t p = p0; p < p1; p += AMX_GEMM_AT_ONCE)
        if (p1 - p >= 3)
            amx_unpacked_panels(&t, u, p, 3, kind);
        else if (p1 - p == 2)
            amx_unpacked_panels(&t, u, p, 2, kind);
        else
            amx_unpacked_panels(&t, u, p, 1, kind);
    AMX_RELEASE();
}

/* Computes the panels [p0, p1) for the rows of W, at most two tiles of them. The sums stay in the AMX
 * tiles. */
SIMD512_INLINE void amx_unpacked_two(struct amx_gemm_walk *w, const struct amx_unpacked *u, size_t p0,
                                     size_t p1, enum avx512_kind kind)
{
    amx_unpacked_b b[2] __attribute__((aligned(64)));
    size_t now = 0;

    u->unpack(b[now], u, p0, 0, 1);
    for (size_t p = p0; p < p1; p++) {
        struct amx_gemm t = amx_gemm_pair(w, 0, 0, w->sums, kind);

        AMX_ZERO(0);
        AMX_ZERO(1);
        if (t.rows[1]) {
            AMX_ZERO(2);
            AMX_ZERO(3);
        }
        memcpy(w->held, t.sums, sizeof(w->held));
        for (size_t i = 0; i < u->iterations; i++, now = 1 - now) {
            if (i + 1 < u->iterations)
                u->unpack(b[1 - now], u, p, i + 1, 1);
            else if (p + 1 < p1)
                u->unpack(b[1 - now], u, p + 1, 0, 1);
            amx_gemm_iteration(w, &t, t.a, b[now], false, kind);
            t.a[0] += t.rows[0] * AMX_WORDS;
            t.a[1] += t.rows[1] * AMX_WORDS;
        }
        amx_gemm_keep(w);
        amx_gemm_end(w, p, w->sums, kind);
    }
}

/* A part of a gemm: the iterations [from, from + n) of panel P. */
struct amx_unpacked_part {
    size_t p, from, n;
};

/* Returns the part after PART, in the same panel or in the next one. If that would be panel STOP, its n is
 * 0. */
SIMD512_INLINE struct amx_unpacked_part amx_unpacked_after(const struct amx_unpacked *u,
                                                           struct amx_unpacked_part part, size_t stop)
{
    part.from += part.n;
    if (part.from == u->iterations) {
        part.p++;
        part.from = 0;
    }
    part.n = part.p == stop ? 0 : u->iterations - part.from;
    if (part.n > AMX_UNPACKED_MANY)
        part.n = AMX_UNPACKED_MANY;
    return part;
}

/* Computes PART, whose unpacked weights are at B, for all rows of W, two tiles of rows at a time. Meanwhile
 * unpacks the weights of NEXT to TO, some iterations with each pair of tiles. */
SIMD512_INLINE void amx_unpacked_iterate(struct amx_gemm_walk *w, const struct amx_unpacked *u,
                                         struct amx_unpacked_part part, const amx_unpacked_b *b,
                                         struct amx_unpacked_part next, amx_unpacked_b *to,
                                         enum avx512_kind kind)
{
    const size_t pair = 2 * AMX_ROWS, pairs = (w->rows + pair - 1) / pair;
    const bool done = part.from + part.n == u->iterations;
    float *sums = w->sums + (part.p - w->p) * w->rows * KERN_NR;
    size_t at = 0;

    for (size_t i = 0; i < pairs; i++) {
        const size_t stop = next.n * (i + 1) / pairs;
        struct amx_gemm t = amx_gemm_pair(w, i * pair, part.from * AMX_WORDS, sums, kind);

        if (at < stop)
            u->unpack(to[at], u, next.p, next.from + at, stop - at);
        at = stop;
        t.b = b[0];
        amx_gemm_iterate(w, &t, part.n, kind);
        amx_gemm_end_some(w, SIZE_MAX, kind);
        if (done)
            amx_gemm_end_soon(w, part.p, i * pair, i * pair + t.rows[0] + t.rows[1], kind);
    }
}

/* Computes the panels [p0, p1) for the rows of W, more than two tiles of them. */
SIMD512_INLINE void amx_unpacked_more(struct amx_gemm_walk *w, const struct amx_unpacked *u, size_t p0,
                                      size_t p1, enum avx512_kind kind)
{
    amx_unpacked_b b[2][AMX_UNPACKED_MANY] __attribute__((aligned(64)));
    struct amx_unpacked_part part = {.p = p0}, next;
    size_t now = 0;

    part = amx_unpacked_after(u, part, p1);
    u->unpack(b[now][0], u, part.p, part.from, part.n);
    for (; part.n > 0; part = next, now = 1 - now) {
        next = amx_unpacked_after(u, part, p1);
        w->p = part.p % 2 && part.p > p0 ? part.p - 1 : part.p;
        w->end = w->p - w->p % 2 + 2 < p1 ? w->p - w->p % 2 + 2 : p1;
        amx_unpacked_iterate(w, u, part, b[now], next, b[1 - now], kind);
    }
    amx_gemm_settle(w, kind);
}

SIMD512_INLINE void amx_unpacked_drive_many(const struct amx_unpacked *u, size_t p0, size_t p1,
                                            enum avx512_kind kind)
{
    float sums[2 * KERN_TOGETHER * KERN_NR] __attribute__((aligned(64)));
    struct kern_gemm ends = *u->g; /* *u->g for the epilogue, with b at the panel tails */
    struct amx_gemm_walk w = {.g = &ends, .panel_bytes = u->tail_apart, .sums = sums};

    ends.b = u->tail;
    for (w.r0 = 0; w.r0 < ends.m; w.r0 += KERN_TOGETHER) {
        w.rows = ends.m - w.r0 < KERN_TOGETHER ? ends.m - w.r0 : KERN_TOGETHER;
        if (w.rows <= 2 * AMX_ROWS)
            amx_unpacked_two(&w, u, p0, p1, kind);
        else
            amx_unpacked_more(&w, u, p0, p1, kind);
    }
    _mm_sfence(); /* makes non-temporal stores visible, as in amx_gemm_drive_many() */
    AMX_RELEASE();
}

SIMD512_INLINE void amx_unpacked_drive(const struct amx_unpacked *u, size_t p0, size_t p1,
                                       enum avx512_kind kind)
{
    if (p0 == p1 || u->g->m == 0)
        return;
    if (u->g->m <= AMX_ROWS)
        amx_unpacked_drive_one(u, p0, p1, kind);
    else
        amx_unpacked_drive_many(u, p0, p1, kind);
}

#endif
