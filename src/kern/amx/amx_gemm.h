/* amx_gemm.h - the gemms with AMX tiles: the layout of the input, the loops over K, panels and rows, and the
 * micro-kernel for two tiles of rows.
 *
 *   rows    cut into tiles of 16; the last tile may be smaller. Two tiles are computed together, so that each
 *           line of the panel is loaded once for 32 rows
 *   input   as in avx512_gemm.h, with these tiles: a cache line of every row, which is an AMX tile A, then
 *           the next line. The part of the last line beyond K is not read
 *   panels  as in gemm.h: in 16 steps of 128 bytes, the left and the right 16 columns are an AMX tile B each
 *   KC      slice: 256 steps, 32 KB. It stays in L1 while it is multiplied with all rows, because A and
 *           the sums are loaded past L1 (TILELOADDT1)
 *   groups  of panels: the part of A for a KC slice stays in L2 while all panels of the group are computed.
 *           If all input rows fit into L2, a group has only two panels
 *   sums    of one pair of tiles are stored, and those of the next loaded, in the first iteration of the next
 *           pair, each just before its product. The epilogue of complete sums runs a few rows at a time,
 *           between the products of the next rows, so that the AMX unit never waits
 *   ahead   while a slice is computed, each pair of tiles prefetches its share of the next slice into L2,
 *           in eight streams: if lines are prefetched in one stream, some are dropped
 *   few     rows that fill one tile: three panels are read at once, each with a short prefetch distance
 *
 * Between slices, sums are stored in an array of the thread; they are finished as in avx512_gemm.h. K is cut
 * at multiples of 16 steps, where TDPBF16PS starts a new sum, so that no cut changes a bit.
 */
#ifndef GALLOP_KERN_AMX_GEMM_H
#define GALLOP_KERN_AMX_GEMM_H

#include <string.h>

#include "kern/amx/amx_tile.h"
#include "kern/avx512/avx512_gemm.h"

enum {
    AMX_GEMM_KC = 256,   /* steps of K in a KC slice */
    AMX_GEMM_KEPT = 512, /* with one tile of rows: steps after which its sums are stored and loaded */
    AMX_GEMM_PANELS = KERN_PANELS, /* maximum panels in a group */
    AMX_GEMM_STREAMS = 8,          /* streams in which lines are prefetched */
    AMX_GEMM_AT_ONCE = 3,          /* panels that are multiplied at once with a single tile of rows */
    AMX_GEMM_STAYS = 1 << 20,      /* maximum bytes of input rows that are assumed to stay in L2 */
    AMX_GEMM_ENDING = 2,           /* rows whose epilogue runs in one iteration of the inner loop */
    AMX_GEMM_BEYOND = 128          /* minimum rows for non-temporal stores of the results */
};

/* Returns the tile with row ROW of a gemm of M rows. */
SIMD512_INLINE struct avx512_gemm_rows amx_gemm_tile(size_t row, size_t m)
{
    size_t first = row / AMX_ROWS * AMX_ROWS;

    return (struct avx512_gemm_rows){first, m - first < AMX_ROWS ? m - first : AMX_ROWS};
}

/* Returns the distance, in bytes, from one panel to the next. */
SIMD512_INLINE size_t amx_gemm_panel_bytes(const struct kern_gemm *g, enum avx512_kind kind)
{
    return (avx512_gemm_steps_of(kern_gemm_panel_k(g), kind) + avx512_gemm_tail(kind)) * AVX512_GEMM_STEP;
}

/* Stores X, row ROW of M rows, in the input IN. */
SIMD512_INLINE void amx_gemm_put(uint32_t *in, const float *x, size_t row, size_t m, size_t k,
                                 enum avx512_kind kind)
{
    struct avx512_gemm_rows t = amx_gemm_tile(row, m);
    size_t most = avx512_gemm_columns(kind);

    for (size_t at = 0; at < k; at += most)
        avx512_gemm_put_line(in, t, row - t.first, k, at, x + at, k - at < most ? k - at : most, kind);
}

/* The arguments of the micro-kernel: it multiplies two tiles of rows of A with a KC slice of a panel and adds
 * the products to the sums. */
