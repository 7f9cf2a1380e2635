/* quant.h - converts quantized elements, as GGUF files store them, to fp32.
 *
 * A tensor of a quantized dtype is an array of stored groups of dtype_group() elements in row-major order; a
 * row is a whole number of them. Each element has the same bits as in gguf-py's gguf.dequantize(): the
 * products and sums of the format in fp32, each rounded once. Backends that compute with the integers read
 * them with quant_group(). Formats: the block layouts of ggml, https://github.com/ggml-org/llama.cpp
 * (gguf-py/gguf/quants.py).
 */
#ifndef GALLOP_TENSOR_QUANT_H
#define GALLOP_TENSOR_QUANT_H

#include <stddef.h>

#include "tensor/dtype.h"

/* Converts elements [first, first + n) of the stored groups at SRC (any alignment). T must satisfy
 * dtype_is_grouped(). */
void quant_to_f32(float *dst, const void *src, enum dtype t, size_t first, size_t n);

/* The codes and scales of 32 elements.
 *
 * Codes are unsigned, of up to 8 bits (Q8_0: 128 is added). An element is D * (code - zero point of the
 * format), or D * code + MIN. In the K formats MULTIPLE scales these: in Q6_K, MULTIPLE[i] is an int8 that
 * multiplies D for half I of the group; in Q4_K and Q5_K, MULTIPLE[0] multiplies D, and MULTIPLE[1] multiplies
 * MIN, which is subtracted. D and MIN are fp16. */
struct quant_codes {
    uint8_t code[32];
    uint16_t d, min;
    uint8_t multiple[2];
};

/* Reads group I, of 32 elements, of the stored groups at SRC. T is Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K or Q6_K. */
void quant_group(struct quant_codes *out, const void *src, enum dtype t, size_t i);

#endif
