/* avx512vnni_blocks.c - C = A x W over weights in small groups of integers, with VPDPBUSD: class "int8 sum".
 *
 * A few rows unpack weights in registers. For more, eight groups of a panel at a time are unpacked to bytes
 * in the first cache, with what their columns are multiplied by. Every tile of rows walks those eight, and
 * asks memory for its share of the next. The float sums of up to 504 rows wait between them in an array of
 * the thread's own. A full tile takes 12 vpdpbusd, 2 loads and 6 broadcasts for four k, and at the end of a
 * group three or four operations for each of its 12 sums.
 */
#include "kern/ahead.h"
#include "kern/avx512/avx512_gemm.h"
#include "kern/avx512vnni/blocks512.h"

enum {
    GROUPS = BLOCKS_SPAN, /* that all tiles walk before the next */
    STEPS = BLOCKS512_STEPS,
    TURN = 2, /* groups of each of several panels that are taken at once */
};

/* ---- a tile of rows ---- */

SIMD512_INLINE __m512i four_at(const char *p)
{
    int32_t four;

    memcpy(&four, p, sizeof(four));
    return _mm512_set1_epi32(four);
}

/* Half H of a group, or with HALVES 1 all of it, to the integer sums SUM, which begin with what zeros take
 * away. The codes lie in so many BITS. */
SIMD512_INLINE void multiply(__m512i sum[BLOCKS_ROWS][2], const uint8_t *codes, unsigned bits, char *in,
                             int h, int rows, int halves, int zero)
{
    const int n = STEPS / halves;
    const int32_t *sums = blocks_sums(in, (size_t)rows);

    SIMD512_UNROLL
    for (int r = 0; r < BLOCKS_ROWS; r++)
        if (r < rows)
            sum[r][0] = sum[r][1] =
                zero ? _mm512_set1_epi32(-zero *
                                         (halves == 2 ? sums[2 * r + h] : sums[2 * r] + sums[2 * r + 1]))
                     : _mm512_setzero_si512();
    SIMD512_UNROLL
    for (int s = 0; s < STEPS; s++)
        if (s >= h * n && s < (h + 1) * n) {
            __m512i w0 = blocks512_code_at(codes, s, 0, bits), w1 = blocks512_code_at(codes, s, 1, bits);

            SIMD512_UNROLL
            for (int r = 0; r < BLOCKS_ROWS; r++)
                if (r < rows) {
                    __m512i a = four_at(in + r * BLOCKS_GROUP + 4 * s);

                    sum[r][0] = _mm512_dpbusd_epi32(sum[r][0], w0, a);
                    sum[r][1] = _mm512_dpbusd_epi32(sum[r][1], w1, a);
                }
        }
}

SIMD512_INLINE void add_sums(__m512 y[BLOCKS_ROWS][2], __m512i sum[BLOCKS_ROWS][2], __m512 d0, __m512 d1,
                             const float *scale, int rows)
{
    SIMD512_UNROLL
    for (int r = 0; r < BLOCKS_ROWS; r++)
        if (r < rows) {
            __m512 s = _mm512_set1_ps(scale[r]);

            y[r][0] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[r][0]), _mm512_mul_ps(d0, s), y[r][0]);
            y[r][1] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[r][1]), _mm512_mul_ps(d1, s), y[r][1]);
        }
}

/* N groups of a tile, from IN on, times those from FROM on of PANEL, which C holds unpacked if there are more
 * than a few rows. */
struct work {
    float *sums; /* [2][rows][16] */
    const uint8_t *panel;
    size_t from, n;
    const struct blocks512_group *c;
    char *in;
    const char *next;
    size_t ask; /* bytes from NEXT on that are wanted next */
    bool level2;
};

SIMD512_INLINE void add_group(__m512 y[BLOCKS_ROWS][2], const struct work *t, size_t i, char *in, int rows,
                              const struct blocks_form f, bool few)
{
    const uint8_t *head = blocks_head(&f, t->panel, t->from + i),
                  *group = blocks_group(&f, t->panel, t->from + i);
    const uint8_t *codes = few ? blocks512_codes_of(group, f) : t->c[i].code[0][0];
    __m512i sum[BLOCKS_ROWS][2];

    SIMD512_UNROLL
    for (int h = 0; h < 2; h++)
        if (h < f.halves) {
            const float *d = t->c[i].d[h];

            multiply(sum, codes, few ? f.bits : 8, in, h, rows, f.halves, f.zero);
            add_sums(y, sum, few ? blocks512_d_at(head, group, 0, h, f) : _mm512_loadu_ps(d),
                     few ? blocks512_d_at(head, group, 1, h, f) : _mm512_loadu_ps(d + 16),
                     blocks_scales(in, (size_t)rows), rows);
        }
    if (f.min) {
        const float *weighed = blocks_weighed(in, (size_t)rows), *min = t->c[i].min;
        __m512 m0 = few ? blocks512_min_at(head, group, 0, f) : _mm512_loadu_ps(min),
               m1 = few ? blocks512_min_at(head, group, 1, f) : _mm512_loadu_ps(min + 16);

        SIMD512_UNROLL
        for (int r = 0; r < BLOCKS_ROWS; r++)
            if (r < rows) {
                y[r][0] = _mm512_fmadd_ps(m0, _mm512_set1_ps(weighed[r]), y[r][0]);
                y[r][1] = _mm512_fmadd_ps(m1, _mm512_set1_ps(weighed[r]), y[r][1]);
            }
    }
}

