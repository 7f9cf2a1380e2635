/* quant.c - decodes stored groups, with one function per format.
 *
 * The order of the operations is part of the format: d * q + m is a product and a sum, each rounded, never
 * fused. Bytes are read one by one, so a stored group may lie at any address on machines of either byte
 * order. Callers read rows piece by piece, so only the requested groups of 32 of a stored group of 256 are
 * decoded.
 */
#include "tensor/quant.h"

#include <string.h>

#include "base/err.h"

enum { MOST = 256, GROUP = 32 };

static float half_at(const uint8_t *p)
{
    return dtype_f16_to_f32((uint16_t)(p[0] | (p[1] << 8)));
}

/* ---- stored groups of 32 ---- */

/* Returns the nibble of element I: the low nibbles are elements 0 to 15, the high ones 16 to 31. */
static int nibble(const uint8_t *q, int i)
{
    return i < 16 ? q[i] & 15 : q[i - 16] >> 4;
}

/* Returns the fifth bit of element I. */
static int fifth(const uint8_t *h, int i)
{
    return ((h[i / 8] >> (i % 8)) & 1) << 4;
}

static void q4_0(const uint8_t *b, int first, int last, float *out)
{
    float d = half_at(b);

    for (int i = first; i < last; i++)
        out[i - first] = d * (float)(nibble(b + 2, i) - 8);
}

static void q4_1(const uint8_t *b, int first, int last, float *out)
{
    float d = half_at(b), m = half_at(b + 2);

    for (int i = first; i < last; i++)
        out[i - first] = d * (float)nibble(b + 4, i) + m;
}

static void q5_0(const uint8_t *b, int first, int last, float *out)
{
    float d = half_at(b);

    for (int i = first; i < last; i++)
        out[i - first] = d * (float)((nibble(b + 6, i) | fifth(b + 2, i)) - 16);
}

static void q5_1(const uint8_t *b, int first, int last, float *out)
{
    float d = half_at(b), m = half_at(b + 2);

    for (int i = first; i < last; i++)
        out[i - first] = d * (float)(nibble(b + 8, i) | fifth(b + 4, i)) + m;
}

static void q8_0(const uint8_t *b, int first, int last, float *out)
{
    float d = half_at(b);

    for (int i = first; i < last; i++)
        out[i - first] = (float)(int8_t)b[2 + i] * d;
}

/* Returns 2^(E - 128), half the value of an E8M0 scale, because the table holds doubled values. 255 is NaN
 * (OCP Microscaling 1.0; ggml reads it as one more power of two). */
static float half_scale(uint8_t e)
{
    uint32_t u = e < 2 ? 0x00200000u << e : e == 255 ? 0x7fc00000u : (uint32_t)(e - 1) << 23;
    float f;

    memcpy(&f, &u, 4);
    return f;
}

static void mxfp4(const uint8_t *b, int first, int last, float *out)
{
    static const int8_t doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    float d = half_scale(b[0]);

    for (int i = first; i < last; i++)
        out[i - first] = d * (float)doubled[nibble(b + 1, i)];
}

/* ---- stored groups of 256 ---- */

/* Layout: scales [16], quants [64], d, dmin; 16 groups of 16 with a 4-bit scale and a 4-bit minimum. */
static void q2_k(const uint8_t *b, int first, int last, float *out)
{
    const uint8_t *q = b + 16;
    float d = half_at(b + 80), dmin = half_at(b + 82);

    for (int g = first / 16; g < last / 16; g++) {
        float dl = d * (float)(b[g] & 15), ml = dmin * (float)(b[g] >> 4);

        for (int i = 16 * g; i < 16 * g + 16; i++)
            out[i - first] = dl * (float)((q[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2)) & 3) - ml;
    }
}

/* Layout: high bits [32], quants [64], scales [12], d; 16 groups of 16 with a 6-bit scale. */
static void q3_k(const uint8_t *b, int first, int last, float *out)
{
    const uint8_t *q = b + 32, *s = b + 96;
    float d = half_at(b + 108);

    for (int g = first / 16; g < last / 16; g++) {
        int low = g < 8 ? s[g] & 15 : s[g - 8] >> 4, high = (s[8 + g % 4] >> (g / 4 * 2)) & 3;
        float dl = d * (float)((low | (high << 4)) - 32);

        for (int i = 16 * g; i < 16 * g + 16; i++) {
            int v = (q[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2)) & 3;

            out[i - first] = dl * (float)(v - ((b[i % 32] >> (i / 32)) & 1 ? 0 : 4));
        }
    }
}

/* Reads the 6-bit scale and minimum of group G of 8, which are packed in 12 bytes. */
static void scale_min(const uint8_t *s, int g, int *scale, int *min)
{
    if (g < 4) {
        *scale = s[g] & 63;
        *min = s[g + 4] & 63;
    } else {
        *scale = (s[g + 4] & 15) | ((s[g - 4] >> 2) & 48);
        *min = (s[g + 4] >> 4) | ((s[g] >> 2) & 48);
    }
}

/* Layout: d, dmin, scales [12], in Q5_K the fifth bits [32], nibbles [128]; 8 groups of 32. */
static void q45_k(const uint8_t *b, int first, int last, float *out, const uint8_t *high, const uint8_t *q)
{
    float d = half_at(b), dmin = half_at(b + 2);

    for (int g = first / 32; g < last / 32; g++, out += 32) {
        int scale, min;
        float dl, ml;

        scale_min(b + 4, g, &scale, &min);
        dl = d * (float)scale;
        ml = dmin * (float)min;
        for (int i = 0; i < 32; i++) {
            int v = (q[g / 2 * 32 + i] >> (g % 2 * 4)) & 15;

            if (high)
                v |= ((high[i] >> g) & 1) << 4;
            out[i] = dl * (float)v - ml;
        }
    }
}

