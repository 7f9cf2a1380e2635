/* attn_i4.h - rows of a KV cache in 4 bits: rounding a row, the layout of a tile, and attention to such
 * tiles, which are expanded to tiles of int8 first.
 *
 * A tile of keys or of values has kern_i4_tile_bytes(dp) bytes and holds 16 tokens:
 *   codes   [dp / 8][64] bytes. The tile that attn_i8 reads has lines of 64 bytes; the codes of its lines 2 i and
 *           2 i + 1 are the lower and the upper nibbles of line i. The codes 0 to 15 encode -8 to 7
 *   factors [dp / 16][8] bytes: byte t has the factors of 16 dims, of token t in the lower nibble and of token
 *           t + 8 in the upper nibble. The nibbles 0 to 15 encode 1 to 16
 *   scales  [16] bf16, one for each token
 * An element is code * factor, an integer from -128 to 112, times the scale of its token. So a 4-bit row with
 * a factor for each 16 elements is exactly an int8 row with one scale, and attention to it is attn_i8. This
 * header is plain C that each folder compiles for its instruction set; the order of all sums is written out,
 * so that every folder gives the same bits.
 */
#ifndef GALLOP_KERN_FORMAT_ATTN_I4_H
#define GALLOP_KERN_FORMAT_ATTN_I4_H

#include <math.h>
#include <string.h>

#include "kern/attention.h"
#include "kern/prefetch.h"
#include "kern/quant.h"
#include "tensor/dtype.h"

enum {
    I4_LINE = 64,    /* bytes of a line of an int8 tile: 16 lanes of four elements */
    I4_FACTORS = 16, /* the largest factor; 7 times it encodes the largest element of a row */
    I4_TRIED = 5     /* number of factors that i4_factor() tries for a group */
};

#define I4_INLINE static inline __attribute__((always_inline))

/* ---- rounding a row to codes, factors and a scale ---- */

