/* avx2_gemm_i8.c - C = A x W of bytes with VPMADDWD, in the arithmetic class "int8 sum". VPMADDUBSW,
 * which multiplies bytes, would saturate.
 *
 *   input   tile after tile of at most 6 rows, each [(K + 3) / 4][rows][4] int16; after all tiles, [M] scales
 *   panel   16 bytes at a time, four k of 4 columns, are loaded and widened to int16. A product adds k, k + 1
 *           and k + 2, k + 3 to neighbouring lanes, whose sums are added at the end
 *   tile    6 x 8, 3 x 16 or 1 x 32 sums, all of K: at 6 x 8 a step of four k has 12 products, 12 additions,
 *           2 loads that widen and 6 broadcasts
 */
#include <immintrin.h>
#include <string.h>

#include "kern/avx2/avx2.h"
#include "kern/avx2/avx2_math.h"
#include "kern/avx2/avx2_tile.h"
#include "kern/kmath.h"

enum {
    ROWS = AVX2_ROWS,
    COLS = 8, /* registers of 4 columns in a panel of 32 */
    FOUR = 4, /* k of a step */
    STEP = FOUR * KERN_NR,
};

static size_t steps_of(size_t k)
{
    return (k + FOUR - 1) / FOUR;
}

/* ---- the layout of the input ---- */

static float *scales_of(const void *in, size_t m, size_t k)
{
    return (float *)((uintptr_t)in + m * steps_of(k) * FOUR * sizeof(int16_t));
}

/* Returns the bits of the largest |x|. As bits, a NaN is above infinity, and infinity above all numbers. */
static uint32_t largest(const float *x, size_t k)
{
    __m256i m = _mm256_setzero_si256();
    uint32_t lane[8], most = 0;

    for (size_t i = 0; i < k; i += 8)
        m = _mm256_max_epu32(
            m, _mm256_and_si256(_mm256_castps_si256(avx2_get(x + i, k - i)), _mm256_set1_epi32(0x7fffffff)));
    _mm256_storeu_si256((__m256i *)(void *)lane, m);
    for (size_t i = 0; i < 8; i++)
        most = lane[i] > most ? lane[i] : most;
    return most;
}

void avx2_gemm_in_i8(void *in, const float *x, size_t row, size_t m, size_t k, float fixed)
{
    struct avx2_rows t = avx2_gemm_tile_of(row, m);
    int16_t *to = (int16_t *)in + (t.first * steps_of(k) + row - t.first) * FOUR, n[8];
    __m256 inv =
        _mm256_set1_ps(kmath_i8_inv(kmath_i8_largest(largest(x, k), fixed), &scales_of(in, m, k)[row]));

    for (size_t i = 0; i < k; i += 2 * FOUR, to += 2 * t.rows * FOUR) {
        __m256 scaled = _mm256_max_ps(_mm256_mul_ps(avx2_get(x + i, k - i), inv), _mm256_set1_ps(-127));
        __m256i y = _mm256_cvtps_epi32(_mm256_min_ps(scaled, _mm256_set1_ps(127)));

        _mm_storeu_si128((__m128i *)(void *)n,
                         _mm_packs_epi32(_mm256_castsi256_si128(y), _mm256_extracti128_si256(y, 1)));
        memcpy(to, n, FOUR * sizeof(*n));
        if (i + FOUR < k)
            memcpy(to + t.rows * FOUR, n + FOUR, FOUR * sizeof(*n));
    }
}

/* ---- a tile of rows times a panel ---- */

/* Sets SUMS [rows][32] to the products of the ROWS rows of A and panel B, for COLS registers of 4 columns
 * from register FIRST on. */
AVX2_INLINE void multiply(int32_t *sums, const int16_t *a, const char *b, size_t steps, int first, int rows,
                          int cols)
{
    __m256i acc[ROWS][COLS];

    AVX2_UNROLL
    for (int r = 0; r < ROWS; r++)
        AVX2_UNROLL
    for (int c = 0; c < COLS; c++)
        if (r < rows && c < cols)
            acc[r][c] = _mm256_setzero_si256();
    for (b += 16 * first; steps > 0; steps--, b += STEP, a += rows * FOUR) {
        __m256i v[COLS], x;
        long long word;

        AVX2_UNROLL
        for (int c = 0; c < COLS; c++)
            if (c < cols)
                v[c] = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)(b + 16 * c)));
        AVX2_UNROLL
        for (int r = 0; r < ROWS; r++)
            if (r < rows) {
                memcpy(&word, a + r * FOUR, sizeof(word));
                x = _mm256_set1_epi64x(word);
                AVX2_UNROLL
                for (int c = 0; c < COLS; c++)
                    if (c < cols)
                        acc[r][c] = _mm256_add_epi32(acc[r][c], _mm256_madd_epi16(x, v[c]));
            }
    }
    AVX2_UNROLL
    for (int r = 0; r < ROWS; r++)
        AVX2_UNROLL
    for (int c = 0; c < COLS; c += 2)
        if (r < rows && c < cols) { /* hadd leaves the columns as 0 1 4 5 2 3 6 7 */
            __m256i both = _mm256_hadd_epi32(acc[r][c], acc[r][c + 1]);

            _mm256_storeu_si256((__m256i *)(void *)(sums + r * KERN_NR + 4 * (first + c)),
                                _mm256_permute4x64_epi64(both, 0xd8));
        }
}

typedef void tile_fn(int32_t *sums, const int16_t *a, const char *b, size_t steps);

#define TILE(ROWS_, COLS_)                                                                 \
    static void tile_##ROWS_(int32_t *sums, const int16_t *a, const char *b, size_t steps) \
    {                                                                                      \
        for (int first = 0; first < COLS; first += COLS_)                                  \
            multiply(sums, a, b, steps, first, ROWS_, COLS_);                              \
    }
TILE(1, 8)
TILE(2, 4)
TILE(3, 4)
TILE(4, 2)
TILE(5, 2)
TILE(6, 2)
#undef TILE

static tile_fn *const tiles[ROWS] = {tile_1, tile_2, tile_3, tile_4, tile_5, tile_6};

void avx2_gemm_i8(const struct kern_gemm *g, size_t p0, size_t p1)
{
    const size_t steps = steps_of(g->k);
    int32_t sums[ROWS * KERN_NR];
    float y[ROWS * KERN_NR];
    size_t t0, t1;

    kern_gemm_share(g, avx2_gemm_tiles(g->m), &t0, &t1);
    for (size_t p = p0; p < p1; p++) {
        const char *b = (const char *)g->b + (p - g->first) * kern_i8_panel_bytes(g->k);
        const float *column = (const float *)(const void *)(b + steps * STEP + KERN_I8_TAIL / 2);

        for (size_t i = t0; i < t1; i++) {
            struct avx2_rows t = avx2_gemm_tile(i, g->m);
            const float *scale = scales_of(g->in, g->m, g->k) + t.first;

            tiles[t.rows - 1](sums, (const int16_t *)g->in + t.first * steps * FOUR, b, steps);
            for (size_t r = 0; r < t.rows; r++)
                for (size_t v = r * KERN_NR, c = 0; c < KERN_NR; c += 8)
                    _mm256_storeu_ps(
                        y + v + c,
                        _mm256_mul_ps(_mm256_cvtepi32_ps(
                                          _mm256_loadu_si256((const __m256i *)(const void *)(sums + v + c))),
                                      _mm256_mul_ps(_mm256_set1_ps(scale[r]), _mm256_loadu_ps(column + c))));
            avx2_gemm_end(g, p, t.first, t.rows, y, false);
        }
    }
}
