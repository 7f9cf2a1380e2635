/* dtype.h - element types of stored tensors, and the exact conversions between the floating ones. */
#ifndef GALLOP_TENSOR_DTYPE_H
#define GALLOP_TENSOR_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum dtype {
    DT_F32,
    DT_F16,
    DT_BF16,
    DT_F64, /* floating */
    DT_I64,
    DT_I32,
    DT_I16,
    DT_I8,
    DT_U8,
    DT_BOOL,
    DT_F8_E4M3,
    DT_F8_E5M2,
    DT_U16,
    DT_U32,
    DT_U64,
    DT_N
};

size_t dtype_bytes(enum dtype t);     /* of one element */
const char *dtype_name(enum dtype t); /* as safetensors spells it: "F32", "BF16", ... */
bool dtype_of_name(const char *s, size_t n, enum dtype *t);
bool dtype_is_weight(enum dtype t); /* F32, F16 or BF16: what a linear, norm or embedding can be read from */

static inline float dtype_bf16_to_f32(uint16_t h)
{
    uint32_t u = (uint32_t)h << 16;
    float f;

    memcpy(&f, &u, 4);
    return f;
}

/* Round to nearest, ties to even; NaN stays a (quiet) NaN. */
static inline uint16_t dtype_f32_to_bf16(float f)
{
    uint32_t u;

    memcpy(&u, &f, 4);
    if ((u & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1)) >> 16);
}

float dtype_f16_to_f32(uint16_t h);
uint16_t dtype_f32_to_f16(float f); /* nearest even; overflow gives infinity */

/* N elements at SRC (any alignment, stride in elements) to fp32. T must satisfy dtype_is_weight(). */
void dtype_to_f32(float *dst, const void *src, enum dtype t, size_t n, size_t stride);

#endif