/* Rounds z [16] / F to integer codes from -8 to 7. Returns the 16-lane sum of the squared errors. */
I4_INLINE float i4_round(float *code, const float *z, float f)
{
    float lane[KERN_I4_GROUP], inv = 1.0f / f;

    for (int i = 0; i < KERN_I4_GROUP; i++) {
        float y = z[i] * inv, lost;

        y = y < 7.0f ? y : 7.0f; /* NaN becomes 7 */
        y = y > -8.0f ? y : -8.0f;
        code[i] = rintf(y);
        lost = z[i] - code[i] * f;
        lane[i] = lost * lost;
    }
    for (int half = KERN_I4_GROUP / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            lane[i] += lane[i + half];
    return lane[0];
}

/* Returns the factor with which rounding z [16] has the smallest error, the smallest factor among equals. It
 * tries T, the smallest factor with which no element exceeds 7, and the I4_TRIED - 1 factors below. If all
 * errors are NaN it returns T. */
I4_INLINE int i4_factor(const float *z)
{
    float code[KERN_I4_GROUP], m = 0, least = INFINITY, lost;
    int top = 1, best;

    for (int i = 0; i < KERN_I4_GROUP; i++)
        m = fabsf(z[i]) > m ? fabsf(z[i]) : m;
    while (top < I4_FACTORS && !(m <= 7.0f * (float)top))
        top++;
    best = top;
    for (int f = top < I4_TRIED ? 1 : top - I4_TRIED + 1; f <= top; f++) {
        lost = i4_round(code, z, (float)f);
        if (lost < least) {
            least = lost;
            best = f;
        }
    }
    return best;
}

/* Implements the kernel to_i4 (kern_to_i4_fn in quant.h). */
I4_INLINE void i4_quantise(uint8_t *code, uint8_t *factor, uint16_t *scale, const float *x, size_t n)
{
    float m = 0, inv;

    for (size_t i = 0; i < n; i++)
        m = fabsf(x[i]) > m ? fabsf(x[i]) : m;
    *scale = dtype_f32_to_bf16(m / (7 * I4_FACTORS));
    inv = 1.0f / dtype_bf16_to_f32(*scale);
    if (isinf(inv))
        inv = *scale = 0;
    for (size_t g = 0; g * KERN_I4_GROUP < n; g++, code += KERN_I4_GROUP) {
        float z[KERN_I4_GROUP] = {0}, rounded[KERN_I4_GROUP];
        size_t at = g * KERN_I4_GROUP, left = n - at < KERN_I4_GROUP ? n - at : KERN_I4_GROUP;
        int f;

        for (size_t i = 0; i < left; i++)
            z[i] = *scale ? x[at + i] * inv : 0;
        f = i4_factor(z);
        i4_round(rounded, z, (float)f);
        factor[g] = (uint8_t)(f - 1);
        for (int i = 0; i < KERN_I4_GROUP; i++)
            code[i] = (uint8_t)((int)rounded[i] + 8);
    }
}

/* ---- the layout of a tile ---- */

/* Sets one nibble of *BYTE to VALUE: the upper one if UPPER is not 0, otherwise the lower one. */
I4_INLINE void i4_put_half(uint8_t *byte, unsigned upper, uint8_t value)
{
    *byte = (uint8_t)((*byte & (upper ? 0x0f : 0xf0)) | value << 4 * upper);
}

/* Stores the row of a token in a tile of keys or, with VALUES, of values. CODE is [dp], FACTOR [dp / 16]. */
I4_INLINE void i4_put_row(void *tile, size_t dp, size_t token, bool values, const uint8_t *code,
                          const uint8_t *factor, uint16_t scale)
{
    uint8_t *to = tile, *factors = to + KERN_TILE / 2 * dp;

    for (size_t d = 0; d < dp; d++) {
        size_t at = values ? (token / 4 * dp + d) * 4 + token % 4 : (d / 4 * KERN_TILE + token) * 4 + d % 4;

        i4_put_half(to + at / (2 * I4_LINE) * I4_LINE + at % I4_LINE, at / I4_LINE % 2, code[d]);
    }
    for (size_t g = 0; g < dp / KERN_I4_GROUP; g++)
        i4_put_half(factors + g * 8 + token % 8, token / 8, factor[g]);
    memcpy(factors + dp / 2 + token * sizeof(scale), &scale, sizeof(scale));
}

/* ---- expanding a tile to int8 ---- */

/* Vectors of 32 bytes, half a line, of 16-bit or 32-bit elements. i4_stored may have any address. */
typedef uint16_t i4_words __attribute__((vector_size(32)));
typedef uint32_t i4_lanes __attribute__((vector_size(32)));
typedef uint8_t i4_eight __attribute__((vector_size(8)));
typedef i4_words i4_stored __attribute__((aligned(1), may_alias));

/* The factor of each even and of each odd byte of half a line. */
struct attn_i4_factors {
    i4_words even, odd;
};

/* Expands eight bytes, which hold two factors each as nibbles, to sixteen bytes with one factor each. */
I4_INLINE void i4_unpack_factors(uint8_t *factor, const uint8_t *packed)
{
    const uint64_t half = UINT64_C(0x0f0f0f0f0f0f0f0f), one = UINT64_C(0x0101010101010101);
    uint64_t both, each[2];

    memcpy(&both, packed, sizeof(both));
    each[0] = (both & half) + one;
    each[1] = (both >> 4 & half) + one;
    memcpy(factor, each, sizeof(each));
}

/* Sets the factors for half a line of keys, which holds 4 dims of 8 tokens, from FACTOR [8]. */
I4_INLINE void i4_key_factors(struct attn_i4_factors *f, const uint8_t *factor)
{
    i4_eight eight;
    i4_lanes each;

    memcpy(&eight, factor, sizeof(eight));
    each = __builtin_convertvector(eight, i4_lanes);
    f->even = f->odd = (i4_words)(each | each << 16);
}

/* Sets the factors for half a line of values, which holds 8 dims of 4 tokens, from FACTOR [4]. */
I4_INLINE void i4_value_factors(struct attn_i4_factors *f, const uint8_t *factor)
{
    uint32_t four;

    memcpy(&four, factor, sizeof(four));
    f->even = (i4_words)((i4_lanes){0} + (four & 0x00ff00ff));
    f->odd = (i4_words)((i4_lanes){0} + (four >> 8 & 0x00ff00ff));
}

/* Computes half a line of int8 from the lower nibbles of the bytes of CODES. */
I4_INLINE void i4_expand_half(char *to, const i4_words *codes, const struct attn_i4_factors *f)
{
    i4_words even = ((*codes & 15) - 8) * f->even, odd = ((*codes >> 8 & 15) - 8) * f->odd;

    *(i4_stored *)(void *)to = (even & 0xff) | odd << 8;
}

/* Expands half number HALF of line I of CODES to the same half of the lines 2 I and 2 I + 1 of TO. */
I4_INLINE void i4_expand_line(char *to, const uint8_t *codes, size_t i, size_t half,
                              const struct attn_i4_factors *low, const struct attn_i4_factors *high)
{
    i4_words lower = *(const i4_stored *)(const void *)(codes + i * I4_LINE + half * I4_LINE / 2);
    i4_words upper = lower >> 4;
    char *out = to + 2 * i * I4_LINE + half * I4_LINE / 2;

    i4_expand_half(out, &lower, low);
    i4_expand_half(out + I4_LINE, &upper, high);
}

/* Expands the codes of a tile of keys. Two lines hold 16 dims of 16 keys, which share a row of FACTOR. */
I4_INLINE void i4_expand_keys(char *to, const uint8_t *codes, const uint8_t (*factor)[KERN_TILE], size_t dp)
{
    struct attn_i4_factors f;

    for (size_t g = 0; g < dp / KERN_I4_GROUP; g++)
        for (size_t half = 0; half < 2; half++) {
            i4_key_factors(&f, factor[g] + 8 * half);
            i4_expand_line(to, codes, 2 * g, half, &f, &f);
            i4_expand_line(to, codes, 2 * g + 1, half, &f, &f);
        }
}

/* Expands the codes of a tile of values. A line of int8 has 16 dims of four tokens; the dp / 16 lines of four
 * tokens come before those of the next four. */
I4_INLINE void i4_expand_values(char *to, const uint8_t *codes, const uint8_t (*factor)[KERN_TILE], size_t dp)
{
    const size_t across = dp / KERN_I4_GROUP;
    struct attn_i4_factors low, high;
    size_t group = 0, token = 0;

    for (size_t i = 0; i < dp / 8; i++) {
        i4_value_factors(&low, factor[group] + token);
        group = group + 1 < across ? group + 1 : 0;
        token += group ? 0 : 4;
        i4_value_factors(&high, factor[group] + token);
        group = group + 1 < across ? group + 1 : 0;
        token += group ? 0 : 4;
        i4_expand_line(to, codes, i, 0, &low, &high);
        i4_expand_line(to, codes, i, 1, &low, &high);
    }
}

/* Expands a 4-bit tile to a tile of int8 as attn_i8 reads it. */
I4_INLINE void i4_expand(char *to, const void *tile, size_t dp, bool values)
{
    const uint8_t *codes = tile, *packed = codes + KERN_TILE / 2 * dp;
    uint8_t factor[KERN_ATTN_DIM / KERN_I4_GROUP][KERN_TILE];
    float *scales = (float *)(void *)(to + KERN_TILE * dp);
    uint16_t scale[KERN_TILE];

    for (size_t g = 0; g < dp / KERN_I4_GROUP; g++)
        i4_unpack_factors(factor[g], packed + g * KERN_TILE / 2);
    if (values)
        i4_expand_values(to, codes, factor, dp);
    else
        i4_expand_keys(to, codes, factor, dp);
    memcpy(scale, packed + dp / 2, sizeof(scale));
    for (size_t t = 0; t < KERN_TILE; t++)
        scales[t] = dtype_bf16_to_f32(scale[t]);
}

/* ---- attention ---- */

enum { I4_LEAD = 8192 }; /* bytes that are prefetched ahead of the current tile */

/* Computes attn_i4 (attention.h) with the kernel ATTN_I8 of the same folder. It expands the tiles that at
 * least one query row sees to the scratch, once for all rows. */
I4_INLINE void i4_attn(const struct kern_attn *a, void (*attn_i8)(const struct kern_attn *))
{
    const void *tile[2][KERN_CHUNK_TILES];
    const size_t bytes = kern_i4_tile_bytes(a->dp), whole = KERN_TILE * (a->dp + sizeof(float));
    const size_t lead = I4_LEAD / bytes + 1;
    const bool level2 = cpu_prefetches_to_l2();
    char *to = (char *)(a->scratch + 2 * KERN_ATTN_ROWS * KERN_CHUNK);
    struct kern_attn i8 = *a;
    size_t t0 = KERN_CHUNK_TILES, t1 = 0, n;

    for (size_t r = 0; r < a->m; r++)
        if (a->lo[r] < a->hi[r]) {
            size_t from = (size_t)a->lo[r] / KERN_TILE, end = ((size_t)a->hi[r] + KERN_TILE - 1) / KERN_TILE;

            t0 = from < t0 ? from : t0;
            t1 = end > t1 ? end : t1;
        }
    n = t0 < t1 ? t1 - t0 : 0;
    for (size_t i = 0; i < 2 * n; i++, to += whole) {
        const char *ahead = prefetch_attn_tile(a, t0, t1, i + lead);

        for (size_t at = 0; at < bytes; at += I4_LINE)
            prefetch_line(ahead + at, level2);
        i4_expand(to, i < n ? a->k_tile[t0 + i] : a->v_tile[t0 + i - n], a->dp, i >= n);
        tile[i >= n][t0 + i % n] = to;
    }
    for (size_t t = 0; t < a->n_tiles; t++)
        if (t < t0 || t >= t1) /* no query row sees these tiles, but their address must be readable */
            tile[0][t] = tile[1][t] = a->scratch;
    i8.k_tile = tile[0];
    i8.v_tile = tile[1];
    i8.n_next = 0;
    attn_i8(&i8);
}

#endif
