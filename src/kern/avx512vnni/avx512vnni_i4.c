/* avx512vnni_i4.c - C = A x W over 4-bit panels with VPDPBUSD, in the arithmetic class "int8 sum".
 *
 * The input is that of gemm_i8. A line of 64 bytes of codes is expanded to two lines of weights, each by a
 * mask, a 16-bit product and a sum. With few tiles of rows, each tile expands the codes in registers, panel
 * by panel, and prefetches its share of the next panel; few rows prefetch nothing, because the hardware
 * prefetches their single stream better by itself. On level amx, few rows compute several panels at once.
 * With many tiles, a panel is expanded once, and gemm_i8 reads it while it is in L2.
 */
#include <string.h>

#include "kern/avx512/avx512.h"
#include "kern/avx512/avx512_gemm.h"
#include "kern/format/int4.h"

enum {
    WORDS = INT4_UNIT / 4, /* 32-bit words (four k each) of an input row in a unit */
    FEW_TILES = 3,         /* maximum tiles of rows that expand the codes in registers */
    AT_ONCE = 4,           /* units of a panel that are multiplied before the next panel */
};

/* The arguments of a micro-kernel: it multiplies a tile of rows of A with some units of a panel and adds the
 * products to the sums. */
struct tile {
    const uint32_t *a;
    const uint8_t *b;
    const char *next;       /* the first line to prefetch */
    size_t ask;             /* lines to prefetch */
    size_t units, per_head; /* units: number to compute; per_head: number in a quantization group */
    size_t apart;           /* words of the input from the last unit of a line to the next line */
    int32_t *sums;          /* the sums, [2][rows][16]: left and right columns of the panel */
    bool first, level2;
};

typedef void tile_fn(const struct tile *t);

/* Constants of 16 columns, with a lane of 32 bits for each: MULTIPLE has the factor in both 16-bit halves of the lane,
 * OFFSET the offset in all four bytes. */
struct expand {
    __m512i multiple, offset;
};

SIMD512_INLINE struct expand expand_at(const uint8_t *head)
{
    const __m512i four = _mm512_set4_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0);
    __m512i m = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)head));
    __m512i o = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)(head + KERN_NR)));

    return (struct expand){_mm512_or_si512(m, _mm512_slli_epi32(m, 16)), _mm512_shuffle_epi8(o, four)};
}

SIMD512_INLINE __m512i expanded(__m512i codes, struct expand x)
{
    return _mm512_add_epi8(_mm512_mullo_epi16(_mm512_and_si512(codes, _mm512_set1_epi8(15)), x.multiple),
                           x.offset);
}

/* Returns the weights in part PART, four k, of the unit whose codes are at B, for the left (H is 0) or right
 * 16 columns. */
SIMD512_INLINE __m512i weights_at(const uint8_t *b, int part, int h, const struct expand x[2])
{
    __m512i codes = _mm512_loadu_si512((const void *)(b + (part / 2 * 2 + h) * INT4_LINE));

    return expanded(part % 2 ? _mm512_srli_epi16(codes, 4) : codes, x[h]);
}

/* Multiplies four k of ROWS rows of A with the weights W and adds the products to the sums. Replaces W by the next
 * weights, part PART of the unit at B. The next weights are expanded between the products, so that no product waits for
 * them. With 12 rows, no registers are left for that. */
SIMD512_INLINE void add_part(__m512i acc[AVX512_ROWS][2], const uint32_t *a, __m512i w[2], const uint8_t *b,
                             int part, const struct expand x[2], int rows)
{
    __m512i next[2] = {w[0], w[1]};

    SIMD512_UNROLL
    for (int r = 0; r < AVX512_ROWS; r++)
        if (r < rows) {
            __m512i v = _mm512_set1_epi32((int)a[r * AVX512_GEMM_LINE]);

            SIMD512_UNROLL
            for (int h = 0; h < 2; h++)
                if (r == (h ? rows / 2 : 0)) {
                    next[h] = weights_at(b, part, h, x);
                    if (rows < AVX512_ROWS)
                        SIMD512_FIRST(next[h], acc[h ? rows - 1 : rows / 2][0]);
                }
            acc[r][0] = _mm512_dpbusd_epi32(acc[r][0], v, w[0]);
            acc[r][1] = _mm512_dpbusd_epi32(acc[r][1], v, w[1]);
        }
    w[0] = next[0];
    w[1] = next[1];
}

/* Adds the products of all units of T. After the last unit it also expands the bytes that follow and does not
 * use the result. */
