/* avx2_blocks.c - C = A x W over weights in quantization groups of integers, with VPMADDUBSW, in the
 * arithmetic class "int8 sum".
 *
 * Eight groups of a panel at a time are unpacked to bytes in L1, where every tile of rows reads them.
 * VPMADDUBSW adds two products in 16 bits: with codes of up to six bits the sum is below 2^15. Codes of eight
 * bits become signed bytes: their absolute value, at most 128, is multiplied by the input with their sign, so
 * these sums stay below 2^15 as well.
 */
#include <immintrin.h>
#include <string.h>

#include "kern/avx2/avx2.h"
#include "kern/format/groups.h"
#include "kern/kmath.h"
#include "kern/prefetch.h"

enum {
    GROUPS = GROUPS_SPAN, /* groups that are unpacked at a time */
    STEPS = GROUPS_SIZE / 4,
    SOME = 3, /* maximum rows of a micro-kernel: with 16 columns, 6 integer and 6 float accumulators */
    FEW = 2,  /* maximum rows without prefetching, as the hardware prefetches one stream well */
};

/* Unpacked groups of a panel: the values as bytes, and the scale d and the minimum of each column in each
 * half of a group. Formats without halves use only half 0. */
struct chunk {
    uint8_t value[GROUPS][STEPS][2][GROUPS_LINE];
    float d[GROUPS][2][KERN_NR], min[GROUPS][2][KERN_NR];
};

AVX2_INLINE __m256i bytes_at(const void *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

/* ---- unpacking ---- */

/* Returns true if values need eight bits: they are then unpacked to signed bytes. */
AVX2_INLINE bool is_wide(const struct quant_format f)
{
    return f.zero == 128;
}

/* Reads the bit plane of WIDTH bits (groups.h) for 32 codes, quarter I of step S. Returns the codes with only these
 * bits, at their position in the code. */
AVX2_INLINE __m256i plane_at(const uint8_t *at, int s, int i, unsigned bits, unsigned width)
{
    const struct groups_plane p = groups_plane_of(bits, width, s);
    __m256i v = bytes_at(at + p.byte + 32 * i);

    v = p.to < p.from ? _mm256_srli_epi16(v, p.from - p.to) : _mm256_slli_epi16(v, p.to - p.from);
    return _mm256_and_si256(v, _mm256_set1_epi8((char)(((1u << width) - 1) << p.to)));
}

AVX2_INLINE void unpack_values(uint8_t value[STEPS][2][GROUPS_LINE], const uint8_t *at,
                               const struct quant_format f)
{
    AVX2_UNROLL
    for (int s = 0; s < STEPS; s++)
        AVX2_UNROLL
    for (int i = 0; i < 4; i++) { /* quarters of the two lines */
        __m256i v = _mm256_setzero_si256();

        if (f.bits & 8)
            v = bytes_at(at + s * 2 * GROUPS_LINE + 32 * i);
        if (f.bits & 4)
            v = plane_at(at, s, i, f.bits, 4);
        if (f.bits & 2)
            v = _mm256_or_si256(v, plane_at(at, s, i, f.bits, 2));
        if (f.bits & 1)
            v = _mm256_or_si256(v, plane_at(at, s, i, f.bits, 1));
        if (f.values)
            v = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128(
                                        (const __m128i *)(const void *)quant_values[f.values])),
                                    v);
        if (is_wide(f))
            v = _mm256_xor_si256(v, _mm256_set1_epi8((char)0x80));
        _mm256_storeu_si256((__m256i *)(void *)(value[s][0] + 32 * i), v);
    }
}

static __m256 halves_at(const uint8_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}

/* Returns 2^(byte - 128) of eight bytes. 2^-127 and 2^-128 are subnormal. */
static __m256 powers_at(const uint8_t *p)
{
    __m256i e = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p));

    e = _mm256_max_epu32(_mm256_slli_epi32(e, 23), _mm256_set1_epi32(1 << 22)); /* 2^(e - 127) */
    return _mm256_mul_ps(_mm256_castsi256_ps(e), _mm256_set1_ps(0.5f));
}

