/* avx2_attn.c - one chunk of attention for up to 24 query rows at once: scores, softmax, weighted values.
 *
 *   scores  sixteen tokens of a tile are two registers a row, so there are no horizontal sums. 4 to 6 rows x
 *           1 tile; fewer rows take 2 or 4 tiles at once to hide the latency of the FMA. A row's dots lie in
 *           scratch [row][256]
 *   softmax row by row: scale, softcap, mask, maximum, exp, 16-lane sum; the weights replace the dots
 *   values  tile by tile, sums in `out`, dims in lanes: 16 tokens of a 6 x 16 or 3 x 32 tile of sums
 *   q       is copied to fp32 rows at a fixed distance, 256 dims at a time
 *   bf16    weights are rounded to bf16 and widened again
 *
 * Tiles outside of every row's [lo, hi) are not read. In the others a masked token has the weight +0 and is
 * worked on like the rest. The next tile is prefetched while one is in work, so that decoding runs at the
 * speed of memory.
 */
#include <immintrin.h>

#include "kern/avx2/avx2.h"
#include "kern/avx2/avx2_tile.h"

enum {
    STRIDE = KERN_CHUNK, /* floats between rows of dots */
    TILE_REGS = KERN_TILE / 8,
    MOST_TILES = 4,
    DIMS = 256, /* of q in the copy */
    Q_STRIDE = DIMS + 16,
};

/* Rows of one call, at most KERN_ATTN_ROWS, and the tiles [t0, t1) that they see. */
struct work {
    const struct kern_attn *a;
    size_t row, rows, t0, t1;
    float *q; /* [rows][Q_STRIDE] copy of the dims [d0, d0 + dims) */
    size_t d0, dims;
    float *p; /* [rows][STRIDE] dots, then weights */
};

/* Adds to the dots of ROWS rows with the tiles [t, t + N) what the copied dims give. Beyond the last tile the
 * last is worked on again, with the same result. */
AVX2_INLINE void dots(const struct work *o, size_t t, size_t row, int rows, int n, bool bf16)
{
    const size_t first = o->d0 / (1 + bf16) * KERN_TILE * sizeof(float);
    const char *k[MOST_TILES], *next[MOST_TILES];
    const float *q = o->q + row * Q_STRIDE;
    float *p[MOST_TILES];
    __m256 acc[MOST_TILES][AVX2_ROWS][4];

    AVX2_UNROLL
    for (int i = 0; i < MOST_TILES; i++) {
        size_t mine = t + (size_t)i < o->t1 ? t + (size_t)i : o->t1 - 1;

        if (i >= n)
            break;
        k[i] = (const char *)o->a->k_tile[mine] + first;
        next[i] = mine + (size_t)n < o->t1 ? o->a->k_tile[mine + (size_t)n] : o->a->v_tile[o->t0];
        next[i] += first;
        p[i] = o->p + row * STRIDE + mine * KERN_TILE;
        AVX2_UNROLL
        for (int r = 0; r < AVX2_ROWS; r++)
            if (r < rows) {
                acc[i][r][0] = _mm256_loadu_ps(p[i] + r * STRIDE);
                acc[i][r][1] = _mm256_loadu_ps(p[i] + r * STRIDE + 8);
            }
    }
    for (size_t d = 0; d < o->dims; d += 1 + bf16) {
        const size_t at = d / (1 + bf16) * KERN_TILE * sizeof(float);

        AVX2_UNROLL
        for (int i = 0; i < MOST_TILES; i++) {
            if (i >= n)
                break;
            _mm_prefetch(next[i] + at, _MM_HINT_T0);
            if (!bf16) {
                avx2_step(acc[i], k[i] + at, AVX2_WHOLE, q + d, Q_STRIDE, rows, TILE_REGS);
            } else {
                avx2_step(acc[i], k[i] + at, AVX2_LOWER, q + d, Q_STRIDE, rows, TILE_REGS);
                avx2_step(acc[i], k[i] + at, AVX2_UPPER, q + d + 1, Q_STRIDE, rows, TILE_REGS);
            }
        }
    }
    AVX2_UNROLL
    for (int i = 0; i < MOST_TILES; i++) {
        if (i >= n)
            break;
        AVX2_UNROLL
        for (int r = 0; r < AVX2_ROWS; r++)
            if (r < rows) {
                _mm256_storeu_ps(p[i] + r * STRIDE, acc[i][r][0]);
                _mm256_storeu_ps(p[i] + r * STRIDE + 8, acc[i][r][1]);
            }
    }
}

