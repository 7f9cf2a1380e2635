/* avx2_many.c - C = A x W^T + bias for many rows over packed panels of 32 columns, for fp32 and bf16 weights.
 *
 *   rows    cut into tiles of at most 6, as equal as possible
 *   input   tile after tile, each [lines][rows][16] floats: 16 of every row, then the next 16. bf16 inputs
 *           are rounded and widened again
 *   tile    6 rows x 16 columns: 12 accumulators; sums are those of ref_gemm.c
 *   KC      slice: 512 k. All tiles of rows read the KC slice of a panel from L2, first its left 16 columns,
 *           then its right, and each tile prefetches its share of the next slice. With many rows, a slice of
 *           bf16 is widened once, to an array that the tiles read as fp32
 *   sums    are stored between the slices of a panel in an array of the thread, [rows][32] for each tile. It
 *           is exact, so the bits do not depend on where K is cut. The epilogue adds the bias and stores the
 *           sums in C or, after an activation, in the input of the next gemm
 *
 * A step of K at 6 x 16 has 12 FMAs, 2 panel loads and 6 broadcasts; bf16 that was not widened before needs 2
 * shifts or masks more.
 */
#include <immintrin.h>
#include <string.h>

#include "kern/avx2/avx2.h"
#include "kern/avx2/avx2_math.h"
#include "kern/avx2/avx2_tile.h"
#include "kern/prefetch.h"

enum {
    ROWS = AVX2_ROWS,
    COLS = 2,         /* registers for each row of a tile */
    KC = 512,         /* K of a slice; a multiple of LINE */
    TILES = 86,       /* maximum tiles that a panel is multiplied with at once: 516 rows, 64 KB of sums */
    MANY = 12,        /* with more rows than this, bf16 weights are widened once for all tiles */
    UNROLL = 4,       /* steps of K in one iteration of the inner loop; divides LINE */
    PANEL_LINE = 128, /* bytes of a row of fp32 of a panel, or of a pair of rows of bf16 */
    LINE = AVX2_GEMM_LINE,
};

/* ---- the layout of the input ---- */

/* Returns the number of floats that a row of K elements takes in the input. */
static size_t width_of(size_t k)
{
    return (k + LINE - 1) / LINE * LINE;
}

/* Stores X[N], N <= LINE, as columns AT to AT + N - 1 of row R of tile T in IN. AT is a multiple of LINE. */
AVX2_INLINE void put_line(float *in, struct avx2_rows t, size_t r, size_t k, size_t at, const float *x,
                          size_t n, bool bf16)
{
    float *to = in + t.first * width_of(k) + (at / LINE * t.rows + r) * LINE;

    for (size_t i = 0; i < n; i += 8) {
        __m256 y = avx2_get(x + i, n - i);

        avx2_put(to, i, bf16 ? _mm256_castsi256_ps(_mm256_slli_epi32(avx2_round_bf16(y), 16)) : y, n - i);
    }
}

AVX2_INLINE void put_row(float *in, const float *x, size_t row, size_t m, size_t k, bool bf16)
{
    struct avx2_rows t = avx2_gemm_tile_of(row, m);

    for (size_t at = 0; at < k; at += LINE)
        put_line(in, t, row - t.first, k, at, x + at, k - at < LINE ? k - at : LINE, bf16);
}

void avx2_gemm_in_f32(void *in, const float *x, size_t row, size_t m, size_t k)
{
    put_row(in, x, row, m, k, false);
}

void avx2_gemm_in_bf16(void *in, const float *x, size_t row, size_t m, size_t k)
{
    put_row(in, x, row, m, k, true);
}

/* ---- the epilogue ---- */

static void store(const struct kern_gemm *g, size_t p, size_t first, size_t rows, const float *sums)
{
    for (size_t v = 0, at = p * KERN_NR; v < KERN_NR && at < g->n; v += 8, at += 8) {
        __m256 bias = g->bias ? avx2_get(g->bias + at, g->n - at) : _mm256_setzero_ps();

        for (size_t r = 0; r < rows; r++) {
            __m256 y = _mm256_loadu_ps(sums + r * KERN_NR + v);

            avx2_put(g->c + (first + r) * g->ldc, at, g->bias ? _mm256_add_ps(y, bias) : y, g->n - at);
        }
    }
}

