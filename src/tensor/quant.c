/* quant.c - reads stored groups of quantized elements, with one function for each layout, and decodes them to
 * fp32.
 *
 * The order of the operations is part of the format: d * q + m is a product and a sum, each rounded, never
 * fused. Bytes are read one by one, so a stored group may have any address, and machines of either byte order
 * read it alike. Callers read parts of rows, so only the requested groups of 32 of a stored group are
 * decoded.
 */
#include "tensor/quant.h"

#include <string.h>

#include "base/err.h"

const uint8_t quant_values[QUANT_N_VALUES][16] = {
    /* 16 plus twice the values of FP4 (E2M1): 0, 0.5, 1, 1.5, 2, 3, 4, 6, and the same negated. */
    [QUANT_FP4] = {16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4},
    /* 128 plus values of IQ4: -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113. */
    [QUANT_IQ4] = {1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241},
};

static uint16_t word_at(const uint8_t *p)
{
    return (uint16_t)(p[0] | (p[1] << 8));
}

/* ---- layouts ---- */

/* Sets OUT to the codes and scales of group number G (32 elements) of the stored group at B. */
typedef void read_fn(struct quant_codes *out, const uint8_t *b, int g, const struct quant_format *f);

/* Layout: d, which is a byte with an exponent if F has powers, else fp16; then min, if the format has minimums; then,
 * in formats of 5 bits, 4 bytes with the fifth bit of each code; then the codes. Codes of 8 bits are signed bytes. Of
 * smaller codes, the low nibbles are elements 0 to 15, the high nibbles 16 to 31. */
static void read_32(struct quant_codes *out, const uint8_t *b, int g, const struct quant_format *f)
{
    const uint8_t *fifth = b + (f->powers ? 1 : f->min ? 4 : 2), *q = fifth + (f->bits == 5 ? 4 : 0);

    (void)g;
    out->d = f->powers ? b[0] : word_at(b);
    if (f->min)
        out->min = word_at(b + 2);
    for (int i = 0; i < QUANT_SIZE; i++)
        if (f->bits == 8)
            out->code[i] = q[i] ^ 0x80;
        else
            out->code[i] = (uint8_t)((q[i % 16] >> (i / 16 * 4) & 15) |
                                     (f->bits == 5 ? (fifth[i / 8] >> (i % 8) & 1) << 4 : 0));
}

/* Layout: scales and minimums of 4 bits [16], codes of 2 bits [64], d, dmin; 16 groups of 16. */
static void read_q2_k(struct quant_codes *out, const uint8_t *b, int g, const struct quant_format *f)
{
    (void)f;
    out->d = word_at(b + 80);
    out->min = word_at(b + 82);
    memcpy(out->multiple, b + 2 * g, 2);
    for (int i = 0; i < QUANT_SIZE; i++)
        out->code[i] = (b[16 + g / 4 * 32 + i] >> (g % 4 * 2)) & 3;
}

/* Layout: high bits of the codes [32], their low 2 bits [64], scales of 6 bits [12], d; 16 groups of 16. */
static void read_q3_k(struct quant_codes *out, const uint8_t *b, int g, const struct quant_format *f)
{
    const uint8_t *s = b + 96;

    (void)f;
    out->d = word_at(b + 108);
    for (int h = 0; h < 2; h++) {
        int i = 2 * g + h, low = i < 8 ? s[i] & 15 : s[i - 8] >> 4;

        out->multiple[h] = (uint8_t)((low | ((s[8 + i % 4] >> (i / 4 * 2)) & 3) << 4) - 32);
    }
    for (int i = 0; i < QUANT_SIZE; i++)
        out->code[i] = (uint8_t)(((b[32 + g / 4 * 32 + i] >> (g % 4 * 2)) & 3) | ((b[i] >> g) & 1) << 2);
}

/* Layout: d, dmin, eight scales and minimums of 6 bits [12], in Q5_K fifth bits [32], nibbles [128]. */
static void read_q45_k(struct quant_codes *out, const uint8_t *b, int g, const struct quant_format *f)
{
    const uint8_t *s = b + 4, *high = b + 16, *q = f->bits == 5 ? high + 32 : high;

    out->d = word_at(b);
    out->min = word_at(b + 2);
    out->multiple[0] = g < 4 ? s[g] & 63 : (s[g + 4] & 15) | ((s[g - 4] >> 2) & 48);
    out->multiple[1] = g < 4 ? s[g + 4] & 63 : (s[g + 4] >> 4) | ((s[g] >> 2) & 48);
    for (int i = 0; i < QUANT_SIZE; i++)
        out->code[i] = (uint8_t)(((q[g / 2 * 32 + i] >> (g % 2 * 4)) & 15) |
                                 (f->bits == 5 ? ((high[i] >> g) & 1) << 4 : 0));
}