struct amx_gemm {
    const uint32_t *a[2];
    const char *b, *next; /* b: the KC slice; next: the first line to prefetch */
    size_t stream;        /* bytes from one of the AMX_GEMM_STREAMS prefetch streams to the next */
    size_t ask, asked;    /* numbers of the lines to prefetch: [ask, asked) */
    float *sums[2];       /* of each tile of rows, [2][rows][16]: left and right columns */
    size_t rows[2];       /* rows of each tile; rows[1] may be 0 */
    size_t steps;
    bool first; /* the sums start at zero */
};

/* Pending epilogues: the sums of the rows [at, stop) of panel P are complete, but their epilogue has not run.
 * SUMS has the sums of all rows. TWICE: the same rows of panel P + 1 are pending as well; its sums follow
 * those of P. */
struct amx_gemm_ending {
    float *sums;
    size_t p, at, stop;
    bool twice;
};

/* The state of a gemm that multiplies the rows [r0, r0 + rows) with a group of panels. */
struct amx_gemm_walk {
    const struct kern_gemm *g;
    size_t r0, rows, steps, panel_bytes;
    size_t shaped[2]; /* rows of each of the two tiles for which the AMX tiles are shaped now */
    float *held[2];   /* where the sums in the AMX tiles are to be stored; NULL: the AMX tiles hold no sums */
    size_t p, end;    /* the group: the panels [p, end) */
    float *sums;      /* the sums, [panels of the group][rows][32] */
    struct amx_gemm_ending ending;
};

/* Adds the product of the AMX tiles A and B to AMX tile C, with the instruction for KIND. */
#define AMX_GEMM_ADD(kind, c, a, b) \
    do {                            \
        if ((kind) == AVX512_DOT)   \
            AMX_BF16(c, a, b);      \
        else                        \
            AMX_I8(c, a, b);        \
    } while (0)

/* Prefetches the lines numbered [ASK, STOP) into L2. Numbers go round AMX_GEMM_STREAMS streams, which begin
 * at NEXT and are STREAM bytes apart. */
SIMD512_INLINE void amx_gemm_ask(const char *next, size_t stream, size_t ask, size_t stop)
{
    for (; ask < stop; ask++)
        prefetch_line(next + ask % AMX_GEMM_STREAMS * stream + ask / AMX_GEMM_STREAMS * AMX_LINE, true);
}

/* Stores the sums that the AMX tiles hold, if any, in memory (w->held). */
SIMD512_INLINE void amx_gemm_keep(struct amx_gemm_walk *w)
{
    if (!w->held[0])
        return;
    AMX_STORE(0, w->held[0], AMX_LINE);
    AMX_STORE(1, w->held[0] + AMX_WORDS * w->shaped[0], AMX_LINE);
    if (w->shaped[1]) {
        AMX_STORE(2, w->held[1], AMX_LINE);
        AMX_STORE(3, w->held[1] + AMX_WORDS * w->shaped[1], AMX_LINE);
    }
    w->held[0] = NULL;
}

/* Adds the product of the AMX tiles A and B to the sums in AMX tile C. In memory, these sums are AT floats
 * after sums[J] of T. TAKE: first stores the old sums that C holds (at w->held) and loads those of T. */
#define AMX_GEMM_PRODUCT(w, t, take, kind, c, a, b, j, at)      \
    do {                                                        \
        if ((take) && (w)->held[0])                             \
            AMX_STORE(c, (w)->held[j] + (at), AMX_LINE);        \
        if ((take) && (t)->first)                               \
            AMX_ZERO(c);                                        \
        else if (take)                                          \
            AMX_LOAD_PASSING(c, (t)->sums[j] + (at), AMX_LINE); \
        AMX_GEMM_ADD(kind, c, a, b);                            \
    } while (0)

/* Computes one iteration of 16 steps. TAKE: replaces the old sums in the AMX tiles by those of T, each just
 * before its product, so that the AMX unit computes while sums are stored and loaded. */
SIMD512_INLINE void amx_gemm_iteration(struct amx_gemm_walk *w, const struct amx_gemm *t,
                                       const uint32_t *const a[2], const char *b, bool take,
                                       enum avx512_kind kind)
{
    const bool pair = t->rows[1] > 0;