void avx2_gemm_begin(const struct kern_gemm *g, size_t p, size_t first, size_t rows, float *sums)
{
    memset(sums, 0, rows * KERN_NR * sizeof(*sums));
    for (size_t r = 0; r < rows && g->onto; r++)
        for (size_t v = 0, at = p * KERN_NR; v < KERN_NR && at < g->n; v += 8, at += 8)
            _mm256_storeu_ps(sums + r * KERN_NR + v, avx2_get(g->c + (first + r) * g->ldc + at, g->n - at));
}

/* Applies the activation to Y, the sums of row R of a tile with the bias added, and stores the result in C
 * or the next input. */
AVX2_INLINE void activate(const struct kern_gemm *g, size_t p, struct avx2_rows t, size_t r, float y[KERN_NR],
                          bool bf16)
{
    size_t each = g->end == KERN_GLU ? KERN_PAIRS : KERN_NR, at = p * each,
           n = g->n - at < each ? g->n - at : each;

    if (g->end == KERN_GLU)
        avx2_glu(y, y, y + KERN_PAIRS, n, g->act);
    else
        avx2_act(y, y, n, g->act);
    for (size_t i = 0; i < n && g->c; i += 8)
        avx2_put(g->c + (t.first + r) * g->ldc + at, i, _mm256_loadu_ps(y + i), n - i);
    for (size_t i = 0; i < n && !g->c; i += LINE)
        put_line(g->out, t, r, g->n, at + i, y + i, n - i < LINE ? n - i : LINE, bf16);
}

void avx2_gemm_end(const struct kern_gemm *g, size_t p, size_t first, size_t rows, const float *sums,
                   bool bf16)
{
    float y[KERN_NR];

    if (g->end == KERN_SUMS) {
        store(g, p, first, rows, sums);
        return;
    }
    for (size_t r = 0; r < rows; r++, sums += KERN_NR) {
        for (size_t v = 0; v < KERN_NR; v += 8) {
            size_t at = p * KERN_NR + v;
            __m256 s = _mm256_loadu_ps(sums + v);

            if (g->bias && (g->end == KERN_GLU || at < g->n))
                s = _mm256_add_ps(s, avx2_get(g->bias + at, g->end == KERN_GLU ? KERN_NR : g->n - at));
            _mm256_storeu_ps(y + v, s);
        }
        activate(g, p, (struct avx2_rows){first, rows}, r, y, bf16);
    }
}

/* ---- one tile, one KC slice ---- */

/* The arguments of a micro-kernel: it multiplies a tile of rows of A with 16 columns of a KC slice and adds
 * the products to the sums. */
struct part {
    const float *a;
    const char *b, *next; /* b: the KC slice of the 16 columns; next: the first line to prefetch */
    float *sums;          /* [rows][32], from the first of the 16 columns on */
    size_t depth, ask;    /* depth: the k of the slice; ask: lines to prefetch from next on */
    bool first;           /* the sums start at zero */
};

typedef void part_fn(const struct part *p);

/* Computes one step of K or, with PAIRS, two steps whose weights are pairs of bf16. AGAIN equals B, but the
 * compiler must not see that: it would load each pair only once, run out of registers and keep sums in
 * memory. */
AVX2_INLINE void step(__m256 acc[ROWS][4], const char *b, const char *again, const float *a, int rows,
                      bool pairs)
{
    if (!pairs) {
        avx2_step(acc, b, AVX2_WHOLE, a, LINE, rows, COLS);
    } else {
        avx2_step(acc, b, AVX2_LOWER, a, LINE, rows, COLS);
        avx2_step(acc, again, AVX2_UPPER, a + 1, LINE, rows, COLS);
    }
}

