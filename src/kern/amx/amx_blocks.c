/* amx_blocks.c - C = A x W over weights in quantization groups of integers, with TDPBSSD, in the
 * arithmetic class "int8 sum".
 *
 *   rows    cut into tiles of 16; the last tile may be smaller. Few rows are computed by the AVX-512 kernel
 *   input   as in groups.h, with these tiles: the 32 bytes of each row of a group are an AMX tile A
 *   panels  eight groups of a panel at a time are unpacked to signed bytes in L1. All tiles of rows are
 *           multiplied with them, first with the left 16 columns (side 0), then with the right (side 1), and
 *           prefetch their shares of the next groups
 *   sums    a product of AMX tiles covers one group (or half a group) and is stored as integers. Three products
 *           later, vector instructions scale it and add it to the float sums, which stay in registers
 *
 * Tile and vector instructions are interleaved so finely because for about 100 ns after a tile instruction,
 * 512-bit vectors run at half their rate. If all vector instructions came after all tile instructions, the
 * kernel would not be faster than the AVX-512 kernel (docs/notebook).
 */
#include "kern/amx/amx_gemm.h"
#include "kern/simd512/groups512.h"

enum {
    GROUPS = GROUPS_SPAN, /* groups of a panel with which all row tiles are multiplied before the next */
    WAITING = 4,          /* maximum products that are stored and not yet added */
    QUARTER = 4,          /* rows whose sums are added between two tile instructions */
};

/* ---- a tile of rows ---- */

/* The arguments of a micro-kernel: it multiplies one tile of input rows with N quantization groups of 16
 * columns, the left or the right side of a panel. */
struct work {
    float *sums; /* the accumulated sums of the 16 columns, [rows][16] */
    const struct groups512_group *c;
    const char *in; /* the input tile, beginning at the first of the N groups */
    size_t n;
    int side;
    bool first; /* start the sums at +0 instead of loading them */
    /* The arguments of amx_gemm_ask(): it prefetches the lines numbered [ask, asked), counted from NEXT. */
    const char *next;
    size_t stream, ask, asked;
};

/* A product of AMX tiles that is stored in memory, and the scales that turn its integers into floats. */
struct product {
    const int32_t *n; /* the integer sums, [rows][16] */
    const float *scale;
    __m512 d;
};

/* Scales the rows [FROM, FROM + QUARTER) of product T to floats and adds them to the sums Y. POWERS: the
 * format's d is a power of two. */
SIMD512_INLINE void add_product(__m512 y[AMX_ROWS], const struct product *t, int from, int rows, bool powers)
{
    SIMD512_UNROLL
    for (int r = 0; r < AMX_ROWS; r++)
        if (r >= from && r < from + QUARTER && r < rows)
            y[r] = groups512_add(y[r], _mm512_loadu_si512(t->n + 16 * r), t->d, t->scale[r], powers);
}

/* Adds the minimums in half H of group C (the whole group in formats without halves) to the float sums Y.
 * Each minimum is multiplied by the sum of the row's input elements in this half. */
SIMD512_INLINE void add_minimums(__m512 y[AMX_ROWS], const struct groups512_group *c, char *in, int side,
                                 int rows, int h, const struct quant_format f)
{
    const __m512 min = _mm512_loadu_ps(c->min[h] + 16 * side);

    SIMD512_UNROLL
    for (int r = 0; r < AMX_ROWS; r++)
        if (r < rows)
            y[r] = _mm512_fmadd_ps(min, groups512_weighed(in, rows, r, h, f), y[r]);
}

/* Computes product number S, which belongs to half S % HALVES of group S / HALVES, and stores it in TO. If AT
 * is not NULL, adds the earlier product AT to the sums Y between the tile instructions. AMX tiles 0 and 1
 * hold the sums and operand A of 16 rows, tiles 3 and 4 those of fewer rows; tile 2 is operand B. */
SIMD512_INLINE void multiply(const struct work *t, size_t s, int32_t *to, const struct product *at,
                             __m512 y[AMX_ROWS], int rows, int halves, bool powers)
{
    const size_t group = s / (size_t)halves, half = s % (size_t)halves;
    const char *a = t->in + group * (size_t)rows * GROUPS_ROW + half * (GROUPS_SIZE / 2);
    const uint8_t *b = t->c[group].value[half * (GROUPS512_STEPS / 2)][t->side];

    if (rows == AMX_ROWS) {
        AMX_ZERO(0);
        AMX_LOAD_TIMES(1, a, GROUPS_SIZE, 1);
    } else {
        AMX_ZERO(3);
        AMX_LOAD_TIMES(4, a, GROUPS_SIZE, 1);
    }
    if (at)
        add_product(y, at, 0, rows, powers);
    AMX_LOAD_TIMES(2, b, GROUPS_SIZE, 4);
    if (at)
        add_product(y, at, QUARTER, rows, powers);
    if (rows == AMX_ROWS)
        AMX_S8(0, 1, 2);
    else
        AMX_S8(3, 4, 2);
    if (at)
        add_product(y, at, 2 * QUARTER, rows, powers);
    if (rows == AMX_ROWS)
        AMX_STORE_TIMES(0, to, GROUPS_SIZE, 2);
    else
        AMX_STORE_TIMES(3, to, GROUPS_SIZE, 2);
    if (at)
        add_product(y, at, 3 * QUARTER, rows, powers);
}