/* Layout: low nibbles of the codes [128], high 2 bits [64], scales [16], d; 16 groups of 16. */
static void read_q6_k(struct quant_codes *out, const uint8_t *b, int g, const struct quant_format *f)
{
    const uint8_t *low = b + g / 4 * 64 + g % 2 * 32, *high = b + 128 + g / 4 * 32;

    (void)f;
    out->d = word_at(b + 208);
    memcpy(out->multiple, b + 192 + 2 * g, 2);
    for (int i = 0; i < QUANT_SIZE; i++)
        out->code[i] = (uint8_t)(((low[i] >> (g % 4 / 2 * 4)) & 15) | (((high[i] >> (g % 4 * 2)) & 3) << 4));
}

/* Layout: d, upper 2 bits of the scales [2], lower nibbles of the scales [4], nibbles of the codes [128]; 8
 * groups of 32 with a scale of 6 bits. */
static void read_iq4_xs(struct quant_codes *out, const uint8_t *b, int g, const struct quant_format *f)
{
    const uint8_t *q = b + 8 + 16 * g;
    int low = b[4 + g / 2] >> (g % 2 * 4) & 15, high = word_at(b + 2) >> (2 * g) & 3;

    (void)f;
    out->d = word_at(b);
    out->multiple[0] = (uint8_t)((low | high << 4) - 32);
    for (int i = 0; i < QUANT_SIZE; i++)
        out->code[i] = q[i % 16] >> (i / 16 * 4) & 15;
}

static const struct {
    read_fn *read;
    struct quant_format format;
} formats[DT_N] = {
#define QUANT(name, gguf, elements, bytes, read, ...) [DT_##name] = {read, {__VA_ARGS__}},
#include "tensor/quant.def"
};

const struct quant_format *quant_format_of(enum dtype t)
{
    ASSERT(dtype_is_grouped(t), "%d", (int)t);
    return &formats[t].format;
}

void quant_group(struct quant_codes *out, const void *src, enum dtype t, size_t i)
{
    size_t groups = dtype_group(t) / QUANT_SIZE;

    *out = (struct quant_codes){.d = 0};
    formats[t].read(out, (const uint8_t *)src + i / groups * dtype_bytes(t), (int)(i % groups),
                    quant_format_of(t));
}

/* ---- fp32 ---- */

/* Returns 2^(E - 128), half of what the E8M0 scale E stands for, because quant_values[] holds doubled values.
 * E = 255 gives NaN (OCP Microscaling 1.0; ggml reads it as 2^128). */
static float power_of(unsigned e)
{
    uint32_t u = e < 2 ? 0x00200000u << e : e == 255 ? 0x7fc00000u : (uint32_t)(e - 1) << 23;
    float f;

    memcpy(&f, &u, 4);
    return f;
}

/* Returns the integer that multiplies d (I is 0) or min (I is 1) in half H of group Q. */
static float multiple_of(const struct quant_codes *q, const struct quant_format *f, int i, int h)
{
    if (!f->multiples)
        return 1;
    if (f->min && f->in_halves)
        return (float)(q->multiple[h] >> (4 * i) & 15);
    return f->min ? (float)q->multiple[i] : (float)(int8_t)q->multiple[f->in_halves ? h : 0];
}

static void decode(float out[QUANT_SIZE], const struct quant_codes *q, const struct quant_format *f)
{
    const float d = f->powers ? power_of(q->d) : dtype_f16_to_f32(q->d);
    const float min = dtype_f16_to_f32(q->min);

    for (int h = 0; h < 2; h++) {
        const float step = d * multiple_of(q, f, 0, h), low = min * multiple_of(q, f, 1, h);

        for (int i = 16 * h; i < 16 * h + 16; i++) {
            int value = f->values ? quant_values[f->values][q->code[i]] : q->code[i];

            out[i] = step * (float)(value - f->zero);
            if (f->min)
                out[i] = f->multiples ? out[i] - low : out[i] + low;
        }
    }
}

void quant_to_f32(float *dst, const void *src, enum dtype t, size_t first, size_t n)
{
    const struct quant_format *f = quant_format_of(t);

    while (n > 0) {
        size_t skip = first % QUANT_SIZE, m = QUANT_SIZE - skip < n ? QUANT_SIZE - skip : n;
        struct quant_codes q;
        float room[QUANT_SIZE];

        quant_group(&q, src, t, first / QUANT_SIZE);
        decode(m == QUANT_SIZE ? dst : room, &q, f);
        if (m < QUANT_SIZE)
            memcpy(dst, room + skip, m * sizeof(*dst));
        dst += m;
        first += m;
        n -= m;
    }
}
