/* avx512vnni_blocks.c - C = A x W over weights in quantization groups of integers, with VPDPBUSD, in the
 * arithmetic class "int8 sum".
 *
 * With few rows, weights are unpacked in registers. With more rows, 16 groups of a panel at a time are
 * unpacked to bytes in L1, together with the d and min of their columns. Every tile of rows multiplies these
 * 16 groups and prefetches its share of the next 16 groups. Meanwhile the float sums of up to 504 rows are
 * stored in an array of the thread. For four k a tile of 6 rows has 12 vpdpbusd, 2 loads and 6 broadcasts; at
 * the end of a group it has three or four operations for each of 12 sums, one to three on the ports of
 * vpdpbusd.
 */
#include "kern/avx512/avx512_gemm.h"
#include "kern/prefetch.h"
#include "kern/simd512/groups512.h"

enum {
    GROUPS = 2 * GROUPS_SPAN, /* groups that are unpacked at once, for all row tiles: 22 KB of L1 */
    STEPS = GROUPS512_STEPS,
    AT_ONCE = 2, /* few rows: groups of a panel that are multiplied before the next panel */
};

/* ---- a tile of rows ---- */

SIMD512_INLINE __m512i four_at(const char *p)
{
    int32_t four;

    memcpy(&four, p, sizeof(four));
    return _mm512_set1_epi32(four);
}

/* The arguments of a micro-kernel: it multiplies N groups of a tile of input rows, from IN on, with the N
 * groups of PANEL from group FROM on. With more than GROUPS_FEW rows, C has these groups unpacked. */
struct work {
    float *sums; /* the sums, [2][rows][16]: left and right columns of the panel */
    const uint8_t *panel;
    size_t from, n;
    const struct groups512_group *c;
    char *in;
    const char *next;
    size_t ask; /* bytes to prefetch from next on */
    bool level2;
};

/* The accumulators of a tile, [row][left or right 16 columns]. With up to six rows they hold all 32 columns,
 * with more rows one half of them at a time. */
typedef __m512 floats[GROUPS_FEW][2];
typedef __m512i integers[GROUPS_FEW][2];

#define EACH(r, s, rows, side)           \
    SIMD512_UNROLL                       \
    for (int r = 0; r < GROUPS_FEW; r++) \
        SIMD512_UNROLL                   \
    for (int s = 0; s < 2; s++)          \
        if (r < (rows) && ((rows) <= GROUPS_ROWS || s == (side)))

/* Returns the start of the integer sums of half H, the correction for the zero point of the format: minus the
 * zero point times the sum of the row's integers. SUMS has the negative sums of the row (groups.h). */
SIMD512_INLINE __m512i beginning(const int32_t *sums, int h, const struct quant_format f)
{
    __m512i v = _mm512_set1_epi32(sums[f.in_halves ? h : 1]);

    if (h) /* as groups_minus(), but with vectors: an operand from a general register makes Q6_K 2 % slower */
        v = _mm512_sub_epi32(v, _mm512_set1_epi32(sums[0]));
    switch (f.zero) {
    case 4: return _mm512_slli_epi32(v, 2);
    case 8: return _mm512_slli_epi32(v, 3);
    case 16: return _mm512_slli_epi32(v, 4);
    case 32: return _mm512_slli_epi32(v, 5);
    default: return _mm512_slli_epi32(v, 7);
    }
}

/* Sets SUM to the integer sums of half H of a group, or of the whole group in formats without halves,
 * including the correction for the zero point. CODES are a panel's codes if PACKED, otherwise unpacked
 * values. */
SIMD512_INLINE void multiply(integers sum, const uint8_t *codes, bool packed, char *in, int h, int side,
                             int rows, const struct quant_format f)
{
    const int n = STEPS / groups_parts(f);
    const int32_t *sums = groups_sums(in, (size_t)rows);

    EACH(r, s, rows, side)
    sum[r][s] = f.zero ? beginning(sums + 2 * r, h, f) : _mm512_setzero_si512();
    SIMD512_UNROLL
    for (int k = 0; k < STEPS; k++)
        if (k >= h * n && k < (h + 1) * n) {
            __m512i w[2];

            SIMD512_UNROLL
            for (int s = 0; s < 2; s++)
                if (rows <= GROUPS_ROWS || s == side)
                    w[s] = packed ? groups512_values_at(codes, k, s, f)
                                  : groups512_line_at(codes + (k * 2 + s) * GROUPS_LINE);
            EACH(r, s, rows, side)
            sum[r][s] = _mm512_dpbusd_epi32(sum[r][s], w[s], four_at(in + r * GROUPS_SIZE + 4 * k));
        }
}

