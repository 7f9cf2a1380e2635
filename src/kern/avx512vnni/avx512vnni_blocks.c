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

/* Registers of a tile, [row][side of the panel]. */
enum { SIDES = 2 };
typedef __m512 floats[BLOCKS_ROWS][SIDES];
typedef __m512i integers[BLOCKS_FEW][SIDES];

#define EACH(r, s)                       \
    SIMD512_UNROLL                       \
    for (int r = 0; r < BLOCKS_FEW; r++) \
        SIMD512_UNROLL                   \
    for (int s = 0; s < SIDES; s++)      \
        if (r < rows)

/* Half H of a group, or where it has none all of it, to the integer sums SUM, which begin with what zeros
 * take away. PACKED: the codes lie as in a panel, else in bytes. */
SIMD512_INLINE void multiply(integers sum, const uint8_t *codes, bool packed, char *in, int h, int rows,
                             const struct blocks_form f)
{
    const int n = STEPS / f.halves, bits = packed ? (int)f.bits : 8;
    const int32_t *sums = blocks_sums(in, (size_t)rows);

    EACH(r, s)
    sum[r][s] =
        f.zero
            ? _mm512_set1_epi32(-f.zero * (f.halves == 2 ? sums[2 * r + h] : sums[2 * r] + sums[2 * r + 1]))
            : _mm512_setzero_si512();
    SIMD512_UNROLL
    for (int k = 0; k < STEPS; k++)
        if (k >= h * n && k < (h + 1) * n) {
            __m512i w0 = blocks512_code_at(codes, k, 0, (unsigned)bits, packed && f.powers),
                    w1 = blocks512_code_at(codes, k, 1, (unsigned)bits, packed && f.powers);

            SIMD512_UNROLL
            for (int r = 0; r < BLOCKS_FEW; r++)
                if (r < rows) {
                    __m512i a = four_at(in + r * BLOCKS_GROUP + 4 * k);

                    sum[r][0] = _mm512_dpbusd_epi32(sum[r][0], w0, a);
                    sum[r][1] = _mm512_dpbusd_epi32(sum[r][1], w1, a);
                }
        }
}

/* Group I of T, which begins at IN, to the sums of T, which are Y up to BLOCKS_ROWS rows. */
SIMD512_INLINE void add_group(floats y, const struct work *t, size_t i, char *in, int rows,
                              const struct blocks_form f, bool few)
{
    const uint8_t *head = blocks_head(&f, t->panel, t->from + i),
                  *group = blocks_group(&f, t->panel, t->from + i);
    const uint8_t *codes = few ? blocks512_codes_of(group, f) : t->c[i].code[0][0];
    const float *scale = blocks_scales(in, (size_t)rows), *weighed = blocks_weighed(in, (size_t)rows);
    integers sum;

    SIMD512_UNROLL
    for (int h = 0; h < 2; h++)
        if (h < f.halves) {
            __m512 d[SIDES], min[SIDES];

            multiply(sum, codes, few, in, h, rows, f);
            SIMD512_UNROLL
            for (int s = 0; s < SIDES; s++) {
                d[s] = few ? blocks512_d_at(head, group, s, h, f) : _mm512_loadu_ps(t->c[i].d[h] + 16 * s);
                min[s] = !f.min ? _mm512_setzero_ps()
                         : few  ? blocks512_min_at(head, group, s, f)
                                : _mm512_loadu_ps(t->c[i].min + 16 * s);
            }
            EACH(r, s)
            {
                float *at = t->sums + 16 * (s * rows + r);
                __m512 v = rows > BLOCKS_ROWS ? _mm512_loadu_ps(at) : y[r][s];

                v = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[r][s]),
                                    _mm512_mul_ps(d[s], _mm512_set1_ps(scale[r])), v);
                if (f.min)
                    v = _mm512_fmadd_ps(min[s], _mm512_set1_ps(weighed[r]), v);
                if (rows > BLOCKS_ROWS)
                    _mm512_storeu_ps(at, v);
                else
                    y[r][s] = v;
            }
        }
}

