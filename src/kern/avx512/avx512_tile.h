/* avx512_tile.h - the register tile of the gemms and of attention: rows x columns of zmm, one outer product
 * in each step.
 *
 *   A   rows of 32-bit words at a constant stride, stored by avx512_tile_fill_*(): 12 rows then need one pointer
 *       and displacements, and never compete for one cache set, whatever the stride of the caller
 *   B   columns of one zmm each, read in place
 *   acc one fp32 accumulator for each element; a step adds the products of k (or of the pair k, k + 1) to each,
 *       in the canonical order
 *
 * A step takes      words of A    from B, a zmm       arithmetic
 *   AVX512_F32      1, a float    16 floats           fma
 *   AVX512_WIDE     2, floats     16 pairs of bf16    widen, fma even k, fma odd k
 *   AVX512_DOT      1, a pair     16 pairs of bf16    vdpbf16ps
 *   AVX512_I8       4, floats     16 fours of int8    widen to float, 4 fma, k ascending
 *   AVX512_I8_KEYS  1, int8 x 4   16 fours of int8    vpdpbusd of b + 128; sums are int32
 *   AVX512_I8_VALS  1, uint8 x 4  16 fours of int8    vpdpbusd; sums are int32
 *   AVX512_I8_GEMM  the same as AVX512_I8_VALS, in a gemm
 *
 * The kind and the sizes are constants at every call, so that the accumulators are registers. Loops over rows
 * and columns run to the largest size and test for the real size inside: clang unrolls before it inlines, and
 * would leave the accumulators in memory if the count were not a constant in the inlined function already.
 */
#ifndef GALLOP_KERN_AVX512_TILE_H
#define GALLOP_KERN_AVX512_TILE_H

#include "kern/simd512/simd512.h"

enum avx512_kind {
    AVX512_F32,
    AVX512_WIDE,
    AVX512_DOT,
    AVX512_I8,
    AVX512_I8_KEYS,
    AVX512_I8_VALS,
    AVX512_I8_GEMM
};

enum {
    AVX512_ROWS = 12,      /* rows of the largest tile: 12 x 2 sums, 2 columns of B, a word of A: 27 zmm */
    AVX512_MOST_ROWS = 14, /* the same in gemms of pairs and bytes, which need no other registers: 31 zmm */
    AVX512_COLS = 4,       /* columns of the widest tile */
    AVX512_PARTS = 4,      /* maximum words of A in a step */
    AVX512_STRIDE = 512 + 16, /* words from one query row of attention to the next; 33 cache lines */
};

/* Returns the elements of each row of A in a step. avx512_tile_words() returns their number of words. */
SIMD512_INLINE size_t avx512_tile_unit(enum avx512_kind kind)
{
    return kind == AVX512_F32 ? 1 : kind == AVX512_WIDE || kind == AVX512_DOT ? 2 : 4;
}

SIMD512_INLINE size_t avx512_tile_words(enum avx512_kind kind)
{
    return kind == AVX512_WIDE ? 2 : kind == AVX512_I8 ? 4 : 1;
}

/* Copies N floats from A to WORDS. */
SIMD512_INLINE void avx512_tile_fill_f32(uint32_t *words, const float *a, size_t n)
{
    size_t i = 0;

    for (; i + 16 <= n; i += 16)
        _mm512_storeu_ps(words + i, _mm512_loadu_ps(a + i));
    if (i < n)
        simd512_store((float *)(void *)words + i, simd512_head(n - i),
                      simd512_load(a + i, simd512_head(n - i)));
}

#if defined(__AVX512BF16__) || defined(KERN_EMULATE_AVX512)
/* Stores N floats as words of two bf16; subnormals become zeros, as VDPBF16PS treats them. If N is odd, the
 * missing half of the last pair is -0, whose product with the +0 of the panel does not change a sum. */
SIMD512_INLINE void avx512_tile_fill_dot(uint32_t *words, const float *a, size_t n)
{
    size_t i = 0;

    for (; i + 16 <= n; i += 16)
        _mm256_storeu_si256((__m256i *)(void *)(words + i / 2), simd512_flush_bf16(_mm512_loadu_ps(a + i)));
    if (i < n)
        _mm256_mask_storeu_epi16(words + i / 2, simd512_head(n - i),
                                 simd512_flush_bf16(simd512_load(a + i, simd512_head(n - i))));
    if (n % 2)
        ((uint16_t *)(void *)words)[n] = 0x8000;
}
#endif

/* Stores N floats as words, each rounded to bf16 and widened again. If N is odd, a word -0 follows, for the
 * same reason as in avx512_tile_fill_dot(). */
SIMD512_INLINE void avx512_tile_fill_wide(uint32_t *words, const float *a, size_t n)
{
    for (size_t i = 0; i < n; i += 16) {
        __mmask16 m = simd512_head(n - i);
        __m512i u = _mm512_slli_epi32(simd512_round_bf16(simd512_load(a + i, m)), 16);

        simd512_store((float *)(void *)words + i, m, _mm512_castsi512_ps(u));
    }
    if (n % 2)
        words[n] = 0x80000000u;
}

