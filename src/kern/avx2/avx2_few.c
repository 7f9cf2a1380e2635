/* avx2_few.c - C = A x W^T + bias for few rows: three panels are read at once, as three streams.
 *
 * The prefetchers of the processor run a third further ahead with three streams than with one (Zen 3);
 * software prefetching only disturbs them there. With one row of A, the loop reads a line of each panel in
 * turn and has the sums of all three panels in registers. With more rows, it reads a piece of 1 KB of each
 * panel in turn and keeps the sums in a small array meanwhile. The order of the sums is that of ref_gemm.c.
 */
#include <immintrin.h>

#include "kern/avx2/avx2.h"
#include "kern/avx2/avx2_tile.h"

enum {
    STREAMS = 3,
    LINE = KERN_NR * sizeof(float), /* bytes of a row of fp32, and of a pair of rows of bf16 */
    PIECE = 8,                      /* lines that are read from one stream before the next */
    STRIDE = AVX2_GEMM_LINE,        /* floats between rows of A */
};

/* The sums of a stream (a panel), [rows][32]. */
typedef float sums_of[AVX2_FEW_MOST_F32][KERN_NR];

/* Multiplies ROWS rows of A with the next DEPTH k of each of N panels and adds the products to SUMS, for COLS
 * registers of columns from column AT on. AT and the arguments after it are constants at every call. */
AVX2_INLINE void piece(sums_of *sums, const float *a, const char *const *b, size_t depth, size_t at, int rows,
                       int n, int cols, bool bf16)
{
    __m256 acc[STREAMS][AVX2_ROWS][4];
    const char *p[STREAMS], *again[STREAMS];

    AVX2_UNROLL
    for (int s = 0; s < STREAMS; s++) {
        if (s >= n)
            break;
        p[s] = again[s] = b[s] + at * sizeof(float);
        /* A pair of bf16 is loaded twice, once for each element. The compiler must not see that both
         * addresses are equal; otherwise it would load once and run out of registers. */
        __asm__("" : "+r"(again[s]));
        AVX2_UNROLL
        for (int r = 0; r < AVX2_ROWS; r++) {
            AVX2_UNROLL
            for (int v = 0; v < 4; v++)
                if (r < rows && v < cols)
                    acc[s][r][v] = _mm256_loadu_ps(&sums[s][r][at + 8 * (size_t)v]);
        }
    }
    for (size_t k = 0; k + bf16 < depth; k += 1 + bf16) {
        AVX2_UNROLL
        for (int s = 0; s < STREAMS; s++) {
            if (s >= n)
                break;
            if (!bf16) {
                avx2_step(acc[s], p[s], AVX2_WHOLE, a + k, STRIDE, rows, cols);
            } else {
                avx2_step(acc[s], p[s], AVX2_LOWER, a + k, STRIDE, rows, cols);
                avx2_step(acc[s], again[s], AVX2_UPPER, a + k + 1, STRIDE, rows, cols);
            }
            p[s] += LINE;
            again[s] += LINE;
        }
    }
    AVX2_UNROLL
    for (int s = 0; s < STREAMS; s++) {
        if (s >= n)
            break;
        if (bf16 && depth % 2)
            avx2_step(acc[s], p[s], AVX2_LOWER, a + depth - 1, STRIDE, rows, cols);
        AVX2_UNROLL
        for (int r = 0; r < AVX2_ROWS; r++) {
            AVX2_UNROLL
            for (int v = 0; v < 4; v++)
                if (r < rows && v < cols)
                    _mm256_storeu_ps(&sums[s][r][at + 8 * (size_t)v], acc[s][r][v]);
        }
    }
}

typedef void piece_fn(sums_of *sums, const float *a, const char *const *b, size_t depth);

/* Define functions that call piece() with constants: WIDE with the sums of all 32 columns in registers,
 * HALVES for the left 16 columns, then for the right 16. */
