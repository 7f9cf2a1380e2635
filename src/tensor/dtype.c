/* dtype.c - names, sizes and conversions of dtypes. */
#include "tensor/dtype.h"

#include "base/err.h"

static const struct {
    const char *name;
    size_t bytes, group; /* group 0: a plain type; bytes 0: a type that no tensor has */
} table[DT_N] = {
    [DT_F32] = {"F32", 4, 0},   [DT_F16] = {"F16", 2, 0},         [DT_BF16] = {"BF16", 2, 0},
    [DT_F64] = {"F64", 8, 0},   [DT_I64] = {"I64", 8, 0},         [DT_I32] = {"I32", 4, 0},
    [DT_I16] = {"I16", 2, 0},   [DT_I8] = {"I8", 1, 0},           [DT_U8] = {"U8", 1, 0},
    [DT_BOOL] = {"BOOL", 1, 0}, [DT_F8_E4M3] = {"F8_E4M3", 1, 0}, [DT_F8_E5M2] = {"F8_E5M2", 1, 0},
    [DT_U16] = {"U16", 2, 0},   [DT_U32] = {"U32", 4, 0},         [DT_U64] = {"U64", 8, 0},
    [DT_I4] = {"I4", 0, 0},
#define QUANT(name, gguf, elements, bytes, ...) [DT_##name] = {#name, bytes, elements},
#include "tensor/quant.def"
};

size_t dtype_group(enum dtype t)
{
    return table[t].group ? table[t].group : 1;
}

size_t dtype_bytes(enum dtype t)
{
    return table[t].bytes;
}

bool dtype_is_grouped(enum dtype t)
{
    return table[t].group != 0;
}

const char *dtype_name(enum dtype t)
{
    return table[t].name;
}

bool dtype_of_name(const char *s, size_t n, enum dtype *t)
{
    for (int i = 0; i < DT_N; i++)
        if (!table[i].group && table[i].bytes && strlen(table[i].name) == n &&
            memcmp(table[i].name, s, n) == 0) {
            *t = (enum dtype)i;
            return true;
        }
    return false;
}

bool dtype_is_weight(enum dtype t)
{
    return t == DT_F32 || t == DT_F16 || t == DT_BF16 || dtype_is_grouped(t);
}

float dtype_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exp = (h >> 10) & 0x1f, man = h & 0x3ff, u;
    float f;

    if (exp == 0x1f) {
        u = sign | 0x7f800000u | (man << 13);
    } else if (exp) {
        u = sign | ((exp + 112) << 23) | (man << 13);
    } else { /* zero or subnormal: man x 2^-24, exact in fp32 */
        f = (float)man * 0x1p-24f;
        memcpy(&u, &f, 4);
        u |= sign;
    }
    memcpy(&f, &u, 4);
    return f;
}

uint16_t dtype_f32_to_f16(float f)
{
    uint32_t u, sign, man;
    int exp;

    memcpy(&u, &f, 4);
    sign = (u >> 16) & 0x8000;
    u &= 0x7fffffffu;
    if (u > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00 | ((u >> 13) & 0x3ff));
    if (u >= 0x477ff000u) /* 65520 and above are rounded to infinity */
        return (uint16_t)(sign | 0x7c00);
    exp = (int)(u >> 23) - 112;
    if (exp <= 0) { /* subnormal: shift the full significand, round to nearest even */
        int shift = 14 - exp;
        uint32_t half, rest;

        if (shift > 24)
            return (uint16_t)sign;
        man = (u & 0x7fffff) | 0x800000;
        half = 1u << (shift - 1);
        rest = man & ((1u << shift) - 1);
        man >>= shift;
        if (rest > half || (rest == half && (man & 1)))
            man++;
        return (uint16_t)(sign | man);
    }
    u += 0xfff + ((u >> 13) & 1);
    return (uint16_t)(sign | ((u >> 13) - (112u << 10)));
}

/* Reads two bytes at any address. Stored elements may be unaligned, so they are copied. */
static inline uint16_t load16(const char *p)
{
    uint16_t h;

    memcpy(&h, p, 2);
    return h;
}

void dtype_to_f32(float *dst, const void *src, enum dtype t, size_t n, size_t stride)
{
    const char *p = src;

    if (t == DT_F32 && stride == 1) {
        memcpy(dst, src, n * 4);
    } else if (t == DT_F32) {
        for (size_t i = 0; i < n; i++)
            memcpy(&dst[i], p + i * stride * 4, 4);
    } else if (t == DT_BF16) {
        for (size_t i = 0; i < n; i++)
            dst[i] = dtype_bf16_to_f32(load16(p + i * stride * 2));
    } else {
        for (size_t i = 0; i < n; i++)
            dst[i] = dtype_f16_to_f32(load16(p + i * stride * 2));
    }
}

bool dtype_all_finite(const void *x, size_t n, enum dtype t)
{
    /* Without sign bits, bit patterns compare like the absolute values. Adding ADD to a word of two or four numbers
     * carries into the sign bit of each infinite or NaN number, and never into the next number. */
    static const struct {
        uint64_t size, add;
    } of[] = {[DT_F32] = {UINT64_C(0x7fffffff7fffffff), UINT64_C(0x0080000000800000)},
              [DT_F16] = {UINT64_C(0x7fff7fff7fff7fff), UINT64_C(0x0400040004000400)},
              [DT_BF16] = {UINT64_C(0x7fff7fff7fff7fff), UINT64_C(0x0080008000800080)}};
    const char *p = x;
    size_t bytes = n * dtype_bytes(t);
    uint64_t any = 0, word = 0;

    ASSERT(t == DT_F32 || t == DT_F16 || t == DT_BF16, "%s", dtype_name(t));
    for (; bytes >= sizeof(word); bytes -= sizeof(word), p += sizeof(word)) {
        memcpy(&word, p, sizeof(word));
        any |= (word & of[t].size) + of[t].add;
    }
    word = 0;
    memcpy(&word, p, bytes);
    any |= (word & of[t].size) + of[t].add;
    return !(any & ~of[t].size);
}