/* Returns the integers that multiply d (I is 0) or min (I is 1) in half H of a group, for eight columns. P
 * points to the group's multiples. */
AVX2_INLINE __m256 multiples_at(const uint8_t *p, int i, int h, const struct quant_format f)
{
    __m128i v = _mm_loadl_epi64((const __m128i *)(const void *)(p + (f.in_halves ? h : i) * KERN_NR));

    if (f.min && f.in_halves)
        v = _mm_and_si128(i ? _mm_srli_epi16(v, 4) : v, _mm_set1_epi8(15));
    return _mm256_cvtepi32_ps(f.min ? _mm256_cvtepu8_epi32(v) : _mm256_cvtepi8_epi32(v));
}

AVX2_INLINE void unpack_groups(struct chunk *to, const uint8_t *panel, size_t from, size_t n,
                               const struct quant_format f)
{
    for (size_t i = 0; i < n; i++) {
        const uint8_t *head = groups_head(&f, panel, from + i), *group = groups_at(&f, panel, from + i);

        unpack_values(to->value[i], groups_codes(&f, group), f);
        for (size_t c = 0; c < KERN_NR; c += 8)
            for (int h = 0; h < groups_parts(f); h++) {
                __m256 d = f.powers ? powers_at(head + c) : halves_at(head + 2 * c), min;

                if (f.multiples)
                    d = _mm256_mul_ps(d, multiples_at(group + c, 0, h, f));
                _mm256_storeu_ps(&to->d[i][h][c], d);
                if (!f.min)
                    continue;
                min = halves_at(head + 2 * (KERN_NR + c));
                if (f.multiples)
                    min = _mm256_sub_ps(_mm256_setzero_ps(),
                                        _mm256_mul_ps(min, multiples_at(group + c, 1, h, f)));
                _mm256_storeu_ps(&to->min[i][h][c], min);
            }
    }
}

/* ---- rows times the unpacked groups ---- */

/* Returns the sums of four products for each of 8 columns. SIGN: the weights W are signed bytes. */
AVX2_INLINE __m256i dot(__m256i w, __m256i a, bool sign)
{
    __m256i pairs =
        sign ? _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(a, w)) : _mm256_maddubs_epi16(w, a);

    return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}

/* Scales the integer sums N of a group by the weight scales D and the row's scale S and adds them to Y, in
 * the order that quant.h defines. POWERS: the scales D are powers of two. */
AVX2_INLINE __m256 scaled(__m256 y, __m256i n, const float *d, __m256 s, bool powers)
{
    const __m256 x = _mm256_cvtepi32_ps(n), by = _mm256_loadu_ps(d);

    return powers ? _mm256_fmadd_ps(_mm256_mul_ps(x, by), s, y) : _mm256_fmadd_ps(x, _mm256_mul_ps(by, s), y);
}

/* Multiplies N groups of the input, from IN on, with the unpacked groups C and adds the products to SUMS
 * [all][32], for the rows [r0, r0 + rows) of a tile of ALL rows and for 16 columns, the left (SIDE is 0) or
 * the right ones. FIRST: the sums start at 0. */