#define WIDE(NAME, ROWS, N, BF16)                                                       \
    static void NAME(sums_of *sums, const float *a, const char *const *b, size_t depth) \
    {                                                                                   \
        piece(sums, a, b, depth, 0, ROWS, N, 4, BF16);                                  \
    }
#define HALVES(NAME, ROWS, BF16)                                                        \
    static void NAME(sums_of *sums, const float *a, const char *const *b, size_t depth) \
    {                                                                                   \
        piece(sums, a, b, depth, 0, ROWS, 1, 2, BF16);                                  \
        piece(sums, a, b, depth, KERN_NR / 2, ROWS, 1, 2, BF16);                        \
    }
WIDE(f32_1x1, 1, 1, false)
WIDE(f32_1x2, 1, 2, false)
WIDE(f32_1x3, 1, 3, false)
WIDE(f32_2, 2, 1, false)
WIDE(f32_3, 3, 1, false)
HALVES(f32_4, 4, false)
HALVES(f32_5, 5, false)
HALVES(f32_6, 6, false)
WIDE(bf16_1x1, 1, 1, true)
WIDE(bf16_1x2, 1, 2, true)
WIDE(bf16_1x3, 1, 3, true)
WIDE(bf16_2, 2, 1, true)
WIDE(bf16_3, 3, 1, true)
HALVES(bf16_4, 4, true)
#undef WIDE
#undef HALVES

/* The functions for fp32 [0] and bf16 [1]: of_streams by the number of streams, for one row; of_rows by the
 * number of rows, for one stream. */
static piece_fn *const of_streams[2][STREAMS + 1] = {{NULL, f32_1x1, f32_1x2, f32_1x3},
                                                     {NULL, bf16_1x1, bf16_1x2, bf16_1x3}};
static piece_fn *const of_rows[2][AVX2_FEW_MOST_F32 + 1] = {
    {NULL, f32_1x1, f32_2, f32_3, f32_4, f32_5, f32_6}, {NULL, bf16_1x1, bf16_2, bf16_3, bf16_4}};

/* Multiplies the M rows of the input A, a single tile, with N panels over all of K, PIECE lines of each panel
 * in turn. */
AVX2_INLINE void streams(sums_of *sums, const float *a, const char *const *b, size_t n, size_t m, size_t k,
                         bool bf16)
{
    const size_t step = PIECE * (1 + bf16);

    if (m == 1) {
        of_streams[bf16][n](sums, a, b, k);
        return;
    }
    for (size_t i = 0; i < k; i += step)
        for (size_t s = 0; s < n; s++) {
            const char *at = b[s] + i / (1 + bf16) * LINE;

            of_rows[bf16][m](&sums[s], a + i / AVX2_GEMM_LINE * m * AVX2_GEMM_LINE + i % AVX2_GEMM_LINE, &at,
                             k - i < step ? k - i : step);
        }
}

AVX2_INLINE void few(const struct kern_gemm *g, size_t p0, size_t p1, bool bf16)
{
    sums_of sums[STREAMS] __attribute__((aligned(64)));
    const size_t panel_bytes = (kern_gemm_panel_k(g) + bf16) / (1 + bf16) * LINE;
    const char *b[STREAMS];

    for (size_t p = p0, n; p < p1; p += n) {
        n = p1 - p < STREAMS ? p1 - p : STREAMS;
        for (size_t s = 0; s < n; s++) {
            avx2_gemm_begin(g, p + s, 0, g->m, sums[s][0]);
            b[s] = (const char *)g->b + (p + s - g->first) * panel_bytes;
        }
        streams(sums, g->in, b, n, g->m, g->k, bf16);
        for (size_t s = 0; s < n; s++)
            avx2_gemm_end(g, p + s, 0, g->m, sums[s][0], bf16);
    }
}

void avx2_few_f32(const struct kern_gemm *g, size_t p0, size_t p1)
{
    few(g, p0, p1, false);
}

void avx2_few_bf16(const struct kern_gemm *g, size_t p0, size_t p1)
{
    few(g, p0, p1, true);
}