static void q4_k(const uint8_t *b, int first, int last, float *out)
{
    q45_k(b, first, last, out, NULL, b + 16);
}

static void q5_k(const uint8_t *b, int first, int last, float *out)
{
    q45_k(b, first, last, out, b + 16, b + 48);
}

/* Layout: low nibbles [128], high bits [64], scales [16], d; 16 groups of 16 with an 8-bit scale. */
static void q6_k(const uint8_t *b, int first, int last, float *out)
{
    const uint8_t *high = b + 128, *scale = b + 192;
    float d = half_at(b + 208);

    for (int g = first / 16; g < last / 16; g++) {
        float dl = d * (float)(int8_t)scale[g];

        for (int i = 16 * g; i < 16 * g + 16; i++) {
            int low = (b[i / 128 * 64 + i % 64] >> (i % 128 / 64 * 4)) & 15;
            int top = (high[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2)) & 3;

            out[i - first] = dl * (float)((low | (top << 4)) - 32);
        }
    }
}

/* ---- codes ---- */

static uint16_t word_at(const uint8_t *p)
{
    return (uint16_t)(p[0] | (p[1] << 8));
}

static void codes_of_32(struct quant_codes *out, const uint8_t *b, enum dtype t)
{
    bool min = t == DT_Q4_1 || t == DT_Q5_1, fifths = t == DT_Q5_0 || t == DT_Q5_1;
    const uint8_t *high = b + (min ? 4 : 2), *q = high + (fifths ? 4 : 0);

    out->d = word_at(b);
    if (min)
        out->min = word_at(b + 2);
    for (int i = 0; i < GROUP; i++)
        out->code[i] = t == DT_Q8_0 ? q[i] ^ 0x80 : (uint8_t)(nibble(q, i) | (fifths ? fifth(high, i) : 0));
}

/* Reads group G of a stored group of 256. */
static void codes_of_45_k(struct quant_codes *out, const uint8_t *b, int g, bool fifths)
{
    const uint8_t *high = b + 16, *q = fifths ? high + 32 : high;
    int scale, min;

    out->d = word_at(b);
    out->min = word_at(b + 2);
    scale_min(b + 4, g, &scale, &min);
    out->multiple[0] = (uint8_t)scale;
    out->multiple[1] = (uint8_t)min;
    for (int i = 0; i < GROUP; i++)
        out->code[i] =
            (uint8_t)(((q[g / 2 * 32 + i] >> (g % 2 * 4)) & 15) | (fifths ? ((high[i] >> g) & 1) << 4 : 0));
}

static void codes_of_6_k(struct quant_codes *out, const uint8_t *b, int g)
{
    const uint8_t *high = b + 128, *scale = b + 192;

    out->d = word_at(b + 208);
    memcpy(out->multiple, scale + 2 * g, 2);
    for (int j = 0; j < GROUP; j++) {
        int i = GROUP * g + j;
        int low = (b[i / 128 * 64 + i % 64] >> (i % 128 / 64 * 4)) & 15;

        out->code[j] = (uint8_t)(low | (((high[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2)) & 3) << 4));
    }
}

void quant_group(struct quant_codes *out, const void *src, enum dtype t, size_t i)
{
    size_t groups = dtype_group(t) / GROUP;
    const uint8_t *b = (const uint8_t *)src + i / groups * dtype_bytes(t);

    *out = (struct quant_codes){.d = 0};
    switch (t) {
    case DT_Q4_0:
    case DT_Q4_1:
    case DT_Q5_0:
    case DT_Q5_1:
    case DT_Q8_0: codes_of_32(out, b, t); break;
    case DT_Q4_K:
    case DT_Q5_K: codes_of_45_k(out, b, (int)(i % groups), t == DT_Q5_K); break;
    case DT_Q6_K: codes_of_6_k(out, b, (int)(i % groups)); break;
    default: ASSERT(false, "%d", (int)t);
    }
}

/* ---- fp32 ---- */

/* Decodes elements [first, last) of a stored group; both are multiples of 32. */
typedef void decode_fn(const uint8_t *group, int first, int last, float *out);

static decode_fn *const decode[DT_N] = {
    [DT_Q4_0] = q4_0, [DT_Q4_1] = q4_1, [DT_Q5_0] = q5_0,  [DT_Q5_1] = q5_1,
    [DT_Q8_0] = q8_0, [DT_Q2_K] = q2_k, [DT_Q3_K] = q3_k,  [DT_Q4_K] = q4_k,
    [DT_Q5_K] = q5_k, [DT_Q6_K] = q6_k, [DT_MXFP4] = mxfp4};

void quant_to_f32(float *dst, const void *src, enum dtype t, size_t first, size_t n)
{
    size_t group = dtype_group(t), bytes = dtype_bytes(t), skip = first % group;
    const uint8_t *b = (const uint8_t *)src + first / group * bytes;
    float room[MOST];

    ASSERT(dtype_is_grouped(t) && group <= MOST && group % GROUP == 0, "%d", (int)t);
    for (; n > 0; b += bytes, skip = 0) {
        size_t m = group - skip < n ? group - skip : n, from = skip / GROUP * GROUP;
        size_t to = (skip + m + GROUP - 1) / GROUP * GROUP;

        if (from == skip && to == skip + m) {
            decode[t](b, (int)from, (int)to, dst);
        } else {
            decode[t](b, (int)from, (int)to, room);
            memcpy(dst, room + (skip - from), m * sizeof(*dst));
        }
        dst += m;
        n -= m;
    }
}