/* Adds the products of the words A and B to ACC, with one fma or one dot of pairs or fours. */
SIMD512_INLINE __m512 avx512_tile_add(__m512 acc, __m512i a, __m512i b, enum avx512_kind kind)
{
#if defined(__AVX512BF16__) || defined(KERN_EMULATE_AVX512)
    if (kind == AVX512_DOT)
        return simd512_dot(acc, a, b);
#endif
#if defined(__AVX512VNNI__) || defined(KERN_EMULATE_AVX512)
    if (kind == AVX512_I8_KEYS)
        return _mm512_castsi512_ps(_mm512_dpbusd_epi32(_mm512_castps_si512(acc), b, a));
    if (kind == AVX512_I8_VALS || kind == AVX512_I8_GEMM)
        return _mm512_castsi512_ps(_mm512_dpbusd_epi32(_mm512_castps_si512(acc), a, b));
#endif
    (void)kind;
    return _mm512_fmadd_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b), acc);
}

/* Returns one zmm of B as the operand for word PART of A: widened, or as it is stored. */
SIMD512_INLINE __m512i avx512_tile_load(const char *b, int part, enum avx512_kind kind)
{
    __m512i v = _mm512_loadu_si512(b);

    if (kind == AVX512_WIDE)
        return part ? _mm512_and_si512(v, _mm512_set1_epi32((int)0xffff0000u)) : _mm512_slli_epi32(v, 16);
    if (kind == AVX512_I8) {
        v = part == 3 ? v : _mm512_slli_epi32(v, (unsigned)(24 - 8 * part));
        return _mm512_castps_si512(_mm512_cvtepi32_ps(_mm512_srai_epi32(v, 24)));
    }
    return kind == AVX512_I8_KEYS ? _mm512_xor_si512(v, _mm512_set1_epi32((int)0x80808080u)) : v;
}

/* Adds the products of one word of each row with B, which stays in registers, row after row. For more rows
 * than columns. */
SIMD512_INLINE void avx512_tile_tall(__m512 acc[AVX512_MOST_ROWS][AVX512_COLS], const uint32_t *a,
                                     size_t stride, const char *const *b, size_t at, int part, int rows,
                                     int cols, enum avx512_kind kind)
{
    __m512i v[AVX512_COLS], w;

    SIMD512_UNROLL
    for (int c = 0; c < AVX512_COLS; c++)
        if (c < cols)
            v[c] = avx512_tile_load(b[c] + at, part, kind);
    SIMD512_UNROLL
    for (int r = 0; r < AVX512_MOST_ROWS; r++)
        if (r < rows) {
            w = _mm512_set1_epi32((int)a[(size_t)r * stride]);
            SIMD512_UNROLL
            for (int c = 0; c < AVX512_COLS; c++)
                if (c < cols)
                    acc[r][c] = avx512_tile_add(acc[r][c], w, v[c], kind);
        }
}

/* Adds the products of one word of each row, which stay in registers, with B, column after column. For at
 * most as many rows as columns. */
SIMD512_INLINE void avx512_tile_flat(__m512 acc[AVX512_MOST_ROWS][AVX512_COLS], const uint32_t *a,
                                     size_t stride, const char *const *b, size_t at, int part, int rows,
                                     int cols, enum avx512_kind kind)
{
    __m512i w[AVX512_COLS], v;

    SIMD512_UNROLL
    for (int r = 0; r < AVX512_COLS; r++)
        if (r < rows)
            w[r] = _mm512_set1_epi32((int)a[(size_t)r * stride]);
    SIMD512_UNROLL
    for (int c = 0; c < AVX512_COLS; c++)
        if (c < cols) {
            v = avx512_tile_load(b[c] + at, part, kind);
            SIMD512_UNROLL
            for (int r = 0; r < AVX512_COLS; r++)
                if (r < rows)
                    acc[r][c] = avx512_tile_add(acc[r][c], w[r], v, kind);
        }
}

/* Computes acc[r][c] += A[r] x B[c] for one step. A points to the first word of row 0, and rows begin STRIDE
 * words apart; column c of B is at b[c] + at. */
SIMD512_INLINE void avx512_tile_step(__m512 acc[AVX512_MOST_ROWS][AVX512_COLS], const uint32_t *a,
                                     size_t stride, const char *const *b, size_t at, int rows, int cols,
                                     enum avx512_kind kind)
{
    SIMD512_UNROLL
    for (int part = 0; part < AVX512_PARTS; part++)
        if ((size_t)part < avx512_tile_words(kind)) {
            if (rows > cols)
                avx512_tile_tall(acc, a + part, stride, b, at, part, rows, cols, kind);
            else
                avx512_tile_flat(acc, a + part, stride, b, at, part, rows, cols, kind);
        }
}

#endif