/* Up to six rows have their float sums in registers, more only those of integers. */
SIMD512_INLINE void micro(const struct work *t, int rows, const struct blocks_form f, bool few)
{
    const char *ask = t->next;
    float *sums = t->sums;
    char *in = t->in;
    floats y;

    if (t->from == 0)
        memset(sums, 0, (size_t)rows * KERN_NR * sizeof(*sums));
    EACH(r, s)
    if (rows <= BLOCKS_ROWS)
        y[r][s] = _mm512_loadu_ps(sums + 16 * (s * rows + r));
    SIMD512_LOOP
    for (size_t i = 0; i < t->n; i++, in += rows * BLOCKS_ROW) {
        for (const char *stop = t->next + t->ask * (i + 1) / t->n; ask < stop; ask += 64)
            ahead_line(ask, t->level2);
        add_group(y, t, i, in, rows, f, few);
    }
    EACH(r, s)
    if (rows <= BLOCKS_ROWS)
        _mm512_storeu_ps(sums + 16 * (s * rows + r), y[r][s]);
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
    ONE(name, 6, few, __VA_ARGS__)
#define MORE_ROWS_OF(name, ...)      \
    ONE(name, 7, true, __VA_ARGS__)  \
    ONE(name, 8, true, __VA_ARGS__)  \
    ONE(name, 9, true, __VA_ARGS__)  \
    ONE(name, 10, true, __VA_ARGS__) \
    ONE(name, 11, true, __VA_ARGS__) \
    ONE(name, 12, true, __VA_ARGS__)
#define SIX(name)  name##_1, name##_2, name##_3, name##_4, name##_5, name##_6
#define MORE(name) name##_7, name##_8, name##_9, name##_10, name##_11, name##_12
#define FORM(name, ...)                                                                                \
    ROWS_OF(few_##name, true, __VA_ARGS__)                                                             \
    MORE_ROWS_OF(few_##name, __VA_ARGS__)                                                              \
    ROWS_OF(many_##name, false, __VA_ARGS__)                                                           \
    static micro_fn *const few_##name[BLOCKS_FEW] = {SIX(few_##name), MORE(few_##name)};               \
    static micro_fn *const many_##name[BLOCKS_ROWS] = {SIX(many_##name)};                              \
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
        if (g->m > BLOCKS_FEW)
            row->unpack(c, panel, from, w.n);
        run_chunk(g, w, t0, t1, g->m > BLOCKS_FEW ? row->many : row->few);
    }
    for (size_t i = t0, at = 0; i < t1; i++) {
        struct blocks_rows t = blocks_tile(i, g->m);

        avx512_gemm_end(g, p, (struct avx512_gemm_rows){t.first, t.rows}, sums + at, AVX512_I8_GEMM);
        at += t.rows * KERN_NR;
    }
}

/* The panels [p, p + n) by a few rows, some groups of each in turn; as many bytes are asked for a little
 * ahead. */
static void run_panels(const struct kern_gemm *g, const struct row *row, size_t p, size_t n)
{
    float sums[AVX512_GEMM_AT_ONCE][BLOCKS_FEW * KERN_NR] __attribute__((aligned(64)));
    const struct blocks_rows all = {0, g->m};
    const size_t groups = g->k / BLOCKS_GROUP;

    for (size_t from = 0, some; from < groups; from += some) {
        some = groups - from < TURN ? groups - from : TURN;
        for (size_t i = 0; i < n; i++) {
            const uint8_t *panel = blocks_panel(g, &row->f, p + i), *at = blocks_group(&row->f, panel, from);

            row->few[g->m - 1](&(struct work){
                .sums = sums[i],
                .panel = panel,
                .from = from,
                .n = some,
                .in = blocks_in(g->in, all, g->k, from),
                .next = (const char *)at + AVX512_GEMM_AHEAD,
                .ask = (size_t)(blocks_group(&row->f, panel, from + some) - at),
            });
        }
    }
    for (size_t i = 0; i < n; i++)
        avx512_gemm_end(g, p + i, (struct avx512_gemm_rows){0, g->m}, sums[i], AVX512_I8_GEMM);
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
