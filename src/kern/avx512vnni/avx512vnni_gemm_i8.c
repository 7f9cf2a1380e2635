/* avx512vnni_gemm_i8.c - C = A x W of bytes with VPDPBUSD: class "int8 sum".
 *
 *   panel  [(K + 3) / 4][32][4] int8, 2 zmm a step, then what frees the sums of the 128 added to A, and
 *          scales
 *   A      bytes with 128 added, four a row and step, broadcast
 *   sums   12 x 2 accumulators of int32
 *
 * A full tile takes 24 vpdpbusd, 2 loads and 12 broadcasts a step (four k), as the bf16 dot does for two k.
 */
#include "kern/avx512/avx512.h"
#include "kern/avx512/avx512_gemm.h"

AVX512_GEMM_TABLE(AVX512_I8_GEMM);

/* The largest |x| as bits, in which a NaN is above infinity, and infinity above all numbers. */
static uint32_t largest(const float *x, size_t k)
{
    const __m512i all = _mm512_set1_epi32(0x7fffffff);
    uint32_t lane[16], most = 0;
    __m512i m = _mm512_setzero_si512();

    for (size_t i = 0; i < k; i += 16)
        m = _mm512_max_epu32(
            m, _mm512_and_si512(all, _mm512_castps_si512(simd512_load(x + i, simd512_head(k - i)))));
    _mm512_storeu_si512(lane, m);
    for (size_t i = 0; i < 16; i++)
        most = lane[i] > most ? lane[i] : most;
    return most;
}

/* Sixteen floats as bytes, 128 added. */
static __m128i bytes_of(__m512 x, __m512 inv)
{
    __m512 y = _mm512_max_ps(_mm512_mul_ps(x, inv), _mm512_set1_ps(-127));
    __m512i n = _mm512_cvtps_epi32(_mm512_min_ps(y, _mm512_set1_ps(127)));

    return _mm512_cvtepi32_epi8(_mm512_add_epi32(n, _mm512_set1_epi32(128)));
}

void KERN_NAME(avx512vnni_gemm_in_i8)(void *in, const float *x, size_t row, size_t m, size_t k, float fixed)
{
    enum { LINE = AVX512_GEMM_LINE * 4 };
    struct avx512_gemm_rows t = avx512_gemm_tile(((row + 1) * avx512_gemm_tiles(m) - 1) / m, m);
    uint8_t *to = (uint8_t *)in +
                  (t.first * avx512_gemm_width(k, AVX512_I8_GEMM) + (row - t.first) * AVX512_GEMM_LINE) * 4;
    __m512 inv = _mm512_set1_ps(
        kmath_i8_inv(kmath_i8_largest(largest(x, k), fixed), &avx512_gemm_scales(in, m, k)[row]));

    for (size_t at = 0; at < k; at += LINE, to += t.rows * LINE)
        for (size_t i = 0; i < LINE && at + i < k;
             i += 16) /* the last ones whole: there is room to the line's end */
            _mm_storeu_si128((__m128i *)(void *)(to + i),
                             bytes_of(simd512_load(x + at + i, simd512_head(k - at - i)), inv));
}

void KERN_NAME(avx512vnni_gemm_i8)(const struct kern_gemm *g, size_t p0, size_t p1)
{
    avx512_gemm_drive(g, p0, p1, micro, AVX512_I8_GEMM);
}
