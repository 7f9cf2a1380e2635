/* quant.h - blocks of quantised elements, as GGUF files store them, to fp32.
 *
 * A tensor of such a dtype is a run of blocks of dtype_block() elements in row-major order; a row is a whole
 * number of blocks. Each element comes out bit for bit as gguf-py's gguf.dequantize() gives it (the products
 * and sums of the format in fp32, each rounded once). Nothing here computes on quantised values. Formats:
 * ggml's block layouts, https://github.com/ggml-org/llama.cpp (gguf-py/gguf/quants.py).
 */
#ifndef GALLOP_TENSOR_QUANT_H
#define GALLOP_TENSOR_QUANT_H

#include <stddef.h>

#include "tensor/dtype.h"

/* Elements [first, first + n) of the run of blocks at SRC (any alignment). T must satisfy
 * dtype_is_block(). */
void quant_to_f32(float *dst, const void *src, enum dtype t, size_t first, size_t n);

#endif
