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
    DT_F64,
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

    /* 4-bit rows of a KV cache; no tensor has this type (kern/format/attn_i4.h). */
    DT_I4,

/* The quantized types (quant.h). */
#define QUANT(name, ...) DT_##name,
#include "tensor/quant.def"
    DT_N
};

/* Returns the number of elements that are stored together: 32 for a quantization group, 256 for formats whose
 * groups have integer scales with a common factor (Q4_K, ...), 1 for plain types. */
size_t dtype_group(enum dtype t);

/* Returns the bytes of dtype_group() elements. */
size_t dtype_bytes(enum dtype t);

/* Returns true for the quantized types, whose elements are stored in groups (quant.h). */
bool dtype_is_grouped(enum dtype t);

/* Returns the name that safetensors or GGUF gives the type: "F32", "BF16", "Q4_K", ... */
const char *dtype_name(enum dtype t);

/* Sets *T to the plain type whose safetensors name is the N bytes at S. Returns false if there is none. */
bool dtype_of_name(const char *s, size_t n, enum dtype *t);

/* Returns true for the types that weights may have: F32, F16, BF16 and the quantized types. */
bool dtype_is_weight(enum dtype t);

static inline float dtype_bf16_to_f32(uint16_t h)
{
    uint32_t u = (uint32_t)h << 16;
    float f;

    memcpy(&f, &u, 4);
    return f;
}

/* Rounds F to bf16, to nearest, ties to even; a NaN becomes a quiet NaN. */
static inline uint16_t dtype_f32_to_bf16(float f)
{
    uint32_t u;

    memcpy(&u, &f, 4);
    if ((u & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)((u >> 16) | 0x40);
    return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1)) >> 16);
}

float dtype_f16_to_f32(uint16_t h);

/* Rounds F to fp16, to nearest, ties to even; overflow gives infinity. */
uint16_t dtype_f32_to_f16(float f);

/* Returns true if all of the N adjacent numbers of type T (F32, F16 or BF16) at X are finite. */
bool dtype_all_finite(const void *x, size_t n, enum dtype t);

/* Converts N elements of type T (F32, F16 or BF16), STRIDE elements apart at any address SRC, to fp32. */
void dtype_to_f32(float *dst, const void *src, enum dtype t, size_t n, size_t stride);

#endif
