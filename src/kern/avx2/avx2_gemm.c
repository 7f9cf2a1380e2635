/* avx2_gemm.c - C = A x W^T + bias over packed panels of 32 columns, for fp32 and bf16 weights.
 *
 *   tile:   6 rows x 16 columns: 12 accumulators; sums are those of ref_gemm.c
 *   A:      rows of fp32 (bf16: widened), a block of them copied to a small buffer with a better stride
 *   blocks: 256 of K, 48 rows, 4 panels: half a panel's block stays in level 1, the rest in level 2. Sums so
 *           far wait in C, which changes no bit. The next block of panel is prefetched, a line a step
 *
 * Cost of a step of K at 6 x 16: 12 FMAs against 2 panel loads and 6 broadcasts; bf16 adds 2 shifts or masks.
 * Few rows are left to avx2_few.c. Sums that end in an activation are computed to a buffer first.
 */
#include <immintrin.h>

#include "kern/avx2/avx2.h"
#include "kern/avx2/avx2_tile.h"
#include "tensor/dtype.h"

enum {
    ROWS = AVX2_ROWS,
    COLS = 2,        /* registers of a tile's row */
    DEPTH = 256,     /* of a block of K */
    BLOCK_ROWS = 48, /* rows of A in the buffer; a multiple of ROWS */
    BLOCK_PANELS = 4,
    STRIDE = DEPTH + 16, /* floats between buffered rows, or they would fall into one set of the cache */
    END_ROWS = 256,      /* whose sums wait for their activation: 128 KB, */
    END_SUMS = END_ROWS * BLOCK_PANELS * KERN_NR,
};

/* One block: the depth [k0, k0 + depth) of K. */
struct block {
    const struct kern_gemm *g;
    size_t k0, depth;
    bool first, last; /* begins the sums; ends them, so the bias is added */
    float *a;         /* the buffer */
};

/* A tile's place in C, and what to ask memory for meanwhile. */
struct place {
    float *c;
    const float *bias; /* NULL: none now */
    size_t left;       /* columns that exist from here */
    bool first;
    const char *next; /* this tile's share of the next block of panel */
    size_t next_step; /* bytes of it a row of B */
};

/* The sums so far of a tile: zeros, or what waits in C. */
AVX2_INLINE void load_tile(__m256 acc[ROWS][4], const struct place *p, size_t ldc, int rows)
{
    AVX2_UNROLL
    for (int r = 0; r < ROWS; r++) {
        if (r >= rows)
            break;
        AVX2_UNROLL
        for (int v = 0; v < COLS; v++) {
            if (p->first || p->left <= 8 * (size_t)v)
                acc[r][v] = _mm256_setzero_ps();
            else
                acc[r][v] = avx2_get(p->c + (size_t)r * ldc + 8 * v, p->left - 8 * (size_t)v);
        }
    }
}

AVX2_INLINE void store_tile(__m256 acc[ROWS][4], const struct place *p, size_t ldc, int rows)
{
    AVX2_UNROLL
    for (int v = 0; v < COLS; v++) {
        __m256 bias = _mm256_setzero_ps();

        if (p->left <= 8 * (size_t)v)
            break;
        if (p->bias)
            bias = avx2_get(p->bias + 8 * v, p->left - 8 * (size_t)v);
        AVX2_UNROLL
        for (int r = 0; r < ROWS; r++) {
            if (r >= rows)
                break;
            if (p->bias)
                acc[r][v] = _mm256_add_ps(acc[r][v], bias);
            avx2_put(p->c + (size_t)r * ldc, 8 * (size_t)v, acc[r][v], p->left - 8 * (size_t)v);
        }
    }
}

/* B points at the tile's first column in the first row of the block; ROWS, COLS (registers), STRIDE, BF16 are
 * constants. */
AVX2_INLINE void tile(const struct place *p, size_t ldc, const float *a, const char *b, size_t depth,
                      int rows, bool bf16)
{
    const size_t line = KERN_NR * sizeof(float); /* of a row of fp32, and of a pair of rows of bf16 */
    const char *again = b, *next = p->next;
    __m256 acc[ROWS][4];

    /* The pairs are read twice. The compiler must not know, or it keeps them in registers and sums in memory.
     * */
    __asm__("" : "+r"(again));
    load_tile(acc, p, ldc, rows);
    for (size_t k = 0; k + bf16 < depth; k += 1 + bf16, b += line, again += line) {
        _mm_prefetch(next, _MM_HINT_T1);
        next += p->next_step;
        if (!bf16) {
            avx2_step(acc, b, AVX2_WHOLE, a + k, STRIDE, rows, COLS);
        } else {
            avx2_step(acc, b, AVX2_LOWER, a + k, STRIDE, rows, COLS);
            avx2_step(acc, again, AVX2_UPPER, a + k + 1, STRIDE, rows, COLS);
        }
    }
    if (bf16 && depth % 2)
        avx2_step(acc, b, AVX2_LOWER, a + depth - 1, STRIDE, rows, COLS);
    store_tile(acc, p, ldc, rows);
}