    AMX_LOAD_PASSING(4, a[0], AMX_LINE);
    AMX_LOAD(6, b, AVX512_GEMM_STEP);
    AMX_LOAD(7, b + AVX512_GEMM_STEP / 2, AVX512_GEMM_STEP);
    if (pair)
        AMX_LOAD_PASSING(5, a[1], AMX_LINE);
    AMX_GEMM_PRODUCT(w, t, take, kind, 0, 4, 6, 0, 0);
    AMX_GEMM_PRODUCT(w, t, take, kind, 1, 4, 7, 0, AMX_WORDS * t->rows[0]);
    if (pair) {
        AMX_GEMM_PRODUCT(w, t, take, kind, 2, 5, 6, 1, 0);
        AMX_GEMM_PRODUCT(w, t, take, kind, 3, 5, 7, 1, AMX_WORDS * t->rows[1]);
    }
}

/* Returns the address of the weights of step FROM of panel P. */
SIMD512_INLINE const char *amx_gemm_at(const struct amx_gemm_walk *w, size_t p, size_t from)
{
    return (const char *)w->g->b + (p - w->g->first) * w->panel_bytes + from * AVX512_GEMM_STEP;
}

/* Computes the epilogue like avx512_gemm_end(), but with non-temporal stores to C: with many rows C does not
 * fit into the caches, and reading each line before writing it would take a fifth of the time of the
 * products. Does nothing and returns false if C is NULL, if there are few rows, or if panel P does not cover
 * whole cache lines of C. */
SIMD512_INLINE bool amx_gemm_stream(const struct kern_gemm *g, size_t p, struct avx512_gemm_rows rows,
                                    float *sums)
{
    const size_t columns = g->end == KERN_GLU ? KERN_PAIRS : KERN_NR, at = p * columns;
    float *c = g->c + rows.first * g->ldc + at;

    if (!g->c || g->m < AMX_GEMM_BEYOND || at + columns > g->n || g->ldc % 16 || (uintptr_t)g->c % AMX_LINE)
        return false;
    avx512_gemm_finish(g, p, rows, sums);
    for (size_t side = 0; side < columns / 16; side++, c += 16)
        for (size_t r = 0; r < rows.rows; r++, sums += 16)
            _mm512_stream_ps(c + r * g->ldc, _mm512_loadu_ps(sums));
    return true;
}

/* Computes the epilogue of panel P for the rows ROWS, whose sums are SUMS. */
SIMD512_INLINE void amx_gemm_end_rows(const struct amx_gemm_walk *w, size_t p, struct avx512_gemm_rows rows,
                                      float *sums, enum avx512_kind kind)
{
    if (kind == AVX512_I8_GEMM)
        avx512_gemm_to_floats(w->g, amx_gemm_at(w, p, w->steps), rows, sums);
    if (!amx_gemm_stream(w->g, p, rows, sums))
        avx512_gemm_end(w->g, p, rows, sums, kind);
}

/* Computes the epilogue of panel P for all rows of W. */
SIMD512_INLINE void amx_gemm_end(const struct amx_gemm_walk *w, size_t p, float *sums, enum avx512_kind kind)
{
    for (size_t at = 0; at < w->rows; at += AMX_ROWS)
        amx_gemm_end_rows(w, p, amx_gemm_tile(w->r0 + at, w->g->m), sums + at * KERN_NR, kind);
}

/* Returns true if the epilogues of panel P and of its neighbour are to run together, with non-temporal
 * stores. This is so if their results share cache lines: with KERN_GLU each panel gives half a line of the
 * next gemm's input. */
SIMD512_INLINE bool amx_gemm_ends_twice(const struct kern_gemm *g, size_t p, enum avx512_kind kind)
{
    return kind == AVX512_DOT && g->end == KERN_GLU && !g->c && g->m >= AMX_GEMM_BEYOND &&
           (p / 2 + 1) * 2 * KERN_PAIRS <= g->n && (uintptr_t)g->out % AMX_LINE == 0;
}

/* Computes the epilogue of the panels P (even) and P + 1 for the rows ROWS, a part of TILE. SUMS has the sums
 * of these rows for each of the two panels. */
