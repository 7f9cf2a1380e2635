/* avx2_blocks.c - C = A x W over weights in quantization groups of integers, with VPMADDUBSW: class "int8
 * sum".
 *
 * Eight groups of a panel at a time are unpacked to bytes in level 1, and every tile of rows takes them from
 * there. VPMADDUBSW adds two products in 16 bits: with codes of up to six bits the sum is below 2^15. Codes
 * of eight bits become signed bytes: their absolute value, at most 128, times the input with the sign moved
 * to it also stays below 2^15.
 */
#include <immintrin.h>
#include <string.h>

#include "kern/ahead.h"
#include "kern/avx2/avx2.h"
#include "kern/format/groups.h"
#include "kern/kmath.h"

enum {
    GROUPS = GROUPS_SPAN, /* groups that are unpacked at a time */
    STEPS = GROUPS_SIZE / 4,
    SOME = 3, /* rows of a tile at once: with 16 columns, 6 sums of integers and 6 of floats */
    FEW = 2,  /* maximum rows that prefetch nothing: the hardware prefetches one stream well */
};

struct chunk {
    uint8_t code[GROUPS][STEPS][2][GROUPS_LINE];
    float d[GROUPS][2][KERN_NR]; /* d of the two halves of a group, of the group in [0] without halves */
    float min[GROUPS][KERN_NR];
};

AVX2_INLINE __m256i bytes_at(const void *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

/* ---- unpacking ---- */

/* Returns the upper bits of the codes of step S, which U holds, at their place above the lower four. */
static __m256i upper_bits(__m256i u, int s, unsigned bits)
{
    int left = bits == 5 ? 4 - s : 4 - 2 * (s % 4);
    __m128i by = _mm_cvtsi32_si128(left < 0 ? -left : left);

    u = left < 0 ? _mm256_srl_epi16(u, by) : _mm256_sll_epi16(u, by);
    return _mm256_and_si256(u, _mm256_set1_epi8(bits == 5 ? 16 : 48));
}

static void unpack_codes(uint8_t code[STEPS][2][GROUPS_LINE], const uint8_t *at, const struct groups_form *f)
{
    const uint8_t *upper = at + GROUPS_CODES / 2;

    for (int s = 0; s < STEPS; s++)
        for (int i = 0; i < 4; i++) { /* quarters of the two lines */
            int line = f->bits == 8 ? s * 2 : s / 2 * 2;
            __m256i v = bytes_at(at + line * GROUPS_LINE + 32 * i);

            if (f->bits == 8)
                v = _mm256_xor_si256(v, _mm256_set1_epi8((char)0x80));
            else
                v = _mm256_and_si256(s % 2 ? _mm256_srli_epi16(v, 4) : v, _mm256_set1_epi8(15));
            if (f->powers)
                v = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_setr_epi8(GROUPS_FP4)), v);
            if (f->bits == 5 || f->bits == 6)
                v = _mm256_or_si256(
                    v, upper_bits(bytes_at(upper + (f->bits == 5 ? 0 : s / 4 * 2) * GROUPS_LINE + 32 * i), s,
                                  f->bits));
            _mm256_storeu_si256((__m256i *)(void *)(code[s][0] + 32 * i), v);
        }
}

static __m256 halves_at(const uint8_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}

/* Returns eight powers of two, among them 2^-127 and 2^-128, which are subnormal. */
static __m256 powers_at(const uint8_t *p)
{
    __m256i e = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p));

    e = _mm256_max_epu32(_mm256_slli_epi32(e, 23), _mm256_set1_epi32(1 << 22)); /* 2^(e - 127) */
    return _mm256_mul_ps(_mm256_castsi256_ps(e), _mm256_set1_ps(0.5f));
}

static __m256 multiples_at(const uint8_t *p, bool sign)
{
    __m128i v = _mm_loadl_epi64((const __m128i *)(const void *)p);

    return _mm256_cvtepi32_ps(sign ? _mm256_cvtepi8_epi32(v) : _mm256_cvtepu8_epi32(v));
}

static void unpack_groups(struct chunk *to, const uint8_t *panel, size_t from, size_t n,
                          const struct groups_form *f)
{
    for (size_t i = 0; i < n; i++) {
        const uint8_t *head = groups_head(f, panel, from + i), *group = groups_at(f, panel, from + i);

        unpack_codes(to->code[i], group + (f->multiples ? 2 * KERN_NR : 0), f);
        for (size_t c = 0; c < KERN_NR; c += 8) {
            __m256 d = f->powers ? powers_at(head + c) : halves_at(head + 2 * c), min;

            for (int h = 0; h < f->halves; h++)
                _mm256_storeu_ps(&to->d[i][h][c],
                                 f->multiples
                                     ? _mm256_mul_ps(d, multiples_at(group + h * KERN_NR + c, f->halves == 2))
                                     : d);
            if (!f->min)
                continue;
            min = halves_at(head + 2 * (KERN_NR + c));
            if (f->multiples)
                min = _mm256_sub_ps(_mm256_setzero_ps(),
                                    _mm256_mul_ps(min, multiples_at(group + KERN_NR + c, false)));
            _mm256_storeu_ps(&to->min[i][c], min);
        }
    }
}