/* Multiplies group I of T with its part of the input, at IN, and adds the scaled products to the sums Y. */
SIMD512_INLINE void add_group(floats y, const struct work *t, size_t i, char *in, int side, int rows,
                              const struct quant_format f, bool few)
{
    const uint8_t *head = groups_head(&f, t->panel, t->from + i),
                  *group = groups_at(&f, t->panel, t->from + i);
    const uint8_t *codes = few ? groups_codes(&f, group) : t->c[i].value[0][0];
    const float *scale = groups_scales(in, (size_t)rows);
    integers sum;

    SIMD512_UNROLL
    for (int h = 0; h < 2; h++)
        if (h < groups_parts(f)) {
            __m512 d[2], min[2];

            multiply(sum, codes, few, in, h, side, rows, f);
            SIMD512_UNROLL
            for (int s = 0; s < 2; s++) {
                d[s] = few ? groups512_d_at(head, group, s, h, f) : _mm512_loadu_ps(t->c[i].d[h] + 16 * s);
                min[s] = !f.min ? _mm512_setzero_ps()
                         : few  ? groups512_min_at(head, group, s, h, f)
                                : _mm512_loadu_ps(t->c[i].min[h] + 16 * s);
            }
            EACH(r, s, rows, side)
            {
                y[r][s] = groups512_add(y[r][s], sum[r][s], d[s], scale[r], f.powers);
                if (f.min)
                    y[r][s] = _mm512_fmadd_ps(min[s], groups512_weighed(in, rows, r, h, f), y[r][s]);
            }
        }
}

/* Multiplies all groups of T and adds the products to the sums of the 16 columns of SIDE, or of all 32
 * columns if the registers hold both sides. Prefetches LINES lines from NEXT on. */
SIMD512_INLINE void add_groups(const struct work *t, const char *next, size_t lines, int side, int rows,
                               const struct quant_format f, bool few)
{
    const size_t rate = (lines + t->n - 1) / t->n;
    const char *ask = next, *end = next + 64 * lines;
    char *in = t->in;
    floats y;

    EACH(r, s, rows, side)
    y[r][s] = t->from == 0 ? _mm512_setzero_ps() : _mm512_loadu_ps(t->sums + 16 * (s * rows + r));
    SIMD512_LOOP
    for (size_t i = 0; i < t->n; i++, in += rows * GROUPS_ROW) {
        ask = prefetch_lines(ask, end, rate, t->level2);
        add_group(y, t, i, in, side, rows, f, few);
    }
    EACH(r, s, rows, side)
    _mm512_storeu_ps(t->sums + 16 * (s * rows + r), y[r][s]);
}

SIMD512_INLINE void micro(const struct work *t, int rows, const struct quant_format f, bool few)
{
    const size_t lines = t->ask / 64, half = rows <= GROUPS_ROWS ? lines : lines / 2;

    add_groups(t, t->next, half, 0, rows, f, few);
    if (rows > GROUPS_ROWS)
        add_groups(t, t->next + 64 * half, lines - half, 1, rows, f, few);
}

typedef void micro_fn(const struct work *t);

/* Defines the functions of one format, compiled with its struct quant_format as a constant. */
#define ONE(rows, name, few, ...)                                \
    static void name##_##rows(const struct work *t)              \
    {                                                            \
        micro(t, rows, (struct quant_format){__VA_ARGS__}, few); \
    }