typedef void tile_fn(const struct place *p, size_t ldc, const float *a, const char *b, size_t depth);

#define TILE(NAME, ROWS_, BF16_)                                                                     \
    static void NAME(const struct place *p, size_t ldc, const float *a, const char *b, size_t depth) \
    {                                                                                                \
        tile(p, ldc, a, b, depth, ROWS_, BF16_);                                                     \
    }
TILE(f32_3, 3, false)
TILE(f32_4, 4, false)
TILE(f32_5, 5, false)
TILE(f32_6, 6, false)
TILE(bf16_3, 3, true)
TILE(bf16_4, 4, true)
TILE(bf16_5, 5, true)
TILE(bf16_6, 6, true)
#undef TILE

static tile_fn *const tiles[2][ROWS + 1] = {{NULL, NULL, NULL, f32_3, f32_4, f32_5, f32_6},
                                            {NULL, NULL, NULL, bf16_3, bf16_4, bf16_5, bf16_6}};

/* Panel P from row K on. */
AVX2_INLINE const char *panel(const struct kern_gemm *g, size_t p, size_t k, bool bf16)
{
    size_t rows = bf16 ? (g->k + 1) / 2 : g->k, row = bf16 ? k / 2 : k;

    return (const char *)g->b + ((p - g->first) * rows + row) * KERN_NR * sizeof(float);
}

/* The place of the tile at row R, column COL. */
AVX2_INLINE struct place place_at(const struct block *o, size_t r, size_t col)
{
    const struct kern_gemm *g = o->g;

    return (struct place){
        .c = g->c + r * g->ldc + col,
        .bias = o->last && g->bias ? g->bias + col : NULL,
        .left = g->n - col,
        .first = o->first,
    };
}

/* The block that comes after panel P's of the panels [p0, p1). */
AVX2_INLINE const char *after(const struct block *o, size_t p, size_t p0, size_t p1, bool bf16)
{
    if (p + 1 < p1)
        return panel(o->g, p + 1, o->k0, bf16);
    return o->last ? panel(o->g, p + 1, 0, bf16) : panel(o->g, p0, o->k0 + o->depth, bf16);
}

/* Rows [r, r + rows), 4 or more, in tiles that are as equal as can be: 4 to 6 rows, and 4 + 3 for 7. */
AVX2_INLINE void run(const struct block *o, size_t r, size_t rows, size_t p0, size_t p1, bool bf16)
{
    const size_t half_bytes = KERN_NR / 2 * sizeof(float), n_tiles = (rows + ROWS - 1) / ROWS;
    const size_t share = (o->depth + bf16) / (1 + bf16) * half_bytes / n_tiles;

    avx2_copy_rows(o->a, STRIDE, (const float *)o->g->in + r * o->g->k + o->k0, o->g->k, rows, o->depth);
    for (size_t p = p0; p < p1; p++) {
        const char *b = panel(o->g, p, o->k0, bf16), *next = after(o, p, p0, p1, bf16);

        for (size_t at = 0; at < KERN_NR && p * KERN_NR + at < o->g->n; at += KERN_NR / 2)
            for (size_t i = 0, t = n_tiles, n; i < rows; i += n, t--) {
                struct place place = place_at(o, r + i, p * KERN_NR + at);

                place.next = next;
                place.next_step = half_bytes / n_tiles;
                next += share;
                n = (rows - i + t - 1) / t;
                tiles[bf16][n](&place, o->g->ldc, o->a + i * STRIDE, b + at * sizeof(float), o->depth);
            }
    }
}