SIMD512_INLINE void amx_gemm_end_two(const struct kern_gemm *g, size_t p, struct avx512_gemm_rows tile,
                                     struct avx512_gemm_rows rows, float *const sums[2])
{
    uint32_t *line = (uint32_t *)g->out + tile.first * avx512_gemm_width(g->n, AVX512_DOT) +
                     (p / 2 * tile.rows + rows.first - tile.first) * AMX_WORDS;

    avx512_gemm_finish(g, p, rows, sums[0]);
    avx512_gemm_finish(g, p + 1, rows, sums[1]);
    for (size_t r = 0; r < rows.rows; r++, line += AMX_WORDS) {
        __m256i left = simd512_flush_bf16(_mm512_loadu_ps(sums[0] + 16 * r)),
                right = simd512_flush_bf16(_mm512_loadu_ps(sums[1] + 16 * r));

        _mm512_stream_si512((__m512i *)(void *)line,
                            _mm512_inserti64x4(_mm512_castsi256_si512(left), right, 1));
    }
}

/* Copies the sums of the rows ROWS, a part of TILE, from the tile's SUMS to TO, [2][rows][16]. */
SIMD512_INLINE void amx_gemm_some(float *to, const float *sums, struct avx512_gemm_rows tile,
                                  struct avx512_gemm_rows rows)
{
    sums += (rows.first - tile.first) * 16;
    for (size_t side = 0; side < 2; side++, sums += tile.rows * 16)
        for (size_t r = 0; r < rows.rows; r++, to += 16)
            _mm512_storeu_ps(to, _mm512_loadu_ps(sums + 16 * r));
}

/* Runs the pending epilogues of the rows below STOP, AMX_GEMM_ENDING rows at a time. If the results of a
 * single panel go to the next gemm's input, runs them a tile of rows at a time. Not inlined, to keep its
 * callers short. */
static __attribute__((noinline, unused)) void amx_gemm_end_up_to(struct amx_gemm_walk *w, size_t stop,
                                                                 enum avx512_kind kind)
{
    struct amx_gemm_ending *e = &w->ending;

    for (size_t n; e->at < stop; e->at += n) {
        float of[2][2 * AMX_GEMM_ENDING * 16] __attribute__((aligned(64)));
        struct avx512_gemm_rows rows = {w->r0 + e->at, AMX_GEMM_ENDING},
                                tile = amx_gemm_tile(rows.first, w->g->m);
        float *sums = e->sums + (tile.first - w->r0) * KERN_NR;

        n = tile.first + tile.rows - rows.first;
        if (!w->g->c && !e->twice) {
            amx_gemm_end_rows(w, e->p, tile, sums, kind);
            continue;
        }
        n = rows.rows = n < AMX_GEMM_ENDING ? n : AMX_GEMM_ENDING;
        amx_gemm_some(of[0], sums, tile, rows);
        if (e->twice) {
            amx_gemm_some(of[1], sums + w->rows * KERN_NR, tile, rows);
            amx_gemm_end_two(w->g, e->p, tile, rows, (float *const[]){of[0], of[1]});
        } else {
            amx_gemm_end_rows(w, e->p, rows, of[0], kind);
        }
    }
}

/* Runs the pending epilogues, if there are any, of at most MOST rows. */
SIMD512_INLINE void amx_gemm_end_some(struct amx_gemm_walk *w, size_t most, enum avx512_kind kind)
{
    const struct amx_gemm_ending *e = &w->ending;

    if (e->at < e->stop)
        amx_gemm_end_up_to(w, e->stop - e->at < most ? e->stop : e->at + most, kind);
}

/* Stores the sums that the AMX tiles hold, and runs all pending epilogues. */
SIMD512_INLINE void amx_gemm_settle(struct amx_gemm_walk *w, enum avx512_kind kind)
{
    amx_gemm_keep(w);
    amx_gemm_end_some(w, SIZE_MAX, kind);
}

/* Marks the epilogue of the rows [at, stop) of panel Q, whose sums are complete, as pending. It runs during
 * the products of the next rows, from their second iteration on, when the sums have been stored to memory.
 * There its vector instructions and stores cost little; on their own they would take a seventh of the time of
 * a gemm. */