AVX2_INLINE void multiply(__m256 acc[ROWS][4], const struct part *p, int rows, bool pairs)
{
    const size_t bytes = UNROLL * PANEL_LINE / (1 + pairs), iterations = p->depth / UNROLL;
    const size_t rate = iterations ? (p->ask + iterations - 1) / iterations : 0;
    const char *b = p->b, *again = b, *ask = p->next, *end = p->next + 64 * p->ask;
    const float *a = p->a;

    __asm__("" : "+r"(again));
    for (size_t i = 0, k = 0; i < iterations; i++, b += bytes, again += bytes) {
        ask = prefetch_lines(ask, end, rate, true);
        AVX2_UNROLL
        for (int s = 0; s < UNROLL; s += 1 + pairs)
            step(acc, b + s / (1 + pairs) * PANEL_LINE, again + s / (1 + pairs) * PANEL_LINE, a + s, rows,
                 pairs);
        a += UNROLL;
        k += UNROLL;
        if (k == LINE) { /* continues with the next line of every row */
            a += (rows - 1) * LINE;
            k = 0;
        }
    }
    for (size_t k = iterations * UNROLL; k < p->depth;
         k += 1 + pairs, b += PANEL_LINE, again += PANEL_LINE, a += 1 + pairs)
        if (pairs && k + 1 == p->depth)
            avx2_step(acc, b, AVX2_LOWER, a, LINE, rows, COLS);
        else
            step(acc, b, again, a, rows, pairs);
}

AVX2_INLINE void part(const struct part *p, int rows, bool pairs)
{
    __m256 acc[ROWS][4];

    AVX2_UNROLL
    for (int r = 0; r < ROWS; r++) {
        if (r >= rows)
            break;
        AVX2_UNROLL
        for (int v = 0; v < COLS; v++)
            acc[r][v] = p->first ? _mm256_setzero_ps() : _mm256_loadu_ps(p->sums + r * KERN_NR + 8 * v);
    }
    multiply(acc, p, rows, pairs);
    AVX2_UNROLL
    for (int r = 0; r < ROWS; r++) {
        if (r >= rows)
            break;
        AVX2_UNROLL
        for (int v = 0; v < COLS; v++)
            _mm256_storeu_ps(p->sums + r * KERN_NR + 8 * v, acc[r][v]);
    }
}

#define PART(NAME, ROWS_, PAIRS_)          \
    static void NAME(const struct part *p) \
    {                                      \
        part(p, ROWS_, PAIRS_);            \
    }
PART(whole_3, 3, false)
PART(whole_4, 4, false)
PART(whole_5, 5, false)
PART(whole_6, 6, false)
PART(pairs_3, 3, true)
PART(pairs_4, 4, true)
PART(pairs_5, 5, true)
PART(pairs_6, 6, true)
#undef PART

static part_fn *const parts[2][ROWS] = {{NULL, NULL, whole_3, whole_4, whole_5, whole_6},
                                        {NULL, NULL, pairs_3, pairs_4, pairs_5, pairs_6}};

/* ---- panels ---- */

/* Widens DEPTH k of the bf16 panel B, which stores them in pairs, to WIDE, fp32 [depth][32]. */
static void widen(float *wide, const char *b, size_t depth)
{
    const __m256i upper = _mm256_set1_epi32((int)0xffff0000u);

    for (size_t k = 0; k < depth; k += 2, b += PANEL_LINE, wide += 2 * KERN_NR)
        for (size_t v = 0; v < 4; v++) {
            __m256i w = _mm256_loadu_si256((const __m256i *)(const void *)(b + 32 * v));

            _mm256_store_ps(wide + 8 * v, _mm256_castsi256_ps(_mm256_slli_epi32(w, 16)));
            _mm256_store_ps(wide + KERN_NR + 8 * v, _mm256_castsi256_ps(_mm256_and_si256(w, upper)));
        }
}

/* One KC slice of panel P, from k0 on, for the tiles [t0, t1) of rows. */
struct slice {
    const struct kern_gemm *g;
    size_t p, k0, depth, t0, t1;
    /* B: the weights of the slice, as stored or widened. NEXT: the first line to prefetch. ASK: the number of
     * lines to prefetch. */
    const char *b, *next;
    size_t ask;
    float *sums;
    bool pairs;
};