AVX2_INLINE void gemm(const struct kern_gemm *g, size_t p0, size_t p1, bool bf16)
{
    float a[BLOCK_ROWS * STRIDE] __attribute__((aligned(64)));
    size_t blocks = (g->m + BLOCK_ROWS - 1) / BLOCK_ROWS;

    for (size_t p = p0; p < p1; p += BLOCK_PANELS)
        for (size_t k = 0; k == 0 || k < g->k; k += DEPTH) {
            struct block o = {
                .g = g,
                .k0 = k,
                .depth = g->k - k < DEPTH ? g->k - k : DEPTH,
                .first = k == 0,
                .last = g->k - k <= DEPTH,
                .a = a,
            };

            /* Equal blocks, so that none has too few rows for a tile. */
            for (size_t r = 0, n, i = blocks; r < g->m; r += n, i--) {
                n = (g->m - r + i - 1) / i;
                run(&o, r, n, p, p1 - p < BLOCK_PANELS ? p1 : p + BLOCK_PANELS, bf16);
            }
        }
}

/* One vector of N floats, rounded to bf16 where it is one, into an input. */
AVX2_INLINE void put(float *to, const float *x, size_t n, bool bf16)
{
    if (!bf16) {
        memcpy(to, x, n * sizeof(*x));
        return;
    }
    for (size_t i = 0; i < n; i += 8)
        avx2_put(to, i, _mm256_castsi256_ps(_mm256_slli_epi32(avx2_round_bf16(avx2_get(x + i, n - i)), 16)),
                 n - i);
}

void avx2_gemm_in_f32(void *in, const float *x, size_t row, size_t m, size_t k)
{
    (void)m;
    put((float *)in + row * k, x, k, false);
}

void avx2_gemm_in_bf16(void *in, const float *x, size_t row, size_t m, size_t k)
{
    (void)m;
    put((float *)in + row * k, x, k, true);
}

AVX2_INLINE void sums(const struct kern_gemm *g, size_t p0, size_t p1, bool bf16)
{
    if (g->m > (size_t)(bf16 ? AVX2_FEW_MOST_BF16 : AVX2_FEW_MOST_F32))
        gemm(g, p0, p1, bf16);
    else if (g->m > 0 && bf16)
        avx2_few_bf16(g, p0, p1);
    else if (g->m > 0)
        avx2_few_f32(g, p0, p1);
}

/* The sums of N panels from P on, of all rows of G, to the input that they become. */
static void activate(const struct kern_gemm *g, size_t p, size_t n, float *out, size_t width, bool bf16)
{
    const size_t each = g->end == KERN_GLU ? KERN_PAIRS : KERN_NR;

    for (size_t r = 0; r < g->m; r++) {
        float *y = g->c + r * g->ldc, *to = out + r * width + p * each;
        size_t left = width - p * each < n * each ? width - p * each : n * each;

        if (g->end == KERN_GLU)
            for (size_t i = 0; i < n; i++)
                avx2_glu(y + i * each, y + i * KERN_NR, y + i * KERN_NR + each, each, g->act);
        else
            avx2_act(y, y, left, g->act);
        put(to, y, left, bf16);
    }
}

/* Some rows and panels at a time, so that their sums fit a buffer. */
AVX2_INLINE void end_in_input(const struct kern_gemm *g, size_t p0, size_t p1, bool bf16)
{
    float c[END_SUMS] __attribute__((aligned(64)));
    const size_t rows = g->m < END_ROWS ? g->m : END_ROWS;
    const size_t panels = rows ? END_SUMS / (rows * KERN_NR) / BLOCK_PANELS * BLOCK_PANELS : 1;

    for (size_t p = p0, n; p < p1; p += n) {
        n = p1 - p < panels ? p1 - p : panels;
        for (size_t r = 0; r < g->m; r += rows) {
            struct kern_gemm part = *g;

            part.in = (const float *)g->in + r * g->k;
            part.b = panel(g, p, 0, bf16);
            part.c = c;
            part.ldc = n * KERN_NR;
            part.bias = g->bias ? g->bias + p * KERN_NR : NULL;
            part.m = g->m - r < rows ? g->m - r : rows;
            part.n =
                g->end == KERN_GLU || g->n - p * KERN_NR > n * KERN_NR ? n * KERN_NR : g->n - p * KERN_NR;
            part.first = 0;
            sums(&part, 0, n, bf16);
            activate(&part, p, n, (float *)g->out + r * g->n, g->n, bf16);
        }
    }
}

void avx2_gemm_f32(const struct kern_gemm *g, size_t p0, size_t p1)
{
    if (g->end == KERN_SUMS)
        sums(g, p0, p1, false);
    else
        end_in_input(g, p0, p1, false);
}

void avx2_gemm_bf16(const struct kern_gemm *g, size_t p0, size_t p1)
{
    if (g->end == KERN_SUMS)
        sums(g, p0, p1, true);
    else
        end_in_input(g, p0, p1, true);
}