#define QUANT(name, gguf, elements, bytes, read, ...)                                                  \
    SIMD512_TO_12(ONE, few_##name, true, __VA_ARGS__)                                                  \
    SIMD512_TO_6(ONE, many_##name, false, __VA_ARGS__)                                                 \
    static void unpack_##name(struct groups512_group *to, const uint8_t *panel, size_t from, size_t n) \
    {                                                                                                  \
        groups512_unpack(to, panel, from, n, (struct quant_format){__VA_ARGS__}, false);               \
    }
#include "tensor/quant.def"

static const struct row {
    micro_fn *few[GROUPS_FEW], *many[GROUPS_ROWS];
    void (*unpack)(struct groups512_group *to, const uint8_t *panel, size_t from, size_t n);
} formats[DT_N] = {
#define QUANT(name, ...)                                       \
    [DT_##name] = {{SIMD512_TO_12(SIMD512_NAMED, few_##name)}, \
                   {SIMD512_TO_6(SIMD512_NAMED, many_##name)}, \
                   unpack_##name},
#include "tensor/quant.def"
};

/* ---- panels ---- */

/* Multiplies the tiles [t0, t1) of rows with the groups of W. Each tile prefetches its share of w.ask
 * bytes. */
static void run_chunk(const struct kern_gemm *g, struct work w, size_t t0, size_t t1, micro_fn *const *tile)
{
    const char *next = w.next;
    size_t ask = w.ask;

    for (size_t i = t0; i < t1; i++) {
        struct groups_rows t = groups_tile(i, g->m);
        size_t asked = ask * (i - t0) / (t1 - t0) / 64 * 64;

        w.next = next + asked;
        w.ask = ask * (i + 1 - t0) / (t1 - t0) / 64 * 64 - asked;
        w.in = groups_in(g->in, t, g->k, w.from);
        tile[t.rows - 1](&w);
        w.sums += t.rows * KERN_NR;
    }
}

static void run_panel(const struct kern_gemm *g, enum dtype t, size_t p, size_t t0, size_t t1,
                      const uint8_t *stop)
{
    const struct quant_format *f = quant_format_of(t);
    const struct row *row = &formats[t];
    float sums[GROUPS_TILES * GROUPS_ROWS * KERN_NR] __attribute__((aligned(64)));
    struct groups512_group c[GROUPS] __attribute__((aligned(64)));
    const uint8_t *panel = groups_panel(g, f, p);
    const size_t groups = g->k / GROUPS_SIZE, bytes = GROUPS / groups_span(f) * groups_span_bytes(f);

    for (size_t from = 0; from < groups; from += GROUPS) {
        struct work w = {
            .sums = sums, .panel = panel, .from = from, .c = c, .level2 = cpu_prefetches_to_l2()};

        w.n = groups - from < GROUPS ? groups - from : GROUPS;
        w.next = (const char *)groups_head(f, panel, from + w.n);
        w.ask = (size_t)((const char *)stop - w.next);
        w.ask = w.ask < bytes ? w.ask : bytes;
        if (g->m > GROUPS_FEW)
            row->unpack(c, panel, from, w.n);
        run_chunk(g, w, t0, t1, g->m > GROUPS_FEW ? row->many : row->few);
    }
    for (size_t i = t0, at = 0; i < t1; i++) {
        struct groups_rows of = groups_tile(i, g->m);

        avx512_gemm_end(g, p, (struct avx512_gemm_rows){of.first, of.rows}, sums + at, AVX512_I8_GEMM);
        at += of.rows * KERN_NR;
    }
}

/* Computes the panels [p, p + n) for a few rows, AT_ONCE groups of each panel in turn. While groups are
 * multiplied, the same number of bytes is prefetched, AVX512_GEMM_AHEAD bytes further on. */
static void run_panels(const struct kern_gemm *g, enum dtype t, size_t p, size_t n)
{
    float sums[AVX512_GEMM_AT_ONCE][GROUPS_FEW * KERN_NR] __attribute__((aligned(64)));
    const struct quant_format *f = quant_format_of(t);
    const struct groups_rows all = {0, g->m};
    const size_t groups = g->k / GROUPS_SIZE;

    for (size_t from = 0, some; from < groups; from += some) {
        some = groups - from < AT_ONCE ? groups - from : AT_ONCE;
        for (size_t i = 0; i < n; i++) {
            const uint8_t *panel = groups_panel(g, f, p + i), *at = groups_at(f, panel, from);

            formats[t].few[g->m - 1](&(struct work){
                .sums = sums[i],
                .panel = panel,
                .from = from,
                .n = some,
                .in = groups_in(g->in, all, g->k, from),
                .next = (const char *)at + AVX512_GEMM_AHEAD,
                .ask = (size_t)(groups_at(f, panel, from + some) - at),
            });
        }
    }
    for (size_t i = 0; i < n; i++)
        avx512_gemm_end(g, p + i, (struct avx512_gemm_rows){0, g->m}, sums[i], AVX512_I8_GEMM);
}

void KERN_NAME(avx512vnni_groups_at_once)(const struct kern_gemm *g, enum dtype t, size_t p0, size_t p1)
{
    for (size_t p = p0, n; p < p1; p += n) {
        n = p1 - p < AVX512_GEMM_AT_ONCE ? p1 - p : AVX512_GEMM_AT_ONCE;
        run_panels(g, t, p, n);
    }
}

void KERN_NAME(avx512vnni_gemm_blocks)(const struct kern_gemm *g, enum dtype t, size_t p0, size_t p1)
{
    groups_run(g, t, p0, p1, run_panel);
}

/* ---- the input ---- */

void KERN_NAME(avx512vnni_gemm_in_blocks)(void *in, const float *x, size_t row, size_t m, size_t k)
{
    struct groups_rows t = groups_tile_of(row, m);

    groups512_put(in, t, row - t.first, x, k);
}
