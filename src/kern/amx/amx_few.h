/* amx_few.h - what TDPBF16PS sums, by vectors: for few rows, whose one stream of weights is read faster in
 * the order of memory than by tiles (Granite Rapids: 89 and 78 % of what memory gives, one row on two
 * threads).
 *
 * A block is 32 of K: 16 pairs of each of 32 columns. Its even and its odd elements are summed apart from +0
 * by fused operations, both are added, and then the block to the sums. Denormals are zeros: amx_few_begin()
 * and amx_few_end() stand around.
 */
#ifndef GALLOP_KERN_AMX_FEW_H
#define GALLOP_KERN_AMX_FEW_H

#include "kern/amx/amx_gemm.h"

enum {
    AMX_FEW = 4,                  /* rows at most */
    AMX_FEW_NO_DENORMALS = 0x8040 /* of MXCSR: flush to zero, denormals are zeros */
};

/* A line of A of every row as floats: [even, odd][row][pair]. */
struct amx_few_line {
    float of[2][AMX_FEW][AMX_WORDS];
};

/* Until amx_few_end(), of what this returns. */
SIMD512_INLINE unsigned amx_few_begin(void)
{
    const unsigned before = _mm_getcsr();

    _mm_setcsr(before | AMX_FEW_NO_DENORMALS);
    return before;
}

SIMD512_INLINE void amx_few_end(unsigned before)
{
    _mm_setcsr(before);
}

/* Sixteen pairs of bf16, the even (0) or the odd ones as floats. */
SIMD512_INLINE __m512 amx_few_half(__m512i pairs, int odd)
{
    return _mm512_castsi512_ps(odd ? _mm512_and_si512(pairs, _mm512_set1_epi32((int)0xffff0000u))
                                   : _mm512_slli_epi32(pairs, 16));
}

SIMD512_INLINE void amx_few_read(struct amx_few_line *line, const uint32_t *a, int rows)
{
    SIMD512_UNROLL
    for (int r = 0; r < AMX_FEW; r++)
        if (r < rows) {
            __m512i x = _mm512_loadu_si512(a + r * AMX_WORDS);

            _mm512_storeu_ps(line->of[0][r], amx_few_half(x, 0));
            _mm512_storeu_ps(line->of[1][r], amx_few_half(x, 1));
        }
}

#endif
