/* avx2_tile.h - the inner step of the gemms: sums in registers += a column of A x a row of B. Attention uses
 * parts of it.
 *
 * The rows of B are fp32, or pairs of rows of bf16 in 32-bit lanes, the even row in the lower half: an even
 * element becomes a float by a shift left by 16, an odd one by a mask. The sums are up to 6 rows x 2
 * registers or 3 rows x 4: 12 sums hide the latency of the FMA, and the other operands fit into the rest of
 * the 16 registers. The numbers of rows and registers are constants at every call.
 */
#ifndef GALLOP_KERN_AVX2_AVX2_TILE_H
#define GALLOP_KERN_AVX2_AVX2_TILE_H

#include <immintrin.h>

#include "kern/avx2/avx2.h"

enum {
    AVX2_ROWS = 6,     /* rows of the largest tile */
    AVX2_FEW_ROWS = 3, /* maximum rows of a tile that is four registers wide */
};

/* Computes *acc = fma(x, y, *acc). The assembly keeps the sum in its register; gcc 12 would move it. */
AVX2_INLINE void avx2_add_product(__m256 *acc, __m256 x, __m256 y)
{
    __asm__("vfmadd231ps %2, %1, %0" : "+x"(*acc) : "x"(x), "x"(y));
}

/* The part of a 32-bit lane of B that is the weight. */
enum avx2_part { AVX2_WHOLE, AVX2_LOWER, AVX2_UPPER };

/* Returns eight weights of row B of a panel as floats: those of the columns from 8 V on. */
AVX2_INLINE __m256 avx2_weights(const char *b, int v, enum avx2_part part)
{
    __m256 w = _mm256_loadu_ps((const float *)(const void *)b + 8 * v);

    if (part == AVX2_LOWER)
        return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(w), 16));
    if (part == AVX2_UPPER)
        return _mm256_and_ps(w, _mm256_castsi256_ps(_mm256_set1_epi32((int)0xffff0000u)));
    return w;
}

/* Computes acc += a[r] x b[v] for one k. With two registers of weights, the weights stay in registers; with
 * more, the broadcast elements of A stay in registers. */
AVX2_INLINE void avx2_step(__m256 acc[AVX2_ROWS][4], const char *b, enum avx2_part part, const float *a,
                           size_t stride, int rows, int cols)
{
    if (cols == 2) {
        __m256 w0 = avx2_weights(b, 0, part), w1 = avx2_weights(b, 1, part);

        AVX2_UNROLL
        for (int r = 0; r < AVX2_ROWS; r++) {
            __m256 x;

            if (r >= rows)
                break;
            x = _mm256_broadcast_ss(a + (size_t)r * stride);
            avx2_add_product(&acc[r][0], x, w0);
            avx2_add_product(&acc[r][1], x, w1);
        }
    } else {
        __m256 x[AVX2_FEW_ROWS];

        AVX2_UNROLL
        for (int r = 0; r < AVX2_FEW_ROWS; r++)
            if (r < rows)
                x[r] = _mm256_broadcast_ss(a + (size_t)r * stride);
        AVX2_UNROLL
        for (int v = 0; v < 4; v++) {
            __m256 w = avx2_weights(b, v, part);

            AVX2_UNROLL
            for (int r = 0; r < AVX2_FEW_ROWS; r++)
                if (r < rows)
                    avx2_add_product(&acc[r][v], x[r], w);
        }
    }
}

/* ---- rows of a gemm ---- */

/* A tile of the rows of a gemm. The rows are cut into tiles of at most AVX2_ROWS, as equal as possible. */
struct avx2_rows {
    size_t first, rows;
};

AVX2_INLINE size_t avx2_gemm_tiles(size_t m)
{
    return (m + AVX2_ROWS - 1) / AVX2_ROWS;
}

/* Returns tile I of the M rows. */
AVX2_INLINE struct avx2_rows avx2_gemm_tile(size_t i, size_t m)
{
    size_t n = avx2_gemm_tiles(m), first = m * i / n;

    return (struct avx2_rows){first, m * (i + 1) / n - first};
}

/* Returns the tile that ROW, of M rows, belongs to. */
AVX2_INLINE struct avx2_rows avx2_gemm_tile_of(size_t row, size_t m)
{
    return avx2_gemm_tile(((row + 1) * avx2_gemm_tiles(m) - 1) / m, m);
}

#endif
