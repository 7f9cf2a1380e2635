/* avx512_tile.h - the register tile that the gemms and attention share: rows x columns of zmm, one outer product a step.
 *
 *   A   rows of 32-bit words at a constant stride, copied there by avx512_tile_fill(): 12 rows then need one pointer and
 *       displacements, and never fight for one cache set, whatever the caller's stride
 *   B   columns of one zmm each, read where they lie
 *   acc one fp32 accumulator an element; a step adds k (or the pair k, k + 1) to each, so the order is the canonical one
 *
 * A step takes     words of A   from B, a zmm            arithmetic
 *   AVX512_F32     1, a float   16 floats                fma
 *   AVX512_WIDE    2, floats    16 pairs of bf16         widen, fma even k, fma odd k
 *   AVX512_DOT     1, a pair    16 pairs of bf16         vdpbf16ps
 * The kind and the sizes are constants at every call, so that the accumulators are registers.
 */
#ifndef GALLOP_KERN_AVX512_TILE_H
#define GALLOP_KERN_AVX512_TILE_H

#include "kern/simd512.h"

enum avx512_kind { AVX512_F32, AVX512_WIDE, AVX512_DOT };

enum {
    AVX512_ROWS = 12,   /* rows of the largest tile: 12 x 2 accumulators, 2 columns of B and a word of A are 27 registers */
    AVX512_WORDS = 512, /* most words of A that a fill takes */
    AVX512_STRIDE = AVX512_WORDS + 16, /* words; 33 cache lines */
};

/* Elements of A in a step, and words. */
SIMD512_INLINE size_t avx512_tile_unit(enum avx512_kind kind)
{
    return kind == AVX512_F32 ? 1 : 2;
}

SIMD512_INLINE size_t avx512_tile_words(enum avx512_kind kind)
{
    return kind == AVX512_WIDE ? 2 : 1;
}

/* N elements at A to words: floats as they are. */
SIMD512_INLINE void avx512_tile_fill_f32(uint32_t *words, const float *a, size_t n)
{
    size_t i = 0;

    for (; i + 16 <= n; i += 16)
        _mm512_storeu_ps(words + i, _mm512_loadu_ps(a + i));
    if (i < n)
        simd512_store((float *)(void *)words + i, simd512_head(n - i), simd512_load(a + i, simd512_head(n - i)));
}

/* N bf16 to pairs. The missing half of an odd last pair is -0: times the panel's +0 it leaves every sum as it is. */
SIMD512_INLINE void avx512_tile_fill_dot(uint32_t *words, const uint16_t *a, size_t n)
{
    size_t i = 0;

    for (; i + 32 <= n; i += 32)
        _mm512_storeu_si512(words + i / 2, _mm512_loadu_si512(a + i));
    for (; i + 2 <= n; i += 2)
        words[i / 2] = a[i] | (uint32_t)a[i + 1] << 16;
    if (i < n)
        words[i / 2] = a[i] | 0x80000000u;
}

/* N bf16 to floats, with the same -0 after an odd last one. */
SIMD512_INLINE void avx512_tile_fill_wide(uint32_t *words, const uint16_t *a, size_t n)
{
    size_t i = 0;

    for (; i + 16 <= n; i += 16) {
        __m512i u = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)(a + i)));

        _mm512_storeu_si512(words + i, _mm512_slli_epi32(u, 16));
    }
    for (; i < n; i++)
        words[i] = (uint32_t)a[i] << 16;
    if (n % 2)
        words[n] = 0x80000000u;
}

/* Copies the elements [k, k + n) of the rows [row, row + rows) of A to WORDS, row by row. n <= AVX512_WORDS words' worth. */
SIMD512_INLINE void avx512_tile_fill(uint32_t *words, const void *a, size_t lda, size_t row, size_t rows, size_t k,
                                     size_t n, enum avx512_kind kind)
{
    for (size_t r = row; r < row + rows; r++, words += AVX512_STRIDE) {
        if (kind == AVX512_F32)
            avx512_tile_fill_f32(words, (const float *)a + r * lda + k, n);
        else if (kind == AVX512_DOT)
            avx512_tile_fill_dot(words, (const uint16_t *)a + r * lda + k, n);
        else
            avx512_tile_fill_wide(words, (const uint16_t *)a + r * lda + k, n);
    }
}

/* acc[r * cols + c] += A[r] x B[c] for one step. A: word 0 of row 0, rows STRIDE words apart; b[c]: the zmm of column c. */
SIMD512_INLINE void avx512_tile_step(__m512 *acc, const uint32_t *a, size_t stride, const char *const *b, size_t at,
                                     int rows, int cols, enum avx512_kind kind)
{
    __m512i v[4], u[4];

    SIMD512_UNROLL
    for (int c = 0; c < cols; c++) {
        v[c] = _mm512_loadu_si512(b[c] + at);
        if (kind == AVX512_WIDE) {
            u[c] = _mm512_and_si512(v[c], _mm512_set1_epi32((int)0xffff0000u));
            v[c] = _mm512_slli_epi32(v[c], 16);
        }
    }
    SIMD512_UNROLL
    for (int r = 0; r < rows; r++) {
        __m512i w = _mm512_set1_epi32((int)a[(size_t)r * stride]);

        SIMD512_UNROLL
        for (int c = 0; c < cols; c++) {
            __m512 *s = &acc[r * cols + c];

#if defined(__AVX512BF16__) || defined(KERN_EMULATE_AVX512)
            if (kind == AVX512_DOT) {
                *s = simd512_dot(*s, w, v[c]);
                continue;
            }
#endif
            *s = _mm512_fmadd_ps(_mm512_castsi512_ps(w), _mm512_castsi512_ps(v[c]), *s);
        }
        if (kind != AVX512_WIDE)
            continue;
        w = _mm512_set1_epi32((int)a[(size_t)r * stride + 1]);
        SIMD512_UNROLL
        for (int c = 0; c < cols; c++)
            acc[r * cols + c] =
                _mm512_fmadd_ps(_mm512_castsi512_ps(w), _mm512_castsi512_ps(u[c]), acc[r * cols + c]);
    }
}

#endif
