/* amx_mx4_bf16.c - C = A x W over MXFP4 panels, class "bf16 tile dot".
 *
 * A few groups are unpacked in the first cache and multiplied while sums wait in tiles: of three panels at
 * once for rows of one tile, of one for rows of two. For more rows a panel is unpacked to scratch, which
 * stays in level 2, for the gemm of tiles.
 */
#include "kern/amx/amx_gemm.h"
#include "kern/avx512/avx512_mx4.h"

enum {
    GROUPS = 3,   /* of each panel that are unpacked at once, */
    MANY = 8,     /* and where sums come and go */
    AHEAD = 2048, /* bytes in front of them that are asked for */
};

/* A tile of rows and a few groups of up to three panels, unpacked. */
struct some {
    const uint32_t *a;
    char b[AMX_GEMM_AT_ONCE][GROUPS * MX4_BLOCK / 2 * AVX512_GEMM_STEP] __attribute__((aligned(64)));
    float sums[AMX_GEMM_AT_ONCE * AMX_ROWS * KERN_NR] __attribute__((aligned(64)));
    size_t rows, n;
};

/* N groups to a panel of bf16. */
static void unpack(char *to, const uint8_t *group, size_t n)
{
    for (size_t at = 0; at < n * MX4_GROUP; at += AMX_LINE)
        ahead_line((const char *)group + AHEAD + at, false);
    avx512_mx4_unpack(to, group, n, AVX512_DOT);
}

SIMD512_INLINE void add_some(const struct some *t, int panels)
{
    const enum avx512_kind kind = AVX512_DOT;
    const uint32_t *a = t->a;

    for (size_t i = 0; i < t->n; i++, a += t->rows * AMX_WORDS) {
        const size_t at = i * MX4_BLOCK / 2 * AVX512_GEMM_STEP;

        AMX_LOAD(7, a, AMX_LINE);
        AMX_GEMM_SIDE(0, t->b[0] + at);
        AMX_GEMM_SIDE(1, t->b[0] + at + AVX512_GEMM_STEP / 2);
        if (panels > 1) {
            AMX_GEMM_SIDE(2, t->b[1] + at);
            AMX_GEMM_SIDE(3, t->b[1] + at + AVX512_GEMM_STEP / 2);
        }
        if (panels > 2) {
            AMX_GEMM_SIDE(4, t->b[2] + at);
            AMX_GEMM_SIDE(5, t->b[2] + at + AVX512_GEMM_STEP / 2);
        }
    }
}

SIMD512_INLINE void some_panels(struct some *t, const struct kern_gemm *g, size_t p, int panels)
{
    t->a = g->in;
    memset(t->sums, 0, sizeof(t->sums));
    AMX_GEMM_ONE_SUMS(AMX_LOAD, t, panels);
    for (size_t from = 0; from < g->k / MX4_BLOCK; from += GROUPS) {
        t->n = g->k / MX4_BLOCK - from < GROUPS ? g->k / MX4_BLOCK - from : GROUPS;
        for (size_t i = 0; i < (size_t)panels; i++)
            unpack(t->b[i], mx4_groups(g, p + i) + from * MX4_GROUP, t->n);
        add_some(t, panels);
        t->a += t->n * t->rows * AMX_WORDS;
    }
    AMX_GEMM_ONE_SUMS(AMX_STORE, t, panels);
    for (size_t i = 0; i < (size_t)panels; i++)
        avx512_gemm_end(g, p + i, (struct avx512_gemm_rows){0, t->rows}, t->sums + i * t->rows * KERN_NR,
                        AVX512_DOT);
}

static void one_tile(const struct kern_gemm *g, size_t p0, size_t p1)
{
    struct some t = {.rows = g->m};

    amx_gemm_shape_one(g->m, AMX_WORDS);
    for (size_t p = p0; p < p1; p += AMX_GEMM_AT_ONCE)
        if (p1 - p >= 3)
            some_panels(&t, g, p, 3);
        else if (p1 - p == 2)
            some_panels(&t, g, p, 2);
        else
            some_panels(&t, g, p, 1);
    AMX_RELEASE();
}

/* The groups [from, from + n), which B holds unpacked, by all rows of W: their SUMS wait in between, unless
 * they are of two tiles only, which keep them. */
static void add_many(struct amx_gemm_walk *w, const char *b, size_t from, size_t n, float *sums)
{
    const struct kern_gemm *g = w->g;
    const size_t width = avx512_gemm_width(g->k, AVX512_DOT), last = g->k / MX4_BLOCK;
    const bool stay = w->rows <= 2 * AMX_ROWS;

    for (size_t at = 0; at < w->rows; at += 2 * AMX_ROWS) {
        const size_t left = w->rows - at;
        struct amx_gemm t = {.b = b, .first = from == 0, .steps = n * AMX_WORDS};

        t.rows[0] = left < AMX_ROWS ? left : AMX_ROWS;
        t.rows[1] = left - t.rows[0] < AMX_ROWS ? left - t.rows[0] : AMX_ROWS;
        for (size_t j = 0; j < 2; j++) {
            t.a[j] =
                (const uint32_t *)g->in + (w->r0 + at + j * AMX_ROWS) * width + from * AMX_WORDS * t.rows[j];
            t.sums[j] = sums + (at + j * AMX_ROWS) * KERN_NR;
        }
        if (t.rows[0] != w->shaped[0] || t.rows[1] != w->shaped[1]) {
            amx_shape(t.rows, AMX_WORDS);
            memcpy(w->shaped, t.rows, sizeof(w->shaped));
        }
        if (from == 0 || !stay)
            amx_gemm_begin(&t, t.rows[1] != 0);
        amx_gemm_turns(&t, n, t.rows[1] != 0, AVX512_DOT);
        if (from + n == last || !stay)
            amx_gemm_keep(&t, t.rows[1] != 0);
    }
}

static void many(const struct kern_gemm *g, size_t p0, size_t p1)
{
    float sums[KERN_TOGETHER * KERN_NR] __attribute__((aligned(64)));
    char b[MANY][MX4_BLOCK / 2 * AVX512_GEMM_STEP] __attribute__((aligned(64)));
    struct amx_gemm_walk w = {.g = g};

    for (w.r0 = 0; w.r0 < g->m; w.r0 += KERN_TOGETHER) {
        w.rows = g->m - w.r0 < KERN_TOGETHER ? g->m - w.r0 : KERN_TOGETHER;
        for (size_t p = p0; p < p1; p++) {
            for (size_t from = 0, n; from < g->k / MX4_BLOCK; from += n) {
                n = w.rows <= 2 * AMX_ROWS ? GROUPS : MANY;
                n = g->k / MX4_BLOCK - from < n ? g->k / MX4_BLOCK - from : n;
                unpack(b[0], mx4_groups(g, p) + from * MX4_GROUP, n);
                add_many(&w, b[0], from, n, sums);
            }
            amx_gemm_end(&w, p, sums, AVX512_DOT);
        }
    }
    _mm_sfence(); /* as amx_gemm_drive_many() */
    AMX_RELEASE();
}

void KERN_NAME(amx_gemm_mx4_bf16)(const struct kern_gemm *g, size_t p0, size_t p1, void *scratch)
{
    (void)scratch;
    if (g->m > 0 && g->m <= AMX_ROWS)
        one_tile(g, p0, p1);
    else
        many(g, p0, p1);
}