SIMD512_INLINE void amx_gemm_end_soon(struct amx_gemm_walk *w, size_t q, size_t at, size_t stop,
                                      enum avx512_kind kind)
{
    bool twice = amx_gemm_ends_twice(w->g, q, kind);
    size_t p = twice && q % 2 && q > w->p ? q - 1 : q;

    if (twice && q % 2 == 0 && q + 1 < w->end) /* the epilogue will run with that of panel Q + 1 */
        return;
    w->ending = (struct amx_gemm_ending){
        .p = p, .at = at, .stop = stop, .twice = p < q, .sums = w->sums + (p - w->p) * w->rows * KERN_NR};
}

/* Computes ITERATIONS iterations of 16 steps each (of the last one, which may have fewer, the caller sets the
 * shapes of the AMX tiles). Afterwards the AMX tiles hold the sums of T, unless ITERATIONS is 0. */
SIMD512_INLINE void amx_gemm_iterate(struct amx_gemm_walk *w, const struct amx_gemm *t, size_t iterations,
                                     enum avx512_kind kind)
{
    const size_t apart[2] = {t->rows[0] * AMX_WORDS, t->rows[1] * AMX_WORDS};
    const size_t rate = iterations ? (t->asked - t->ask + iterations - 1) / iterations : 0;
    const uint32_t *a[2] = {t->a[0], t->a[1]};
    const char *b = t->b;
    size_t ask = t->ask;
    bool take = w->held[0] != t->sums[0];

    for (size_t i = 0; i < iterations; i++, take = false, b += AMX_WORDS * AVX512_GEMM_STEP) {
        const size_t stop = t->asked - ask < rate ? t->asked : ask + rate;

        amx_gemm_ask(t->next, t->stream, ask, stop);
        ask = stop;
        if (take)
            amx_gemm_iteration(w, t, a, b, true, kind);
        else
            amx_gemm_iteration(w, t, a, b, false, kind);
        if (i > 0)
            amx_gemm_end_some(w, AMX_GEMM_ENDING, kind);
        a[0] += apart[0];
        a[1] += apart[1];
    }
    if (iterations)
        memcpy(w->held, t->sums, sizeof(w->held));
}

/* Sets the shapes of the AMX tiles for two row tiles of rows[0] and rows[1] rows, unless they are set
 * already. */
SIMD512_INLINE void amx_gemm_shape(struct amx_gemm_walk *w, const size_t rows[2])
{
    if (rows[0] == w->shaped[0] && rows[1] == w->shaped[1])
        return;
    amx_gemm_keep(w);
    amx_shape(rows, AMX_WORDS);
    memcpy(w->shaped, rows, sizeof(w->shaped));
}

SIMD512_INLINE void amx_gemm_micro(struct amx_gemm_walk *w, const struct amx_gemm *t, enum avx512_kind kind)
{
    size_t iterations = t->steps / AMX_WORDS, left = t->steps % AMX_WORDS;

    /* If the AMX tiles already hold the sums of T, stores one of these tiles now. Without this store, storing
     * the sums after more than 32 iterations takes 250 ns longer (docs/notebook). */
    if (w->held[0] == t->sums[0])
        AMX_STORE(0, t->sums[0], AMX_LINE);
    amx_gemm_iterate(w, t, iterations, kind);
    if (left) {
        struct amx_gemm rest = *t;

        rest.a[0] += iterations * AMX_WORDS * t->rows[0];
        rest.a[1] += iterations * AMX_WORDS * t->rows[1];
        rest.b += iterations * AMX_WORDS * AVX512_GEMM_STEP;
        rest.ask = rest.asked;
        rest.first = t->first && iterations == 0;
        amx_gemm_keep(w);
        amx_shape(t->rows, left);
        amx_gemm_iterate(w, &rest, 1, kind);
        amx_gemm_keep(w);
        amx_shape(t->rows, AMX_WORDS);
    }
    amx_gemm_end_some(w, SIZE_MAX, kind);
}

/* Returns the micro-kernel's arguments for two tiles of rows, row AT of W and those after it, from step FROM
 * of K on. SUMS has the sums of all rows of W. Sets the shapes of the AMX tiles. */