typedef void dots_fn(const struct work *o, size_t t, size_t row);

#define DOTS(NAME, ROWS, N, BF16)                                \
    static void NAME(const struct work *o, size_t t, size_t row) \
    {                                                            \
        dots(o, t, row, ROWS, N, BF16);                          \
    }
DOTS(dots_f32_1, 1, 4, false)
DOTS(dots_f32_2, 2, 2, false)
DOTS(dots_f32_3, 3, 1, false)
DOTS(dots_f32_4, 4, 1, false)
DOTS(dots_f32_5, 5, 1, false)
DOTS(dots_f32_6, 6, 1, false)
DOTS(dots_bf16_1, 1, 4, true)
DOTS(dots_bf16_2, 2, 2, true)
DOTS(dots_bf16_3, 3, 1, true)
DOTS(dots_bf16_4, 4, 1, true)
DOTS(dots_bf16_5, 5, 1, true)
DOTS(dots_bf16_6, 6, 1, true)
#undef DOTS

static dots_fn *const dots_of[2][AVX2_ROWS + 1] = {
    {NULL, dots_f32_1, dots_f32_2, dots_f32_3, dots_f32_4, dots_f32_5, dots_f32_6},
    {NULL, dots_bf16_1, dots_bf16_2, dots_bf16_3, dots_bf16_4, dots_bf16_5, dots_bf16_6},
};

/* How many rows the next tile of sums takes of those left: as equal as can be. */
static size_t share(size_t left)
{
    size_t n = (left + AVX2_ROWS - 1) / AVX2_ROWS;

    return (left + n - 1) / n;
}

AVX2_INLINE void scores(const struct work *o, bool bf16)
{
    size_t step = o->rows == 1 ? 4 : o->rows == 2 ? 2 : 1;

    avx2_copy_rows(o->q, Q_STRIDE, o->a->q, o->row * o->a->dp + o->d0, o->a->dp, o->rows, o->dims, false);
    for (size_t t = o->t0; t < o->t1; t += step)
        for (size_t r = 0, n; r < o->rows; r += n) {
            n = share(o->rows - r);
            dots_of[bf16][n](o, t, r);
        }
}

/* The sixteen scores of tile T from their dots; -infinity where the row sees nothing. */
AVX2_INLINE void score(const struct kern_attn *a, float *p, size_t t, ptrdiff_t lo, ptrdiff_t hi)
{
    const __m256 none = _mm256_set1_ps(-INFINITY), cap = _mm256_set1_ps(a->softcap);

    AVX2_UNROLL
    for (int v = 0; v < TILE_REGS; v++) {
        ptrdiff_t first = (ptrdiff_t)(t * KERN_TILE) + 8 * v;
        __m256 s = _mm256_mul_ps(_mm256_set1_ps(a->scale), _mm256_loadu_ps(p + first));
        __m256i seen = _mm256_andnot_si256(avx2_first(lo - first), avx2_first(hi - first));

        if (a->softcap > 0)
            s = _mm256_mul_ps(cap, avx2_tanh(_mm256_div_ps(s, cap)));
        _mm256_storeu_ps(p + first, _mm256_blendv_ps(none, s, _mm256_castsi256_ps(seen)));
    }
}

