/* amx_gemm_bf16.c - C = A x W with TDPBF16PS: class "bf16 tile dot", blocks of 32 of K ascending.
 *
 *   panel  [K / 2][32][2] bf16: 16 pairs of k of 16 columns are a tile of B
 *   A      16 pairs of k of 16 rows are a tile
 *   sums   2 x 2 tiles, bias last
 *
 * A turn takes four products, 64 cycles on Sapphire and Granite Rapids (3.3 TFLOP/s a core at 3.3 GHz), and
 * four loads of 1 KB: those of A come from level 2, those of the panel from level 1.
 */
#include "kern/amx/amx_few.h"

enum { FEW = 2 }; /* rows that take panels by vectors */

void KERN_NAME(amx_gemm_in_bf16)(void *in, const float *x, size_t row, size_t m, size_t k)
{
    amx_gemm_put(in, x, row, m, k, AVX512_DOT);
}

SIMD512_INLINE void few_panel(const struct kern_gemm *g, const char *b, float *sums, int rows)
{
    const uint32_t *a = g->in;
    __m512 acc[AMX_FEW][2];

    amx_few_take(g->onto ? sums : NULL, acc, rows);
    for (size_t left = (g->k + 1) / 2, n; left > 0; left -= n, a += (size_t)rows * AMX_WORDS) {
        struct amx_few_line line;
        struct amx_few_block s;

        n = left < AMX_WORDS ? left : AMX_WORDS;
        amx_few_read(&line, &s, a, rows);
        amx_few_pairs(&s, &line, b, n, rows);
        amx_few_join(acc, &s, rows);
        b += n * AVX512_GEMM_STEP;
    }
    amx_few_keep(sums, acc, rows);
}

static void few(const struct kern_gemm *g, size_t p0, size_t p1)
{
    const size_t bytes = (kern_gemm_panel_k(g) + 1) / 2 * AVX512_GEMM_STEP;
    const struct avx512_gemm_rows rows = {0, g->m};
    float sums[FEW * KERN_NR] __attribute__((aligned(64)));

    for (size_t p = p0; p < p1; p++) {
        const char *b = (const char *)g->b + (p - g->first) * bytes;
        unsigned before;

        if (g->onto)
            avx512_gemm_load(g, p, rows, sums);
        before = amx_few_begin();
        if (g->m == 1)
            few_panel(g, b, sums, 1);
        else
            few_panel(g, b, sums, 2);
        amx_few_end(before);
        avx512_gemm_end(g, p, rows, sums, AVX512_DOT);
    }
}

void KERN_NAME(amx_gemm_bf16)(const struct kern_gemm *g, size_t p0, size_t p1)
{
    if (g->m > 0 && g->m <= FEW)
        few(g, p0, p1);
    else
        amx_gemm_drive(g, p0, p1, AVX512_DOT);
}