SIMD512_INLINE struct amx_gemm amx_gemm_pair(struct amx_gemm_walk *w, size_t at, size_t from, float *sums,
                                             enum avx512_kind kind)
{
    const size_t width = avx512_gemm_width(w->g->k, kind), left = w->rows - at;
    struct amx_gemm t = {.first = from == 0 && !w->g->onto};

    t.rows[0] = left < AMX_ROWS ? left : AMX_ROWS;
    t.rows[1] = left - t.rows[0] < AMX_ROWS ? left - t.rows[0] : AMX_ROWS;
    for (size_t j = 0; j < 2; j++, at += AMX_ROWS) {
        t.a[j] = (const uint32_t *)w->g->in + (w->r0 + at) * width + from * t.rows[j];
        t.sums[j] = sums + at * KERN_NR;
    }
    amx_gemm_shape(w, t.rows);
    return t;
}

/* Computes the steps [from, from + n) of panel Q for all rows of W. Prefetches LINES lines from NEXT on. */
SIMD512_INLINE void amx_gemm_slice(struct amx_gemm_walk *w, size_t q, size_t from, size_t n, const char *next,
                                   size_t lines, enum avx512_kind kind)
{
    const struct kern_gemm *g = w->g;
    const size_t pair = 2 * AMX_ROWS, pairs = (w->rows + pair - 1) / pair;
    const bool done = from + n == w->steps;

    for (size_t i = 0; i < pairs; i++) {
        struct amx_gemm t = amx_gemm_pair(w, i * pair, from, w->sums + (q - w->p) * w->rows * KERN_NR, kind);

        for (size_t j = 0; j < 2; j++)
            if (from == 0 && g->onto && t.rows[j])
                avx512_gemm_load(g, q, (struct avx512_gemm_rows){w->r0 + i * pair + j * AMX_ROWS, t.rows[j]},
                                 t.sums[j]);
        t.b = amx_gemm_at(w, q, from);
        t.steps = n;
        t.next = next;
        t.stream = lines / AMX_GEMM_STREAMS * AMX_LINE;
        t.ask = lines * i / pairs;
        t.asked = lines * (i + 1) / pairs;
        amx_gemm_micro(w, &t, kind);
        if (done)
            amx_gemm_end_soon(w, q, i * pair, i * pair + t.rows[0] + t.rows[1], kind);
    }
    if (done && pairs == 1) /* the next panel uses the same array of sums */
        amx_gemm_settle(w, kind);
}

/* Computes the panels [w->p, w->end), one KC slice after the other. Prefetches weights below panel LAST. */
SIMD512_INLINE void amx_gemm_group(struct amx_gemm_walk *w, size_t last, enum avx512_kind kind)
{
    size_t tail = avx512_gemm_tail(kind), end = w->end, from = 0, n;

    do {
        n = w->steps - from < AMX_GEMM_KC ? w->steps - from : AMX_GEMM_KC;
        for (size_t q = w->p; q < end; q++) {
            bool done = from + n == w->steps;
            const char *next = q + 1 < end ? amx_gemm_at(w, q + 1, from)
                               : done      ? amx_gemm_at(w, end, 0)
                                           : amx_gemm_at(w, w->p, from + n);
            size_t left = q + 1 < end ? n : done ? (end < last ? n : 0) : w->steps - from - n;

            amx_gemm_slice(w, q, from, n, next, 2 * (left < n ? left : n) + (done ? tail : 0), kind);
        }
        from += n;
    } while (from < w->steps);
}

/* ---- rows of one tile ---- */

/* Sets the shapes of the AMX tiles for a single tile of ROWS rows: 0 to 5 hold the sums of three panels, left
 * and right columns each, 6 is operand B, and 7 is operand A with WORDS words a row. */
SIMD512_INLINE void amx_gemm_shape_one(size_t rows, size_t words)
{
    struct amx_shapes s = {.palette = 1};

    for (int i = 0; i < 8; i++) {
        s.rows[i] = (uint8_t)(i == 6 ? words : rows);
        s.bytes[i] = (uint16_t)(i == 7 ? 4 * words : AMX_LINE);
    }
    AMX_SHAPES(&s);
}

/* The arguments of the micro-kernel for a single tile of rows. It computes up to three panels at once,
 * because a thread reads memory faster in several streams. The panels begin at B and are BYTES apart. */