/* Turns the dots of row R into weights, and gives its maximum and sum. */
AVX2_INLINE void weigh(const struct work *o, size_t r, bool bf16)
{
    const struct kern_attn *a = o->a;
    const ptrdiff_t lo = a->lo[o->row + r], hi = a->hi[o->row + r];
    const __m256i upper = _mm256_set1_epi32((int)0xffff0000u);
    float *p = o->p + r * STRIDE, most;
    __m256 m[TILE_REGS], sum[TILE_REGS], max;

    m[0] = m[1] = _mm256_set1_ps(-INFINITY);
    sum[0] = sum[1] = _mm256_setzero_ps();
    for (size_t t = o->t0; t < o->t1; t++) {
        score(a, p, t, lo, hi);
        for (int v = 0; v < TILE_REGS; v++)
            m[v] = _mm256_max_ps(_mm256_loadu_ps(p + t * KERN_TILE + 8 * v), m[v]);
    }
    most = avx2_fold_max(_mm256_max_ps(m[0], m[1])) + 0.0f;
    a->max[o->row + r] = most;
    a->sum[o->row + r] = 0;
    if (lo >= hi) { /* or its weights would be exp(-infinity + infinity) */
        memset(p + o->t0 * KERN_TILE, 0, (o->t1 - o->t0) * KERN_TILE * sizeof *p);
        return;
    }
    max = _mm256_set1_ps(most);
    for (size_t t = o->t0; t < o->t1; t++)
        for (int v = 0; v < TILE_REGS; v++) {
            float *to = p + t * KERN_TILE + 8 * v;
            __m256 e = avx2_exp(_mm256_sub_ps(_mm256_loadu_ps(to), max));

            sum[v] = _mm256_add_ps(sum[v], e);
            if (bf16) {
                __m256i h = _mm256_slli_epi32(avx2_round_bf16(e), 16);

                e = _mm256_castsi256_ps(_mm256_and_si256(h, upper));
            }
            _mm256_storeu_ps(to, e);
        }
    a->sum[o->row + r] = avx2_fold(sum[0], sum[1]);
}

/* out += weights x values for the tile T, ROWS rows and COLS registers from dim D on. */
AVX2_INLINE void values(const struct work *o, size_t t, size_t row, size_t d, int rows, int cols, bool bf16)
{
    const size_t dp = o->a->dp, line = dp * sizeof(float); /* of a token, or of two tokens of bf16 */
    const char *v = (const char *)o->a->v_tile[t] + d * sizeof(float);
    const char *next = (const char *)o->a->v_tile[t + 1 < o->t1 ? t + 1 : t] + d * (bf16 ? 2 : 4) * KERN_TILE;
    const float *p = o->p + row * STRIDE + t * KERN_TILE;
    float *out = o->a->out + (o->row + row) * dp + d;
    __m256 acc[AVX2_ROWS][4];

    AVX2_UNROLL
    for (int r = 0; r < AVX2_ROWS; r++) {
        if (r >= rows)
            break;
        AVX2_UNROLL
        for (int c = 0; c < 4; c++)
            if (c < cols)
                acc[r][c] = _mm256_loadu_ps(out + (size_t)r * dp + 8 * c);
    }
    for (int i = 0; i < KERN_TILE; i += 1 + bf16, v += line, next += cols == 4 ? 128 : 64) {
        _mm_prefetch(next, _MM_HINT_T0);
        if (cols == 4)
            _mm_prefetch(next + 64, _MM_HINT_T0);
        if (!bf16) {
            avx2_step(acc, v, AVX2_WHOLE, p + i, STRIDE, rows, cols);
        } else {
            avx2_step(acc, v, AVX2_LOWER, p + i, STRIDE, rows, cols);
            avx2_step(acc, v, AVX2_UPPER, p + i + 1, STRIDE, rows, cols);
        }
    }
    AVX2_UNROLL
    for (int r = 0; r < AVX2_ROWS; r++) {
        if (r >= rows)
            break;
        AVX2_UNROLL
        for (int c = 0; c < 4; c++)
            if (c < cols)
                _mm256_storeu_ps(out + (size_t)r * dp + 8 * c, acc[r][c]);
    }
}

/* All dims for one tile and ROWS rows: 32 at a time for few rows, 16 for more. */
AVX2_INLINE void all_values(const struct work *o, size_t t, size_t row, int rows, bool bf16)
{
    size_t d = 0;

    if (rows <= AVX2_FEW_ROWS)
        for (; d + 32 <= o->a->dp; d += 32)
            values(o, t, row, d, rows, 4, bf16);
    for (; d < o->a->dp; d += 16)
        values(o, t, row, d, rows, 2, bf16);
}