SIMD512_INLINE void micro(const struct work *t, int rows, const struct quant_format f)
{
    const int halves = groups_parts(f);
    const bool powers = f.powers;
    int32_t product[WAITING][AMX_ROWS * AMX_WORDS] __attribute__((aligned(64)));
    const size_t n = t->n * (size_t)halves, ahead = WAITING - 1, rate = (t->asked - t->ask + n - 1) / n;
    size_t ask = t->ask;
    __m512 y[AMX_ROWS];

    SIMD512_UNROLL
    for (int r = 0; r < AMX_ROWS; r++)
        if (r < rows)
            y[r] = t->first ? _mm512_setzero_ps() : _mm512_loadu_ps(t->sums + 16 * r);
    for (size_t s = 0; s < ahead && s < n; s++)
        multiply(t, s, product[s], NULL, y, rows, halves, powers);
    SIMD512_LOOP
    for (size_t s = 0; s < n; s++) {
        const struct groups512_group *c = &t->c[s / (size_t)halves];
        const size_t stop = t->asked - ask < rate ? t->asked : ask + rate;
        char *group = (char *)(uintptr_t)t->in + s / (size_t)halves * (size_t)rows * GROUPS_ROW;
        const struct product at = {product[s % WAITING], groups_scales(group, (size_t)rows),
                                   _mm512_loadu_ps(c->d[s % (size_t)halves] + 16 * t->side)};

        amx_gemm_ask(t->next, t->stream, ask, stop);
        ask = stop;
        if (s + ahead < n)
            multiply(t, s + ahead, product[(s + ahead) % WAITING], &at, y, rows, halves, powers);
        else
            SIMD512_UNROLL
        for (int from = 0; from < AMX_ROWS; from += QUARTER)
            add_product(y, &at, from, rows, powers);
        if (f.min)
            add_minimums(y, c, group, t->side, rows, (int)(s % (size_t)halves), f);
    }
    SIMD512_UNROLL
    for (int r = 0; r < AMX_ROWS; r++)
        if (r < rows)
            _mm512_storeu_ps(t->sums + 16 * r, y[r]);
}

typedef void micro_fn(const struct work *t);

#define ONE(rows, name, ...)                                \
    static void name##_##rows(const struct work *t)         \
    {                                                       \
        micro(t, rows, (struct quant_format){__VA_ARGS__}); \
    }
#define ROWS_OF(name, ...)                \
    SIMD512_TO_16(ONE, name, __VA_ARGS__) \
    static micro_fn *const name[AMX_ROWS] = {SIMD512_TO_16(SIMD512_NAMED, name)};
ROWS_OF(plain, .min = false)
ROWS_OF(with_minimums, .min = true)
ROWS_OF(of_halves, .in_halves = true)
ROWS_OF(of_halves_with_minimums, .in_halves = true, .min = true)
ROWS_OF(of_powers, .powers = true)

static micro_fn *const *tile_of(const struct quant_format *f)
{
    if (f->in_halves)
        return f->min ? of_halves_with_minimums : of_halves;
    return f->min ? with_minimums : f->powers ? of_powers : plain;
}

/* ---- panels ---- */

typedef void unpack_fn(struct groups512_group *to, const uint8_t *panel, size_t from, size_t n);

#define QUANT(name, gguf, elements, bytes, read, ...)                                                  \
    static void unpack_##name(struct groups512_group *to, const uint8_t *panel, size_t from, size_t n) \
    {                                                                                                  \
        groups512_unpack(to, panel, from, n, (struct quant_format){__VA_ARGS__}, true);                \
    }
#include "tensor/quant.def"

static unpack_fn *const unpack_of[DT_N] = {
#define QUANT(name, ...) [DT_##name] = unpack_##name,
#include "tensor/quant.def"
};

/* The state of a gemm: the rows [r0, r1) that are computed together, and the functions for its weight
 * format. */
struct walk {
    const struct kern_gemm *g;
    const struct quant_format *f;
    const uint8_t *stop; /* end of the weights that may be prefetched */
    size_t r0, r1;
    unpack_fn *unpack;
    micro_fn *const *tile;
};

/* Multiplies the groups [from, from + n) of a panel, whose unpacked weights are in C, with all rows of W.
 * Prefetches LINES lines from NEXT on. */