SIMD512_INLINE void micro(const struct work *t, int rows, const struct blocks_form f, bool few)
{
    const char *ask = t->next;
    float *sums = t->sums;
    char *in = t->in;
    __m512 y[BLOCKS_ROWS][2];

    SIMD512_UNROLL
    for (int r = 0; r < BLOCKS_ROWS; r++)
        if (r < rows) {
            y[r][0] = t->from ? _mm512_loadu_ps(sums + 16 * r) : _mm512_setzero_ps();
            y[r][1] = t->from ? _mm512_loadu_ps(sums + 16 * (rows + r)) : _mm512_setzero_ps();
        }
    SIMD512_LOOP
    for (size_t i = 0; i < t->n; i++, in += rows * BLOCKS_ROW) {
        for (const char *stop = t->next + t->ask * (i + 1) / t->n; ask < stop; ask += 64)
            ahead_line(ask, t->level2);
        add_group(y, t, i, in, rows, f, few);
    }
    SIMD512_UNROLL
    for (int r = 0; r < BLOCKS_ROWS; r++)
        if (r < rows) {
            _mm512_storeu_ps(sums + 16 * r, y[r][0]);
            _mm512_storeu_ps(sums + 16 * (rows + r), y[r][1]);
        }
}

typedef void micro_fn(const struct work *t);

/* Everything for one form: its name, and its members as constants. */
#define ONE(name, rows, few, ...)                               \
    static void name##_##rows(const struct work *t)             \
    {                                                           \
        micro(t, rows, (struct blocks_form){__VA_ARGS__}, few); \
    }
