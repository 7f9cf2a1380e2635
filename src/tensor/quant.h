/* quant.h - quantized elements, as GGUF files store them: their codes and scales, and their values in fp32.
 *
 * A tensor of a quantized dtype is an array of stored groups of dtype_group() elements in row-major order; a
 * row is a whole number of stored groups. quant.def lists the formats. The decoded elements have the same
 * bits as those of gguf-py's gguf.dequantize(): the products and sums of the format in fp32, each rounded
 * once. Formats: the block layouts of ggml, https://github.com/ggml-org/llama.cpp (gguf-py/gguf/quants.py).
 */
#ifndef GALLOP_TENSOR_QUANT_H
#define GALLOP_TENSOR_QUANT_H

#include <stddef.h>

#include "tensor/dtype.h"

enum { QUANT_SIZE = 32 }; /* elements of a group that is decoded at once; stored groups are multiples of it */

/* The value of a code: the code itself (QUANT_LINEAR), or the entry of a table that the code selects. */
enum quant_values { QUANT_LINEAR, QUANT_FP4, QUANT_IQ4, QUANT_N_VALUES };

/* The tables of values. The zero point of the format has been added to each entry, so that all are
 * unsigned. */
extern const uint8_t quant_values[QUANT_N_VALUES][16];

/* How a format computes its elements from codes and scales.
 *
 * An element is d * (value - zero), or in formats with a minimum d * value + min, where the value is the code
 * or an entry of a table. The scale D and MIN are fp16 numbers that 32 elements share; in formats with
 * POWERS, d is stored as a byte and stands for 2^(byte - 128). With MULTIPLES, small integers multiply d and
 * min:
 *   with MIN        multiple[0] multiplies d, and multiple[1] multiplies min, which is then subtracted
 *   with IN_HALVES  multiple[h] belongs to half h, 16 of the 32 elements. It is signed and multiplies d
 *   with both       multiple[h] belongs to half h; its low nibble multiplies d, and its high nibble multiplies
 *                   min, which is then subtracted
 *   with neither    multiple[0] is signed and multiplies d */
struct quant_format {
    unsigned bits; /* bits of a code: 2 to 6, or 8 */
    int zero;      /* the value that decodes to 0; unused in formats with a minimum */
    bool min, multiples;
    bool in_halves;
    bool powers;
    enum quant_values values;
};

/* Returns how the quantized dtype T computes its elements. T must satisfy dtype_is_grouped(). */
const struct quant_format *quant_format_of(enum dtype t);

/* The codes and scales of one group of 32 elements, as struct quant_format describes. */
struct quant_codes {
    uint8_t code[QUANT_SIZE];
    uint16_t d, min;
    uint8_t multiple[2];
};

/* Reads group number I, counted in groups of 32 elements, from the stored groups of type T at SRC (any
 * alignment). */
void quant_group(struct quant_codes *out, const void *src, enum dtype t, size_t i);

/* Converts elements [first, first + n) of the stored groups at SRC (any alignment) to fp32. */
void quant_to_f32(float *dst, const void *src, enum dtype t, size_t first, size_t n);

#endif
