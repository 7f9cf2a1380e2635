/* amx_gemm_bf16.c - C = A x W with TDPBF16PS, in the arithmetic class "bf16 tile dot": K is summed in
 * ascending slices of 32.
 *
 *   panel  [K / 2][32][2] bf16: 16 pairs of k of 16 columns are an AMX tile B
 *   A      16 pairs of k of 16 rows are an AMX tile A
 *   sums   2 x 2 AMX tiles, bias last
 *
 * An iteration has four products, 64 cycles on Sapphire and Granite Rapids (3.3 TFLOP/s a core at 3.3 GHz),
 * and four loads of 1 KB: A comes from L2, the panel from L1.
 *
 * One or two rows are computed with vectors, in the order of summation of TDPBF16PS, because vectors read the
 * weights in the order of memory, which is faster than loading AMX tiles (Granite Rapids: 89 % against 78 %
 * of the memory bandwidth, one row on two threads). For each slice of 32 k, the even and the odd elements are
 * summed by fma from +0 each, both sums are added, and the result is added to the accumulator. Between
 * few_begin() and few_end(), subnormals count as zeros, as in TDPBF16PS.
 */
#include "kern/amx/amx_gemm.h"

enum {
    FEW = 2,              /* maximum number of rows that are computed with vectors */
    TOGETHER = 4,         /* maximum product of rows and panels that are computed at once */
    AHEAD = 1024,         /* bytes to prefetch ahead in each panel */
    NO_DENORMALS = 0x8040 /* bits of MXCSR: flush to zero, denormals are zeros */
};

/* One cache line of every row of A, widened to floats: [even or odd element of a pair][row][pair]. */
struct few_line {
    float of[2][FEW][AMX_WORDS];
};

/* Makes the thread treat subnormals as zeros. Returns the old MXCSR, which few_end() restores. */
SIMD512_INLINE unsigned few_begin(void)
{
    const unsigned before = _mm_getcsr();

    _mm_setcsr(before | NO_DENORMALS);
    return before;
}

SIMD512_INLINE void few_end(unsigned before)
{
    _mm_setcsr(before);
}

/* Widens one element of each of sixteen pairs of bf16 to float: the even element if ODD is 0, otherwise the
 * odd. */
SIMD512_INLINE __m512 few_half(__m512i pairs, int odd)
{
    return _mm512_castsi512_ps(odd ? _mm512_and_si512(pairs, _mm512_set1_epi32((int)0xffff0000u))
                                   : _mm512_slli_epi32(pairs, 16));
}

SIMD512_INLINE void few_read(struct few_line *line, const uint32_t *a, int rows)
{
    SIMD512_UNROLL
    for (int r = 0; r < FEW; r++)
        if (r < rows) {
            __m512i x = _mm512_loadu_si512(a + r * AMX_WORDS);

            _mm512_storeu_ps(line->of[0][r], few_half(x, 0));
            _mm512_storeu_ps(line->of[1][r], few_half(x, 1));
        }
}

/* The panels and rows that are computed at once; rows times panels are at most TOGETHER. */
struct few {
    const struct kern_gemm *g;
    const char *b; /* the first panel */
    size_t bytes;  /* bytes from one panel to the next */
    float sums[TOGETHER * KERN_NR]
        __attribute__((aligned(64))); /* [panels][left or right half of a panel][rows][16 columns] */
};

/* Multiplies N pairs of k, a slice or less, and adds the products to the sums of F. The weights of the first
 * panel begin at B; LINE has the elements of A. */
SIMD512_INLINE void few_slice(struct few *f, const struct few_line *line, const char *b, size_t n, int rows,
                              int panels)
{
    __m512 s[TOGETHER][2][2]; /* sums of the slice, [panel, row][left, right][even, odd] */

    SIMD512_UNROLL
    for (int i = 0; i < TOGETHER; i++)
        s[i][0][0] = s[i][0][1] = s[i][1][0] = s[i][1][1] = _mm512_setzero_ps();
    SIMD512_LOOP
    for (size_t pair = 0; pair < n; pair++, b += AVX512_GEMM_STEP) {
        SIMD512_UNROLL
        for (int i = 0; i < 2 * TOGETHER; i++) {
            const char *at = b + (size_t)(i / 2) * f->bytes + 64 * (i % 2);

            if (i / 2 < panels) {
                __m512i x = _mm512_loadu_si512(at);

                prefetch_line(at + AHEAD, false);
                SIMD512_UNROLL
                for (int r = 0; r < FEW; r++)
                    if (r < rows) {
                        __m512 *sum = s[i / 2 * rows + r][i % 2];

                        sum[0] =
                            _mm512_fmadd_ps(_mm512_set1_ps(line->of[0][r][pair]), few_half(x, 0), sum[0]);
                        sum[1] =
                            _mm512_fmadd_ps(_mm512_set1_ps(line->of[1][r][pair]), few_half(x, 1), sum[1]);
                    }
            }
        }
    }
    SIMD512_UNROLL
    for (int i = 0; i < 2 * TOGETHER; i++)
        if (i < 2 * rows * panels) {
            const int panel = i / (2 * rows), side = i / rows % 2, row = i % rows;
            const __m512 *sum = s[panel * rows + row][side];
            float *to = f->sums + 16 * i;

            _mm512_storeu_ps(to, _mm512_add_ps(_mm512_loadu_ps(to), _mm512_add_ps(sum[0], sum[1])));
        }
}

SIMD512_INLINE void few_panels(struct few *f, int rows, int panels)
{
    const uint32_t *a = f->g->in;
    const char *b = f->b;

    for (size_t left = (f->g->k + 1) / 2, n; left > 0; left -= n, a += (size_t)rows * AMX_WORDS) {
        struct few_line line;

        n = left < AMX_WORDS ? left : AMX_WORDS;
        few_read(&line, a, rows);
        few_slice(f, &line, b, n, rows, panels);
        b += n * AVX512_GEMM_STEP;
    }
}

static void few(const struct kern_gemm *g, size_t p0, size_t p1)
{
    const struct avx512_gemm_rows rows = {0, g->m};
    struct few f = {.g = g, .bytes = (kern_gemm_panel_k(g) + 1) / 2 * AVX512_GEMM_STEP};

    for (size_t p = p0, n; p < p1; p += n) {
        unsigned before;

        n = p1 - p < TOGETHER / g->m ? 1 : TOGETHER / g->m;
        f.b = (const char *)g->b + (p - g->first) * f.bytes;
        memset(f.sums, 0, sizeof(f.sums));
        for (size_t i = 0; i < n && g->onto; i++)
            avx512_gemm_load(g, p + i, rows, f.sums + i * g->m * KERN_NR);
        before = few_begin();
        if (g->m == 1 && n > 1)
            few_panels(&f, 1, 4);
        else if (g->m == 1)
            few_panels(&f, 1, 1);
        else if (n > 1)
            few_panels(&f, 2, 2);
        else
            few_panels(&f, 2, 1);
        few_end(before);
        for (size_t i = 0; i < n; i++)
            avx512_gemm_end(g, p + i, rows, f.sums + i * g->m * KERN_NR, AVX512_DOT);
    }
}

void KERN_NAME(amx_gemm_in_bf16)(void *in, const float *x, size_t row, size_t m, size_t k)
{
    amx_gemm_put(in, x, row, m, k, AVX512_DOT);
}

void KERN_NAME(amx_gemm_bf16)(const struct kern_gemm *g, size_t p0, size_t p1)
{
    if (g->m > 0 && g->m <= FEW)
        few(g, p0, p1);
    else
        amx_gemm_drive(g, p0, p1, AVX512_DOT);
}