#define ROWS_OF(name, few, ...)    \
    ONE(name, 1, few, __VA_ARGS__) \
    ONE(name, 2, few, __VA_ARGS__) \
    ONE(name, 3, few, __VA_ARGS__) \
    ONE(name, 4, few, __VA_ARGS__) \
    ONE(name, 5, few, __VA_ARGS__) \
    ONE(name, 6, few, __VA_ARGS__) \
    static micro_fn *const name[BLOCKS_ROWS] = {name##_1, name##_2, name##_3, name##_4, name##_5, name##_6};
#define FORM(name, ...)                                                                                \
    ROWS_OF(few_##name, true, __VA_ARGS__)                                                             \
    ROWS_OF(many_##name, false, __VA_ARGS__)                                                           \
    static void unpack_##name(struct blocks512_group *to, const uint8_t *panel, size_t from, size_t n) \
    {                                                                                                  \
        blocks512_unpack(to, panel, from, n, (struct blocks_form){__VA_ARGS__}, false);                \
    }
BLOCKS512_FORMS(FORM)

static const struct row {
    struct blocks_form f;
    micro_fn *const *few, *const *many;
    void (*unpack)(struct blocks512_group *to, const uint8_t *panel, size_t from, size_t n);
} forms[] = {
#define ROW(name, ...) {{__VA_ARGS__}, few_##name, many_##name, unpack_##name},
    BLOCKS512_FORMS(ROW)
#undef ROW
};

static const struct row *row_of(const struct blocks_form *f)
{
    const struct row *r = forms;

    while (!blocks512_same(&r->f, f))
        r++;
    return r;
}

/* ---- panels ---- */

/* The tiles [t0, t1) through the groups of W; each asks for its share of what is wanted next. */
static void run_chunk(const struct kern_gemm *g, struct work w, size_t t0, size_t t1, micro_fn *const *tile)
{
    const char *next = w.next;
    size_t ask = w.ask;

    for (size_t i = t0; i < t1; i++) {
        struct blocks_rows t = blocks_tile(i, g->m);
        size_t asked = ask * (i - t0) / (t1 - t0) / 64 * 64;

        w.next = next + asked;
        w.ask = ask * (i + 1 - t0) / (t1 - t0) / 64 * 64 - asked;
        w.in = blocks_in(g->in, t, g->k, w.from);
        tile[t.rows - 1](&w);
        w.sums += t.rows * KERN_NR;
    }
}

static void run_panel(const struct kern_gemm *g, const struct blocks_form *f, size_t p, size_t t0, size_t t1,
                      const uint8_t *stop)
{
    float sums[BLOCKS_TILES * BLOCKS_ROWS * KERN_NR] __attribute__((aligned(64)));
    struct blocks512_group c[GROUPS] __attribute__((aligned(64)));
    const uint8_t *panel = blocks_panel(g, f, p);
    const struct row *row = row_of(f);
    const size_t groups = g->k / BLOCKS_GROUP, bytes = GROUPS / blocks_span(f) * blocks_span_bytes(f);

    for (size_t from = 0; from < groups; from += GROUPS) {
        struct work w = {.sums = sums, .panel = panel, .from = from, .c = c, .level2 = cpu_level2_ahead()};

        w.n = groups - from < GROUPS ? groups - from : GROUPS;
        w.next = (const char *)blocks_head(f, panel, from + w.n);
        w.ask = (size_t)((const char *)stop - w.next);
        w.ask = w.ask < bytes ? w.ask : bytes;
        if (g->m > BLOCKS512_FEW)
            row->unpack(c, panel, from, w.n);
        run_chunk(g, w, t0, t1, g->m > BLOCKS512_FEW ? row->many : row->few);
    }
    for (size_t i = t0, at = 0; i < t1; i++) {
        struct blocks_rows t = blocks_tile(i, g->m);

        avx512_gemm_end(g, p, (struct avx512_gemm_rows){t.first, t.rows}, sums + at, AVX512_I8_GEMM);
        at += t.rows * KERN_NR;
    }
}

/* Groups [from, from + n) of panel P by all rows, whose sums are SUMS; as many bytes are asked for a little
 * ahead. C is for groups unpacked: rows of two tiles take those from it, unless codes are bytes anyway. */
static void run_turn(const struct kern_gemm *g, const struct row *row, size_t p, size_t from, size_t n,
                     struct blocks512_group *c, float *sums)
{
    const uint8_t *panel = blocks_panel(g, &row->f, p), *at = blocks_group(&row->f, panel, from);
    struct work w = {.sums = sums, .panel = panel, .from = from, .n = n, .c = c};

    w.next = (const char *)at + AVX512_GEMM_AHEAD;
    w.ask = (size_t)(blocks_group(&row->f, panel, from + n) - at);
    if (g->m <= BLOCKS_ROWS) {
        w.in = blocks_in(g->in, (struct blocks_rows){0, g->m}, g->k, from);
        row->few[g->m - 1](&w);
        return;
    }
    if (row->f.bits < 8)
        row->unpack(c, panel, from, n);
    run_chunk(g, w, 0, blocks_tiles(g->m), row->f.bits < 8 ? row->many : row->few);
}

/* The panels [p, p + n), a few groups of each in turn. */
static void run_panels(const struct kern_gemm *g, const struct row *row, size_t p, size_t n)
{
    float sums[AVX512_GEMM_AT_ONCE][BLOCKS512_FEW * KERN_NR] __attribute__((aligned(64)));
    struct blocks512_group c[2 * TURN] __attribute__((aligned(64)));
    const size_t groups = g->k / BLOCKS_GROUP,
                 turn = g->m > BLOCKS_ROWS && row->f.bits < 6 ? 2 * TURN : TURN; /* 2 KB or so */

    for (size_t from = 0; from < groups; from += turn)
        for (size_t i = 0; i < n; i++)
            run_turn(g, row, p + i, from, groups - from < turn ? groups - from : turn, c, sums[i]);
    for (size_t i = 0; i < n; i++)
        for (size_t t = 0; t < blocks_tiles(g->m); t++) {
            struct blocks_rows rows = blocks_tile(t, g->m);

            avx512_gemm_end(g, p + i, (struct avx512_gemm_rows){rows.first, rows.rows},
                            sums[i] + rows.first * KERN_NR, AVX512_I8_GEMM);
        }
}

void KERN_NAME(avx512vnni_blocks_at_once)(const struct kern_gemm *g, const struct blocks_form *f, size_t p0,
                                          size_t p1)
{
    const struct row *row = row_of(f);

    for (size_t p = p0, n; p < p1; p += n) {
        n = p1 - p < AVX512_GEMM_AT_ONCE ? p1 - p : AVX512_GEMM_AT_ONCE;
        run_panels(g, row, p, n);
    }
}

void KERN_NAME(avx512vnni_gemm_blocks)(const struct kern_gemm *g, const struct blocks_form *f, size_t p0,
                                       size_t p1)
{
    blocks_run(g, f, p0, p1, run_panel);
}

/* ---- the input ---- */

void KERN_NAME(avx512vnni_gemm_in_blocks)(void *in, const float *x, size_t row, size_t m, size_t k)
{
    struct blocks_rows t = blocks_tile_of(row, m);

    blocks512_put(in, t, row - t.first, x, k);
}
