/* amx_mx4_bf16.c - C = A x W over MXFP4 panels, class "bf16 tile dot".
 *
 *   few   rows: a group of 32 k, which is what TDPBF16PS takes at once, is unpacked in registers and summed
 *         as the instruction does it, even and odd elements apart, by fused operations that know no denormals
 *   many  rows: a panel is unpacked to scratch, which stays in level 2, for the gemm of tiles
 */
#include "kern/amx/amx_few.h"
#include "kern/avx512/avx512_mx4.h"

/* What one block adds: [even, odd][row][side]. */
struct block {
    __m512 of[2][AMX_FEW][2];
};

/* Pair number PAIR of the block, of the 16 columns of SIDE. */
SIMD512_INLINE void add_pair(struct block *s, const struct amx_few_line *line, size_t pair, int side,
                             __m512 even, __m512 odd, int rows)
{
    SIMD512_UNROLL
    for (int r = 0; r < AMX_FEW; r++)
        if (r < rows) {
            s->of[0][r][side] =
                _mm512_fmadd_ps(_mm512_set1_ps(line->of[0][r][pair]), even, s->of[0][r][side]);
            s->of[1][r][side] = _mm512_fmadd_ps(_mm512_set1_ps(line->of[1][r][pair]), odd, s->of[1][r][side]);
        }
}

/* N pairs that lie as in a panel. */
SIMD512_INLINE void add_pairs(struct block *s, const struct amx_few_line *line, const char *b, size_t n,
                              int rows)
{
    SIMD512_LOOP
    for (size_t pair = 0; pair < n; pair++, b += AVX512_GEMM_STEP) {
        SIMD512_UNROLL
        for (int side = 0; side < 2; side++) {
            __m512i x = _mm512_loadu_si512(b + 64 * side);

            add_pair(s, line, pair, side, amx_few_half(x, 0), amx_few_half(x, 1), rows);
        }
    }
}

/* The block is whole. */
SIMD512_INLINE void join(__m512 acc[AMX_FEW][2], const struct block *s, int rows)
{
    SIMD512_UNROLL
    for (int r = 0; r < AMX_FEW; r++)
        if (r < rows) {
            acc[r][0] = _mm512_add_ps(acc[r][0], _mm512_add_ps(s->of[0][r][0], s->of[1][r][0]));
            acc[r][1] = _mm512_add_ps(acc[r][1], _mm512_add_ps(s->of[0][r][1], s->of[1][r][1]));
        }
}

/* Sums as the gemms keep them: [2][rows][16]. */
SIMD512_INLINE void keep(float *sums, __m512 acc[AMX_FEW][2], int rows)
{
    SIMD512_UNROLL
    for (int r = 0; r < AMX_FEW; r++)
        if (r < rows) {
            _mm512_storeu_ps(sums + 16 * r, acc[r][0]);
            _mm512_storeu_ps(sums + 16 * (rows + r), acc[r][1]);
        }
}

/* A group by multiplication with its scales, of which none may be 2^-127: it is no normal number. */
SIMD512_INLINE void add_scaled(struct block *s, const struct amx_few_line *line, const uint8_t *group,
                               int rows)
{
    const __m512 floats = avx512_mx4_floats();
    const __m512 scale[2] = {avx512_mx4_scale(group), avx512_mx4_scale(group + 16)};

    SIMD512_LOOP
    for (size_t l = 0; l < MX4_LINES; l++) {
        __m512i x = _mm512_loadu_si512(group + KERN_NR + l * MX4_LINE);

        SIMD512_UNROLL
        for (int j = 0; j < 4; j++) {
            __m512i nibbles = avx512_mx4_nibble(x, j);

            add_pair(s, line, 2 * l + (size_t)j / 2, j % 2,
                     avx512_mx4_element(nibbles, 0, scale[j % 2], floats),
                     avx512_mx4_element(nibbles, 1, scale[j % 2], floats), rows);
        }
    }
}

/* And any other, unpacked before. */
SIMD512_INLINE void add_unpacked(struct block *s, const struct amx_few_line *line, const uint8_t *group,
                                 int rows)
{
    char panel[MX4_BLOCK / 2 * AVX512_GEMM_STEP] __attribute__((aligned(64)));
    const unsigned mode = _mm_getcsr();

    _mm_setcsr(mode & ~(unsigned)AMX_FEW_NO_DENORMALS);
    avx512_mx4_group(panel, group, AVX512_DOT);
    _mm_setcsr(mode);
    add_pairs(s, line, panel, MX4_BLOCK / 2, rows);
}

SIMD512_INLINE void few_panel(const struct kern_gemm *g, const uint8_t *group, float *sums, int rows)
{
    const uint32_t *a = g->in;
    __m512 acc[AMX_FEW][2];

    SIMD512_UNROLL
    for (int r = 0; r < AMX_FEW; r++)
        if (r < rows)
            acc[r][0] = acc[r][1] = _mm512_setzero_ps();
    for (size_t i = 0; i < g->k / MX4_BLOCK; i++, group += MX4_GROUP, a += (size_t)rows * AMX_WORDS) {
        struct amx_few_line line;
        struct block s;

        SIMD512_UNROLL
        for (int r = 0; r < AMX_FEW; r++)
            if (r < rows)
                s.of[0][r][0] = s.of[0][r][1] = s.of[1][r][0] = s.of[1][r][1] = _mm512_setzero_ps();
        amx_few_read(&line, a, rows);
        if (__builtin_expect(avx512_mx4_has_least(group), 0))
            add_unpacked(&s, &line, group, rows);
        else
            add_scaled(&s, &line, group, rows);
        join(acc, &s, rows);
    }
    keep(sums, acc, rows);
}

static void few(const struct kern_gemm *g, size_t p0, size_t p1)
{
    float sums[AMX_FEW * KERN_NR] __attribute__((aligned(64)));

    for (size_t p = p0; p < p1; p++) {
        const uint8_t *group = mx4_groups(g, p);
        const unsigned before = amx_few_begin();

        if (g->m == 1)
            few_panel(g, group, sums, 1);
        else if (g->m == 2)
            few_panel(g, group, sums, 2);
        else if (g->m == 3)
            few_panel(g, group, sums, 3);
        else
            few_panel(g, group, sums, 4);
        amx_few_end(before);
        avx512_gemm_end(g, p, (struct avx512_gemm_rows){0, g->m}, sums, AVX512_DOT);
    }
}

void KERN_NAME(amx_gemm_mx4_bf16)(const struct kern_gemm *g, size_t p0, size_t p1, void *scratch)
{
    if (g->m > 0 && g->m <= AMX_FEW) {
        few(g, p0, p1);
        return;
    }
    for (size_t p = p0; p < p1; p++) {
        struct kern_gemm one = mx4_panel(g, p, scratch);

        avx512_mx4_unpack(scratch, mx4_groups(g, p), g->k / MX4_BLOCK, AVX512_DOT);
        KERN_NAME(amx_gemm_bf16)(&one, p, p + 1);
    }
}