struct amx_gemm_one {
    const uint32_t *a;
    const char *b;
    float *sums; /* the sums, [panels][2][rows][16]: left and right columns of each panel */
    size_t bytes, rows, steps;
};

/* Multiplies operand A (AMX tile 7) with the weights of 16 columns at AT and adds the product to AMX tile
 * C. */
#define AMX_GEMM_SIDE(kind, c, at)         \
    do {                                   \
        AMX_LOAD(6, at, AVX512_GEMM_STEP); \
        AMX_GEMM_ADD(kind, c, 7, 6);       \
    } while (0)

/* Computes one iteration: multiplies the tile of rows A with PANELS panels, which begin at B and are BYTES
 * apart. */
SIMD512_INLINE void amx_gemm_one_iteration(const uint32_t *a, const char *b, size_t bytes, int panels,
                                           enum avx512_kind kind)
{
    AMX_LOAD(7, a, AMX_LINE);
    AMX_GEMM_SIDE(kind, 0, b);
    AMX_GEMM_SIDE(kind, 1, b + AVX512_GEMM_STEP / 2);
    if (panels > 1) {
        AMX_GEMM_SIDE(kind, 2, b + bytes);
        AMX_GEMM_SIDE(kind, 3, b + bytes + AVX512_GEMM_STEP / 2);
    }
    if (panels > 2) {
        AMX_GEMM_SIDE(kind, 4, b + 2 * bytes);
        AMX_GEMM_SIDE(kind, 5, b + 2 * bytes + AVX512_GEMM_STEP / 2);
    }
}

SIMD512_INLINE void amx_gemm_one_iterate(const struct amx_gemm_one *t, size_t iterations, int panels,
                                         enum avx512_kind kind)
{
    const uint32_t *a = t->a;
    const char *b = t->b;

    for (size_t i = 0; i < iterations; i++, a += t->rows * AMX_WORDS, b += AMX_WORDS * AVX512_GEMM_STEP) {
        for (size_t line = 0; line < AMX_WORDS * AVX512_GEMM_STEP; line += AMX_LINE)
            for (int p = 0; p < panels; p++)
                prefetch_line(b + (size_t)p * t->bytes + line + AVX512_GEMM_AHEAD, false);
        amx_gemm_one_iteration(a, b, t->bytes, panels, kind);
    }
}

/* Moves the sums of all panels of T between memory and the AMX tiles. MOVE is AMX_LOAD or AMX_STORE. */
#define AMX_GEMM_ONE_SUMS(move, t, panels)           \
    do {                                             \
        const size_t side = AMX_WORDS * (t)->rows;   \
                                                     \
        move(0, (t)->sums, AMX_LINE);                \
        move(1, (t)->sums + side, AMX_LINE);         \
        if (panels > 1) {                            \
            move(2, (t)->sums + 2 * side, AMX_LINE); \
            move(3, (t)->sums + 3 * side, AMX_LINE); \
        }                                            \
        if (panels > 2) {                            \
            move(4, (t)->sums + 4 * side, AMX_LINE); \
            move(5, (t)->sums + 5 * side, AMX_LINE); \
        }                                            \
    } while (0)

SIMD512_INLINE void amx_gemm_one_panels(const struct amx_gemm_one *t, int panels, enum avx512_kind kind)
{
    size_t iterations = t->steps / AMX_WORDS, left = t->steps % AMX_WORDS;
    struct amx_gemm_one rest = *t;

    AMX_GEMM_ONE_SUMS(AMX_LOAD, t, panels);
    amx_gemm_one_iterate(t, iterations, panels, kind);
    AMX_GEMM_ONE_SUMS(AMX_STORE, t, panels);
    if (!left)
        return;
    rest.a += iterations * AMX_WORDS * t->rows;
    rest.b += iterations * AMX_WORDS * AVX512_GEMM_STEP;
    amx_gemm_shape_one(t->rows, left);
    AMX_GEMM_ONE_SUMS(AMX_LOAD, &rest, panels);
    amx_gemm_one_iterate(&rest, 1, panels, kind);
    AMX_GEMM_ONE_SUMS(AMX_STORE, &rest, panels);
    amx_gemm_shape_one(t->rows, AMX_WORDS);
}