/* ---- rows times the unpacked groups ---- */

/* Returns the sums of four products for each of 8 columns. */
AVX2_INLINE __m256i dot(__m256i w, __m256i a, bool sign)
{
    __m256i pairs =
        sign ? _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(a, w)) : _mm256_maddubs_epi16(w, a);

    return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}

/* Returns Y plus the sum N of the products of a group times D times the scale S of the row. */
AVX2_INLINE __m256 scaled(__m256 y, __m256i n, const float *d, __m256 s, bool powers)
{
    const __m256 x = _mm256_cvtepi32_ps(n), by = _mm256_loadu_ps(d);

    return powers ? _mm256_fmadd_ps(_mm256_mul_ps(x, by), s, y) : _mm256_fmadd_ps(x, _mm256_mul_ps(by, s), y);
}

/* Computes SUMS [all][32] (+)= N groups of the input from IN on, times C: for the rows [r0, r0 + rows) of a
 * tile of ALL rows and the 16 columns of SIDE. */
AVX2_INLINE void micro(float *sums, const struct chunk *c, char *in, size_t n, bool first, size_t all,
                       size_t r0, int side, int rows, const struct groups_form f)
{
    __m256 y[SOME][2];
    const int each = STEPS / f.halves;

    sums += r0 * KERN_NR + 16 * (size_t)side;
    AVX2_UNROLL
    for (int r = 0; r < SOME; r++)
        if (r < rows) {
            y[r][0] = first ? _mm256_setzero_ps() : _mm256_loadu_ps(sums + r * KERN_NR);
            y[r][1] = first ? _mm256_setzero_ps() : _mm256_loadu_ps(sums + r * KERN_NR + 8);
        }
    for (size_t i = 0; i < n; i++, in += all * GROUPS_ROW) {
        const float *scale = groups_scales(in, all) + r0, *weighed = groups_weighed(in, all) + r0;
        const int32_t *total = groups_sums(in, all) + 2 * r0;

        for (int h = 0; h < f.halves; h++) {
            const float *d = &c->d[i][h][16 * side];
            __m256i sum[SOME][2];

            AVX2_UNROLL
            for (int r = 0; r < SOME; r++)
                if (r < rows)
                    sum[r][0] = sum[r][1] = _mm256_set1_epi32(
                        f.bits == 8 ? 0 : f.zero * groups_minus(total + 2 * r, h, f.halves));
            for (int s = h * each; s < (h + 1) * each; s++) {
                const uint8_t *w = c->code[i][s][side];
                __m256i w0 = _mm256_loadu_si256((const __m256i *)(const void *)w),
                        w1 = _mm256_loadu_si256((const __m256i *)(const void *)(w + 32));

                AVX2_UNROLL
                for (int r = 0; r < SOME; r++)
                    if (r < rows) {
                        int32_t four;
                        __m256i a;

                        memcpy(&four, in + (r0 + (size_t)r) * GROUPS_SIZE + 4 * s, sizeof(four));
                        a = _mm256_set1_epi32(four);
                        sum[r][0] = _mm256_add_epi32(sum[r][0], dot(w0, a, f.bits == 8));
                        sum[r][1] = _mm256_add_epi32(sum[r][1], dot(w1, a, f.bits == 8));
                    }
            }
            AVX2_UNROLL
            for (int r = 0; r < SOME; r++)
                if (r < rows) {
                    __m256 s = _mm256_set1_ps(scale[r]);

                    y[r][0] = scaled(y[r][0], sum[r][0], d, s, f.powers);
                    y[r][1] = scaled(y[r][1], sum[r][1], d + 8, s, f.powers);
                }
        }
        if (f.min) {
            const float *min = &c->min[i][16 * side];

            AVX2_UNROLL
            for (int r = 0; r < SOME; r++)
                if (r < rows) {
                    __m256 s = _mm256_set1_ps(weighed[r]);

                    y[r][0] = _mm256_fmadd_ps(_mm256_loadu_ps(min), s, y[r][0]);
                    y[r][1] = _mm256_fmadd_ps(_mm256_loadu_ps(min + 8), s, y[r][1]);
                }
        }
    }
    AVX2_UNROLL
    for (int r = 0; r < SOME; r++)
        if (r < rows) {
            _mm256_storeu_ps(sums + r * KERN_NR, y[r][0]);
            _mm256_storeu_ps(sums + r * KERN_NR + 8, y[r][1]);
        }
}

/* Computes all rows of a tile, ALL of them. */
AVX2_INLINE void tile(float *sums, const struct chunk *c, char *in, size_t n, bool first, size_t all,
                      const struct groups_form f)
{
    for (int side = 0; side < 2; side++)
        for (size_t r0 = 0; r0 < all; r0 += SOME) {
            if (all - r0 >= 3)
                micro(sums, c, in, n, first, all, r0, side, 3, f);
            else if (all - r0 == 2)
                micro(sums, c, in, n, first, all, r0, side, 2, f);
            else
                micro(sums, c, in, n, first, all, r0, side, 1, f);
        }
}