typedef void values_fn(const struct work *o, size_t t, size_t row);

#define VALUES(NAME, ROWS, BF16)                                 \
    static void NAME(const struct work *o, size_t t, size_t row) \
    {                                                            \
        all_values(o, t, row, ROWS, BF16);                       \
    }
VALUES(values_f32_1, 1, false)
VALUES(values_f32_2, 2, false)
VALUES(values_f32_3, 3, false)
VALUES(values_f32_4, 4, false)
VALUES(values_f32_5, 5, false)
VALUES(values_f32_6, 6, false)
VALUES(values_bf16_1, 1, true)
VALUES(values_bf16_2, 2, true)
VALUES(values_bf16_3, 3, true)
VALUES(values_bf16_4, 4, true)
VALUES(values_bf16_5, 5, true)
VALUES(values_bf16_6, 6, true)
#undef VALUES

static values_fn *const values_of[2][AVX2_ROWS + 1] = {
    {NULL, values_f32_1, values_f32_2, values_f32_3, values_f32_4, values_f32_5, values_f32_6},
    {NULL, values_bf16_1, values_bf16_2, values_bf16_3, values_bf16_4, values_bf16_5, values_bf16_6},
};

/* The tiles that at least one of the rows sees. */
static void find_tiles(struct work *o)
{
    const int32_t *lo = o->a->lo + o->row, *hi = o->a->hi + o->row;
    int32_t from = INT32_MAX, to = 0;

    for (size_t r = 0; r < o->rows; r++)
        if (lo[r] < hi[r]) {
            from = lo[r] < from ? lo[r] : from;
            to = hi[r] > to ? hi[r] : to;
        }
    o->t0 = from < to ? (size_t)from / KERN_TILE : 0;
    o->t1 = from < to ? ((size_t)to + KERN_TILE - 1) / KERN_TILE : 0;
}

AVX2_INLINE void attend(const struct kern_attn *a, size_t row, size_t rows, bool bf16)
{
    float q[KERN_ATTN_ROWS * Q_STRIDE] __attribute__((aligned(64)));
    struct work o = {.a = a, .row = row, .rows = rows, .q = q, .p = a->scratch};
    float *out = a->out + row * a->dp;

    find_tiles(&o);
    for (size_t r = 0; r < rows; r++)
        memset(o.p + r * STRIDE + o.t0 * KERN_TILE, 0, (o.t1 - o.t0) * KERN_TILE * sizeof *o.p);
    for (o.d0 = 0; o.d0 < a->dp; o.d0 += DIMS) {
        o.dims = a->dp - o.d0 < DIMS ? a->dp - o.d0 : DIMS;
        scores(&o, bf16);
    }
    for (size_t r = 0; r < rows; r++)
        weigh(&o, r, bf16);
    memset(out, 0, rows * a->dp * sizeof *out);
    for (size_t t = o.t0; t < o.t1; t++)
        for (size_t r = 0, n; r < rows; r += n) {
            n = share(rows - r);
            values_of[bf16][n](&o, t, r);
        }
    for (size_t i = 0; i < rows * a->dp; i += 8)
        _mm256_storeu_ps(out + i, _mm256_add_ps(_mm256_loadu_ps(out + i), _mm256_setzero_ps()));
}

void avx2_attn_f32(const struct kern_attn *a)
{
    for (size_t r = 0; r < a->m; r += KERN_ATTN_ROWS)
        attend(a, r, a->m - r < KERN_ATTN_ROWS ? a->m - r : KERN_ATTN_ROWS, false);
}

void avx2_attn_bf16(const struct kern_attn *a)
{
    for (size_t r = 0; r < a->m; r += KERN_ATTN_ROWS)
        attend(a, r, a->m - r < KERN_ATTN_ROWS ? a->m - r : KERN_ATTN_ROWS, true);
}