SIMD512_INLINE void add_units(__m512i acc[AVX512_ROWS][2], const struct tile *t, int rows)
{
    const size_t rate = (t->ask + t->units - 1) / t->units;
    const char *ask = t->next, *end = t->next + INT4_LINE * t->ask;
    const uint8_t *b = t->b + INT4_HEAD;
    const uint32_t *a = t->a;
    const bool level2 = t->level2;
    struct expand x[2] = {expand_at(t->b), expand_at(t->b + 16)};
    __m512i w[2] = {weights_at(b, 0, 0, x), weights_at(b, 0, 1, x)};

    for (size_t i = 0, left = t->per_head; i < t->units; i++) {
        ask = prefetch_lines(ask, end, rate, level2);
        SIMD512_UNROLL
        for (int part = 1; part < WORDS; part++)
            add_part(acc, a + part - 1, w, b, part, x, rows);
        b += INT4_CODES;
        if (--left == 0) {
            x[0] = expand_at(b);
            x[1] = expand_at(b + 16);
            b += INT4_HEAD;
            left = t->per_head;
        }
        add_part(acc, a + WORDS - 1, w, b, 0, x, rows);
        a += i % 2 ? t->apart : WORDS;
    }
}

SIMD512_INLINE void add_all(const struct tile *t, int rows)
{
    __m512i acc[AVX512_ROWS][2];

    SIMD512_UNROLL
    for (int r = 0; r < AVX512_ROWS; r++)
        if (r < rows) {
            acc[r][0] = t->first ? _mm512_setzero_si512() : _mm512_loadu_si512(t->sums + 16 * r);
            acc[r][1] = t->first ? _mm512_setzero_si512() : _mm512_loadu_si512(t->sums + 16 * (rows + r));
        }
    add_units(acc, t, rows);
    SIMD512_UNROLL
    for (int r = 0; r < AVX512_ROWS; r++)
        if (r < rows) {
            _mm512_storeu_si512(t->sums + 16 * r, acc[r][0]);
            _mm512_storeu_si512(t->sums + 16 * (rows + r), acc[r][1]);
        }
}

#define ONE(rows, name)                             \
    static void name##_##rows(const struct tile *t) \
    {                                               \
        add_all(t, rows);                           \
    }
SIMD512_TO_12(ONE, add)
#undef ONE

static tile_fn *const add[AVX512_ROWS] = {SIMD512_TO_12(SIMD512_NAMED, add)};

/* Computes panel P for all rows. Prefetches the ASK lines that follow the panel. A tile of the input with more than 12
 * rows is computed in two parts. */
static void run_panel(const struct kern_gemm *g, size_t group, size_t p, size_t ask)
{
    float sums[AVX512_ROWS * KERN_NR] __attribute__((aligned(64)));
    size_t tiles = avx512_gemm_tiles(g->m, AVX512_I8_GEMM), width = avx512_gemm_width(g->k, AVX512_I8_GEMM);
    const uint8_t *panel = int4_panel(g, group, p);
    const char *end = (const char *)panel + int4_panel_bytes(g->k, group);
    struct tile t = {.b = panel,
                     .units = g->k / INT4_UNIT,
                     .per_head = group / INT4_UNIT,
                     .sums = (int32_t *)(void *)sums,
                     .first = true,
                     .level2 = cpu_prefetches_to_l2()};

    for (size_t i = 0; i < tiles; i++) {
        struct avx512_gemm_rows all = avx512_gemm_tile(i, g->m, AVX512_I8_GEMM);
        size_t parts = (all.rows + AVX512_ROWS - 1) / AVX512_ROWS;

        t.apart = (all.rows - 1) * AVX512_GEMM_LINE + WORDS;
        for (size_t k = 0; k < parts; k++) {
            size_t from = all.rows * k / parts, turn = i * parts + k, turns = tiles * parts;
            struct avx512_gemm_rows rows = {all.first + from, all.rows * (k + 1) / parts - from};

            t.a = (const uint32_t *)g->in + all.first * width + from * AVX512_GEMM_LINE;
            t.next = end + ask * turn / turns * INT4_LINE;
            t.ask = ask * (turn + 1) / turns - ask * turn / turns;
            add[rows.rows - 1](&t);
            avx512_gemm_to_floats(g, end - KERN_I8_TAIL, rows, sums);
            avx512_gemm_end(g, p, rows, sums, AVX512_I8_GEMM);
        }
    }
}