typedef void tile_fn(float *sums, const struct chunk *c, char *in, size_t n, bool first, size_t all);

#define TILE(name, ...)                                                                              \
    static void name(float *sums, const struct chunk *c, char *in, size_t n, bool first, size_t all) \
    {                                                                                                \
        tile(sums, c, in, n, first, all, (struct groups_form){__VA_ARGS__});                         \
    }
TILE(zero_8, 4, 8, false, false, 1, false)
TILE(powers, 4, 16, false, false, 1, true)
TILE(zero_16, 5, 16, false, false, 1, false)
TILE(zero_32, 6, 32, false, true, 2, false)
TILE(zero_128, 8, 128, false, false, 1, false)
TILE(minimums, 4, 0, true, false, 1, false)
#undef TILE

static tile_fn *tile_of(const struct groups_form *f)
{
    return f->min          ? minimums
           : f->powers     ? powers
           : f->zero == 8  ? zero_8
           : f->zero == 16 ? zero_16
           : f->zero == 32 ? zero_32
                           : zero_128;
}

/* ---- panels ---- */

static void run_panel(const struct kern_gemm *g, const struct groups_form *f, size_t p, size_t t0, size_t t1,
                      const uint8_t *stop)
{
    float sums[GROUPS_TILES * GROUPS_ROWS * KERN_NR] __attribute__((aligned(64)));
    struct chunk c __attribute__((aligned(64)));
    const uint8_t *panel = groups_panel(g, f, p);
    const size_t groups = g->k / GROUPS_SIZE, bytes = GROUPS / groups_span(f) * groups_span_bytes(f);
    float *at;

    for (size_t from = 0; from < groups; from += GROUPS) {
        size_t n = groups - from < GROUPS ? groups - from : GROUPS, ask, asked = 0;
        const char *next = (const char *)groups_head(f, panel, from + n);

        ask = (size_t)((const char *)stop - next);
        ask = g->m <= FEW ? 0 : ask < bytes ? ask : bytes;
        unpack_groups(&c, panel, from, n, f);
        at = sums;
        for (size_t i = t0; i < t1; i++) {
            struct groups_rows t = groups_tile(i, g->m);

            for (; asked < ask * (i + 1 - t0) / (t1 - t0); asked += 64)
                ahead_line(next + asked, cpu_level2_ahead());
            tile_of(f)(at, &c, groups_in(g->in, t, g->k, from), n, from == 0, t.rows);
            at += t.rows * KERN_NR;
        }
    }
    at = sums;
    for (size_t i = t0; i < t1; i++) {
        struct groups_rows t = groups_tile(i, g->m);

        avx2_gemm_end(g, p, t.first, t.rows, at, false);
        at += t.rows * KERN_NR;
    }
}

void avx2_gemm_blocks(const struct kern_gemm *g, const struct groups_form *f, size_t p0, size_t p1)
{
    groups_run(g, f, p0, p1, run_panel);
}

/* ---- the input ---- */

static uint32_t largest_of(const float *x)
{
    __m256i m = _mm256_setzero_si256();
    uint32_t lane[8], most = 0;

    for (size_t i = 0; i < GROUPS_SIZE; i += 8)
        m = _mm256_max_epu32(
            m, _mm256_and_si256(_mm256_castps_si256(_mm256_loadu_ps(x + i)), _mm256_set1_epi32(0x7fffffff)));
    _mm256_storeu_si256((__m256i *)(void *)lane, m);
    for (size_t i = 0; i < 8; i++)
        most = lane[i] > most ? lane[i] : most;
    return most;
}

void avx2_gemm_in_blocks(void *in, const float *x, size_t row, size_t m, size_t k)
{
    struct groups_rows t = groups_tile_of(row, m);
    size_t r = row - t.first;

    for (size_t i = 0; i < k / GROUPS_SIZE; i++, x += GROUPS_SIZE) {
        char *group = groups_in(in, t, k, i);
        float scale, inv = kmath_i8_inv(largest_of(x), &scale);
        int8_t *n = (int8_t *)group + r * GROUPS_SIZE;
        int32_t half[2] = {0}, lane[8];

        memset(n, 0, GROUPS_SIZE);
        for (size_t j = 0; j < GROUPS_SIZE && inv > 0; j += 8) {
            __m256 y = _mm256_mul_ps(_mm256_loadu_ps(x + j), _mm256_set1_ps(inv));

            _mm256_storeu_si256((__m256i *)(void *)lane, _mm256_cvtps_epi32(y));
            for (size_t l = 0; l < 8; l++) {
                n[j + l] = (int8_t)lane[l];
                half[j / 16] += lane[l];
            }
        }
        groups_put_sums(group, t.rows, r, half, scale);
    }
}