AVX2_INLINE void run_slice(const struct slice *o, bool bf16)
{
    const struct kern_gemm *g = o->g;
    const size_t n = 2 * (o->t1 - o->t0), width = width_of(g->k);
    struct part p = {.depth = o->depth, .first = o->k0 == 0 && !g->onto};
    float *sums = o->sums;

    for (size_t i = 0; i < n; i += 2) {
        struct avx2_rows t = avx2_gemm_tile(o->t0 + i / 2, g->m);

        if (o->k0 == 0 && g->onto)
            avx2_gemm_begin(g, o->p, t.first, t.rows, sums);
        p.a = (const float *)g->in + t.first * width + o->k0 * t.rows;
        for (size_t half = 0; half < 2; half++) {
            p.b = o->b + half * PANEL_LINE / 2;
            p.sums = sums + half * KERN_NR / 2;
            p.next = o->next + o->ask * (i + half) / n * 64;
            p.ask = o->ask * (i + half + 1) / n - o->ask * (i + half) / n;
            parts[o->pairs][t.rows - 1](&p);
        }
        if (o->k0 + o->depth >= g->k)
            avx2_gemm_end(g, o->p, t.first, t.rows, sums, bf16);
        sums += t.rows * KERN_NR;
    }
}

/* Computes the panels [p0, p1) for the tiles [t0, t1) of rows. WIDE [KC][32] is a buffer to widen bf16. */
AVX2_INLINE void panels(const struct kern_gemm *g, size_t p0, size_t p1, size_t t0, size_t t1, float *wide,
                        bool bf16)
{
    float sums[TILES * ROWS * KERN_NR] __attribute__((aligned(64)));
    const size_t lines = (g->k + bf16) / (1 + bf16), /* lines of a panel, PANEL_LINE bytes each */
        apart = (kern_gemm_panel_k(g) + bf16) / (1 + bf16) - lines; /* lines to skip between two panels */
    struct slice o = {.g = g, .t0 = t0, .t1 = t1, .sums = sums, .pairs = bf16 && g->m <= MANY};

    for (o.p = p0; o.p < p1; o.p++)
        for (o.k0 = 0; o.k0 == 0 || o.k0 < g->k; o.k0 += KC) {
            size_t from = o.k0 / (1 + bf16), behind = ((g->ahead > p1 ? g->ahead : p1) - o.p) * lines - from,
                   n;

            o.depth = g->k - o.k0 < KC ? g->k - o.k0 : KC;
            n = (o.depth + bf16) / (1 + bf16);
            o.b = (const char *)g->b + ((o.p - g->first) * (lines + apart) + from) * PANEL_LINE;
            o.next = o.b + (n + (from + n == lines ? apart : 0)) * PANEL_LINE;
            o.ask = 2 * (behind - n < n ? behind - n : n);
            if (bf16 && !o.pairs) {
                widen(wide, o.b, o.depth);
                o.b = (const char *)wide;
            }
            run_slice(&o, bf16);
        }
}

AVX2_INLINE void gemm(const struct kern_gemm *g, size_t p0, size_t p1, float *wide, bool bf16)
{
    size_t most = ((size_t)4 << 20) / (ROWS * width_of(g->k) * 4 + 1), t0, tiles;

    kern_gemm_share(g, avx2_gemm_tiles(g->m), &t0, &tiles);
    most = most < 8 ? 8 : most > TILES ? TILES : most;
    for (; t0 < tiles; t0 += most)
        panels(g, p0, p1, t0, tiles - t0 < most ? tiles : t0 + most, wide, bf16);
}

void avx2_many_f32(const struct kern_gemm *g, size_t p0, size_t p1)
{
    gemm(g, p0, p1, NULL, false);
}

void avx2_many_bf16(const struct kern_gemm *g, size_t p0, size_t p1)
{
    float wide[KC * KERN_NR] __attribute__((aligned(64)));

    gemm(g, p0, p1, wide, true);
}