/* Computes the panels [p, p + n) at once. */
SIMD512_INLINE void amx_gemm_one_group(const struct kern_gemm *g, size_t p, size_t n, enum avx512_kind kind)
{
    float sums[AMX_GEMM_AT_ONCE * AMX_ROWS * KERN_NR] __attribute__((aligned(64)));
    const struct avx512_gemm_rows rows = {0, g->m};
    const size_t steps = avx512_gemm_steps_of(g->k, kind), each = g->m * KERN_NR,
                 bytes = amx_gemm_panel_bytes(g, kind);
    const char *b = (const char *)g->b + (p - g->first) * bytes;
    struct amx_gemm_one t = {.a = g->in, .b = b, .sums = sums, .bytes = bytes, .rows = g->m};

    memset(sums, 0, n * each * sizeof(float));
    for (size_t i = 0; i < n && g->onto; i++)
        avx512_gemm_load(g, p + i, rows, sums + i * each);
    for (size_t left = steps; left > 0; left -= t.steps) {
        t.steps = left < AMX_GEMM_KEPT ? left : AMX_GEMM_KEPT;
        if (n == 1)
            amx_gemm_one_panels(&t, 1, kind);
        else if (n == 2)
            amx_gemm_one_panels(&t, 2, kind);
        else
            amx_gemm_one_panels(&t, 3, kind);
        t.a += t.steps * g->m;
        t.b += t.steps * AVX512_GEMM_STEP;
    }
    for (size_t i = 0; i < n; i++) {
        if (kind == AVX512_I8_GEMM)
            avx512_gemm_to_floats(g, b + i * bytes + steps * AVX512_GEMM_STEP, rows, sums + i * each);
        avx512_gemm_end(g, p + i, rows, sums + i * each, kind);
    }
}

SIMD512_INLINE void amx_gemm_drive_one(const struct kern_gemm *g, size_t p0, size_t p1, enum avx512_kind kind)
{
    amx_gemm_shape_one(g->m, AMX_WORDS);
    for (size_t p = p0, n; p < p1; p += n) {
        n = p1 - p < AMX_GEMM_AT_ONCE ? p1 - p : AMX_GEMM_AT_ONCE;
        amx_gemm_one_group(g, p, n, kind);
    }
    AMX_RELEASE();
}

/* ---- any number of rows ---- */

SIMD512_INLINE void amx_gemm_drive_many(const struct kern_gemm *g, size_t p0, size_t p1,
                                        enum avx512_kind kind)
{
    const size_t pair = 2 * AMX_ROWS, most = KERN_TOGETHER / pair;
    size_t steps = avx512_gemm_steps_of(g->k, kind), last = g->ahead > p1 ? g->ahead : p1, at, stop, calls;
    struct amx_gemm_walk w = {
        .g = g, .steps = steps, .panel_bytes = amx_gemm_panel_bytes(g, kind), .sums = g->sums};

    kern_gemm_share(g, (g->m + pair - 1) / pair, &at, &stop);
    for (calls = (stop - at + most - 1) / most; calls > 0; calls--) {
        size_t pairs = (stop - at + calls - 1) / calls, panels;

        w.r0 = at * pair;
        at += pairs;
        w.rows = (at * pair < g->m ? at * pair : g->m) - w.r0;
        panels = pairs == 1 ? 1 : w.rows * steps * 4 <= AMX_GEMM_STAYS ? 2 : AMX_GEMM_PANELS;
        for (w.p = p0; w.p < p1; w.p = w.end) {
            w.end = w.p - w.p % panels + panels;
            w.end = w.end < p1 ? w.end : p1;
            amx_gemm_group(&w, last, kind);
        }
        amx_gemm_settle(&w, kind);
    }
    _mm_sfence(); /* makes the non-temporal stores visible before the thread reports its task as done */
    AMX_RELEASE();
}

SIMD512_INLINE void amx_gemm_drive(const struct kern_gemm *g, size_t p0, size_t p1, enum avx512_kind kind)
{
    if (g->m > 0 && g->m <= AMX_ROWS)
        amx_gemm_drive_one(g, p0, p1, kind);
    else
        amx_gemm_drive_many(g, p0, p1, kind);
}

#endif
