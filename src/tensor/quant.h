/* quant.h - blocks of quantised elements, as GGUF files store them, to fp32.
 *
 * A tensor of such a dtype is a run of blocks of dtype_block() elements in row-major order; a row is a whole
 * number of blocks. Each element comes out bit for bit as gguf-py's gguf.dequantize() gives it (the products
 * and sums of the format in fp32, each rounded once). Those who compute on the integers themselves get them
 * from quant_group(). Formats: ggml's block layouts, https://github.com/ggml-org/llama.cpp
 * (gguf-py/gguf/quants.py).
 */
#ifndef GALLOP_TENSOR_QUANT_H
#define GALLOP_TENSOR_QUANT_H

#include <stddef.h>

#include "tensor/dtype.h"

/* Elements [first, first + n) of the run of blocks at SRC (any alignment). T must satisfy
 * dtype_is_block(). */
void quant_to_f32(float *dst, const void *src, enum dtype t, size_t first, size_t n);

/* 32 elements as they are stored: without a sign, of up to 8 bits (Q8_0: 128 added). An element is D * (code
 * - zero of the format), or D * code + MIN; in blocks of 256 times MULTIPLE, of each half or [0] of d and [1]
 * of the minimum, which is taken away. */
struct quant_codes {
    uint8_t code[32];
    uint16_t d, min;     /* halves */
    uint8_t multiple[2]; /* Q6_K: int8 */
};

/* Group I of the run of blocks at SRC. T is Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K or Q6_K. */
void quant_group(struct quant_codes *out, const void *src, enum dtype t, size_t i);

#endif