AVX2_INLINE void micro(float *sums, const struct chunk *c, char *in, size_t n, bool first, size_t all,
                       size_t r0, int side, int rows, const struct quant_format f)
{
    __m256 y[SOME][2];
    const int parts = groups_parts(f), each = STEPS / parts;

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

        for (int h = 0; h < parts; h++) {
            const float *d = &c->d[i][h][16 * side], *min = &c->min[i][h][16 * side];
            __m256i sum[SOME][2];

            AVX2_UNROLL
            for (int r = 0; r < SOME; r++)
                if (r < rows)
                    sum[r][0] = sum[r][1] =
                        _mm256_set1_epi32(is_wide(f) ? 0 : f.zero * groups_minus(total + 2 * r, h, parts));
            for (int s = h * each; s < (h + 1) * each; s++) {
                const uint8_t *w = c->value[i][s][side];
                __m256i w0 = _mm256_loadu_si256((const __m256i *)(const void *)w),
                        w1 = _mm256_loadu_si256((const __m256i *)(const void *)(w + 32));

                AVX2_UNROLL
                for (int r = 0; r < SOME; r++)
                    if (r < rows) {
                        int32_t four;
                        __m256i a;

                        memcpy(&four, in + (r0 + (size_t)r) * GROUPS_SIZE + 4 * s, sizeof(four));
                        a = _mm256_set1_epi32(four);
                        sum[r][0] = _mm256_add_epi32(sum[r][0], dot(w0, a, is_wide(f)));
                        sum[r][1] = _mm256_add_epi32(sum[r][1], dot(w1, a, is_wide(f)));
                    }
            }
            AVX2_UNROLL
            for (int r = 0; r < SOME; r++)
                if (r < rows) {
                    __m256 s = _mm256_set1_ps(scale[r]);

                    y[r][0] = scaled(y[r][0], sum[r][0], d, s, f.powers);
                    y[r][1] = scaled(y[r][1], sum[r][1], d + 8, s, f.powers);
                    if (!f.min)
                        continue;
                    s = _mm256_set1_ps(parts == 1 ? weighed[r]
                                                  : scale[r] * (float)-groups_minus(total + 2 * r, h, parts));
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

/* Calls micro() for all 32 columns and all rows of a tile of ALL rows, up to three rows at a time. */
AVX2_INLINE void tile(float *sums, const struct chunk *c, char *in, size_t n, bool first, size_t all,
                      const struct quant_format f)
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

/* Defines the functions of one format, compiled with its struct quant_format as a constant. */
#define QUANT(name, gguf, elements, bytes, read, ...)                                                       \
    static void tile_##name(float *sums, const struct chunk *c, char *in, size_t n, bool first, size_t all) \
    {                                                                                                       \
        tile(sums, c, in, n, first, all, (struct quant_format){__VA_ARGS__});                               \
    }                                                                                                       \
    static void unpack_##name(struct chunk *to, const uint8_t *panel, size_t from, size_t n)                \
    {                                                                                                       \
        unpack_groups(to, panel, from, n, (struct quant_format){__VA_ARGS__});                              \
    }
#include "tensor/quant.def"

static const struct {
    void (*tile)(float *sums, const struct chunk *c, char *in, size_t n, bool first, size_t all);
    void (*unpack)(struct chunk *to, const uint8_t *panel, size_t from, size_t n);
} formats[DT_N] = {
#define QUANT(name, ...) [DT_##name] = {tile_##name, unpack_##name},
#include "tensor/quant.def"
};

/* ---- panels ---- */

static void run_panel(const struct kern_gemm *g, enum dtype t, size_t p, size_t t0, size_t t1,
                      const uint8_t *stop)
{
    const struct quant_format *f = quant_format_of(t);
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
        formats[t].unpack(&c, panel, from, n);
        at = sums;
        for (size_t i = t0; i < t1; i++) {
            struct groups_rows of = groups_tile(i, g->m);

            for (; asked < ask * (i + 1 - t0) / (t1 - t0); asked += 64)
                prefetch_line(next + asked, cpu_prefetches_to_l2());
            formats[t].tile(at, &c, groups_in(g->in, of, g->k, from), n, from == 0, of.rows);
            at += of.rows * KERN_NR;
        }
    }
    at = sums;
    for (size_t i = t0; i < t1; i++) {
        struct groups_rows of = groups_tile(i, g->m);

        avx2_gemm_end(g, p, of.first, of.rows, at, false);
        at += of.rows * KERN_NR;
    }
}

void avx2_gemm_blocks(const struct kern_gemm *g, enum dtype t, size_t p0, size_t p1)
{
    groups_run(g, t, p0, p1, run_panel);
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