static void run_chunk(const struct walk *w, const struct groups512_group *c, size_t from, size_t n,
                      const char *next, size_t lines, float *sums)
{
    const size_t parts = 2 * ((w->r1 - w->r0 + AMX_ROWS - 1) / AMX_ROWS);
    struct work t = {.c = c, .n = n, .first = from == 0, .next = next};

    t.stream = lines / AMX_GEMM_STREAMS * AMX_LINE;
    for (size_t i = 0; i < parts; i++) {
        struct avx512_gemm_rows rows = amx_gemm_tile(w->r0 + i / 2 * AMX_ROWS, w->g->m);

        t.in = groups_in(w->g->in, (struct groups_rows){rows.first, rows.rows}, w->g->k, from);
        t.side = (int)(i % 2);
        t.sums = sums;
        t.ask = lines * i / parts;
        t.asked = lines * (i + 1) / parts;
        w->tile[rows.rows - 1](&t);
        sums += rows.rows * AMX_WORDS;
    }
}

static void run_panel(const struct walk *w, size_t p)
{
    float sums[KERN_TOGETHER * KERN_NR] __attribute__((aligned(64)));
    struct groups512_group c[GROUPS] __attribute__((aligned(64)));
    const uint8_t *panel = groups_panel(w->g, w->f, p);
    const size_t groups = w->g->k / GROUPS_SIZE, bytes = GROUPS / groups_span(w->f) * groups_span_bytes(w->f);

    for (size_t from = 0; from < groups; from += GROUPS) {
        size_t n = groups - from < GROUPS ? groups - from : GROUPS, left;
        const uint8_t *next = groups_head(w->f, panel, from + n);

        left = (size_t)(w->stop - next);
        w->unpack(c, panel, from, n);
        run_chunk(w, c, from, n, (const char *)next, (left < bytes ? left : bytes) / AMX_LINE, sums);
    }
    for (size_t r = w->r0; r < w->r1; r += AMX_ROWS) {
        struct avx512_gemm_rows rows = amx_gemm_tile(r, w->g->m);
        float *of = sums + (r - w->r0) * KERN_NR;

        if (!amx_gemm_stream(w->g, p, rows, of))
            avx512_gemm_end(w->g, p, rows, of, AVX512_I8_GEMM);
    }
}

/* Sets the shapes of the AMX tiles: 0 and 1 for 16 rows if there is a WHOLE tile of rows, 2 for operand B,
 * and 3 and 4 for the LEFT rows of the last tile. */
static void set_shapes(const struct quant_format *f, bool whole, size_t left)
{
    const size_t rows[5] = {whole ? AMX_ROWS : 0, whole ? AMX_ROWS : 0,
                            GROUPS512_STEPS / (size_t)groups_parts(*f), left, left};
    struct amx_shapes s = {.palette = 1};

    for (size_t i = 0; i < 5; i++) {
        s.rows[i] = (uint8_t)rows[i];
        s.bytes[i] = (uint16_t)(rows[i] == 0       ? 0
                                : i == 1 || i == 4 ? GROUPS_SIZE / groups_parts(*f)
                                                   : AMX_LINE);
    }
    AMX_SHAPES(&s);
}

static void run_tiles(const struct kern_gemm *g, enum dtype t, size_t p0, size_t p1)
{
    const struct quant_format *f = quant_format_of(t);
    struct walk w = {.g = g,
                     .f = f,
                     .stop = groups_panel(g, f, g->ahead > p1 ? g->ahead : p1),
                     .unpack = unpack_of[t],
                     .tile = tile_of(f)};
    size_t at, stop;

    kern_gemm_share(g, (g->m + AMX_ROWS - 1) / AMX_ROWS, &at, &stop);
    stop = stop * AMX_ROWS < g->m ? stop * AMX_ROWS : g->m;
    set_shapes(f, g->m >= AMX_ROWS, g->m % AMX_ROWS);
    for (w.r0 = at * AMX_ROWS; w.r0 < stop; w.r0 = w.r1) {
        w.r1 = stop - w.r0 < KERN_TOGETHER ? stop : w.r0 + KERN_TOGETHER;
        for (size_t p = p0; p < p1; p++)
            run_panel(&w, p);
    }
    _mm_sfence(); /* makes non-temporal stores visible, as in amx_gemm_drive_many() */
    AMX_RELEASE();
}

void KERN_NAME(amx_gemm_blocks)(const struct kern_gemm *g, enum dtype t, size_t p0, size_t p1)
{
    if (g->m > GROUPS_FEW)
        run_tiles(g, t, p0, p1);
    else if (g->m > 0)
        KERN_NAME(avx512vnni_groups_at_once)(g, t, p0, p1);
}

void KERN_NAME(amx_gemm_in_blocks)(void *in, const float *x, size_t row, size_t m, size_t k)
{
    struct avx512_gemm_rows t = amx_gemm_tile(row, m);

    if (m <= GROUPS_FEW)
        KERN_NAME(avx512vnni_gemm_in_blocks)(in, x, row, m, k);
    else
        groups512_put(in, (struct groups_rows){t.first, t.rows}, row - t.first, x, k);
}