/* Computes the panels [p, p + n), AT_ONCE units of each panel in turn. */
static void run_panels(const struct kern_gemm *g, size_t group, size_t p, size_t n)
{
    int32_t sums[AVX512_GEMM_AT_ONCE][AVX512_ROWS * KERN_NR] __attribute__((aligned(64)));
    const size_t units = g->k / INT4_UNIT,
                 bytes = AT_ONCE * INT4_CODES + AT_ONCE * INT4_UNIT / group * INT4_HEAD;
    struct tile t = {.a = g->in,
                     .per_head = group / INT4_UNIT,
                     .apart = (g->m - 1) * AVX512_GEMM_LINE + WORDS,
                     .ask = bytes / INT4_LINE};

    for (size_t from = 0; from < units; from += t.units) {
        t.units = units - from < AT_ONCE ? units - from : AT_ONCE;
        t.first = from == 0;
        for (size_t i = 0; i < n; i++) {
            t.b = int4_panel(g, group, p + i) + int4_head(from, group);
            t.next = (const char *)t.b + AVX512_GEMM_AHEAD;
            t.sums = sums[i];
            add[g->m - 1](&t);
        }
        t.a += AT_ONCE * WORDS * g->m;
    }
    for (size_t i = 0; i < n; i++) {
        const char *end = (const char *)int4_panel(g, group, p + i + 1);

        avx512_gemm_to_floats(g, end - KERN_I8_TAIL, (struct avx512_gemm_rows){0, g->m},
                              (float *)(void *)sums[i]);
        avx512_gemm_end(g, p + i, (struct avx512_gemm_rows){0, g->m}, (float *)(void *)sums[i],
                        AVX512_I8_GEMM);
    }
}

void KERN_NAME(avx512vnni_i4_at_once)(const struct kern_gemm *g, size_t group, size_t p0, size_t p1)
{
    for (size_t p = p0, n; p < p1; p += n) {
        n = p1 - p < AVX512_GEMM_AT_ONCE ? p1 - p : AVX512_GEMM_AT_ONCE;
        run_panels(g, group, p, n);
    }
}

void KERN_NAME(avx512vnni_i4_expand)(const struct kern_gemm *g, size_t group, size_t p, size_t from, size_t n,
                                     size_t ahead, char *to)
{
    const uint8_t *panel = int4_panel(g, group, p), *head = panel + int4_head(from, group);
    const uint8_t *b = panel + int4_codes(from, group);
    struct expand x[2] = {expand_at(head), expand_at(head + 16)};

    for (size_t i = from; i < from + n; i++) {
        if (i > from && i % (group / INT4_UNIT) == 0) {
            x[0] = expand_at(b);
            x[1] = expand_at(b + 16);
            b += INT4_HEAD;
        }
        for (int s = 0; s < INT4_STEPS; s++, to += 2 * AVX512_GEMM_STEP)
            for (int h = 0; h < 2; h++, b += INT4_LINE) {
                __m512i codes = _mm512_loadu_si512((const void *)b);

                if (ahead)
                    prefetch_line((const char *)b + ahead, false);
                _mm512_storeu_si512(to + h * INT4_LINE, expanded(codes, x[h]));
                _mm512_storeu_si512(to + AVX512_GEMM_STEP + h * INT4_LINE,
                                    expanded(_mm512_srli_epi16(codes, 4), x[h]));
            }
    }
}

void KERN_NAME(avx512vnni_i4_panel)(const struct kern_gemm *g, size_t group, size_t p, void *panel)
{
    const size_t bytes = kern_i8_panel_bytes(g->k) - KERN_I8_TAIL;

    KERN_NAME(avx512vnni_i4_expand)(g, group, p, 0, g->k / INT4_UNIT, 0, panel);
    memcpy((char *)panel + bytes, int4_panel(g, group, p + 1) - KERN_I8_TAIL, KERN_I8_TAIL);
}

void KERN_NAME(avx512vnni_gemm_i4)(const struct kern_gemm *g, size_t group, size_t p0, size_t p1,
                                   void *scratch)
{
    size_t last = g->ahead > p1 ? g->ahead : p1, lines = int4_panel_bytes(g->k, group) / INT4_LINE;
    /* The arithmetic of a panel takes so long that the hardware's prefetches come too late, except on Zen 4 (Zen 5:
     * with 1, 5 and 8 rows 35, 28 and 23 GB/s, against 38, 39 and 31 GB/s with software prefetching). */
    bool few = cpu_prefetches_to_l2() && g->m <= AVX512_GEMM_FEW_LEVEL2;

    for (size_t p = p0; p < p1; p++) {
        struct kern_gemm one = int4_unpacked(g, p, scratch);

        if (avx512_gemm_tiles(g->m, AVX512_I8_GEMM) <= FEW_TILES) {
            run_panel(g, group, p, few || p + 1 >= last ? 0 : lines);
            continue;
        }
        KERN_NAME(avx512vnni_i4_panel)(g, group, p, scratch);
        KERN_NAME(avx512vnni_gemm_i8)(&one, p, p + 1);
    }
}
