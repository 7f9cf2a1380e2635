/* quantised.h - Hugging Face folders whose linears are stored as integers: GPTQ, AWQ and compressed-tensors.
 *
 * Each matrix X is added to the tensors as X.weight, in groups of GGUF's formats (tensor/quant.h) with the
 * same numbers: 4 bits without a zero point as Q4_0, with one as Q5_0, whose fifth bit takes the difference
 * of code and zero point, 8 bits as Q8_0. So nothing is rounded, and all code that reads GGUF's formats reads
 * these. Where this is impossible (groups whose size is not a multiple of 32 or, with desc_act, whose members
 * are not neighbours; scales that are not fp16) X.weight is fp32.
 *
 * Formats: https://github.com/AutoGPTQ/AutoGPTQ (4 and 8 bits, "gptq" and "gptq_v2"),
 * https://github.com/casper-hansen/AutoAWQ ("gemm"), https://github.com/vllm-project/compressed-tensors
 * ("pack-quantized" of 4 bits, "int-quantized" of 8 bits with dynamic scales of inputs).
 */
#ifndef GALLOP_CKPT_QUANTISED_H
#define GALLOP_CKPT_QUANTISED_H

#include "base/err.h"
#include "base/threads/pool.h"
#include "ckpt/config.h"
#include "ckpt/weights.h"

struct quantised;

/* If C has a quantization_config of one of these methods, or else the folder IN has a quantize_config.json
 * (AutoGPTQ) or quant_config.json (AutoAWQ), makes X.weight of every X.qweight, X.weight_packed or integer
 * X.weight in W and adds it to W; *OUT owns the matrices and outlives W. W NULL: the matrices were packed,
 * and only C's keys are marked. For mxfp4, which models read themselves, and without a method, *OUT is NULL
 * and no key is marked. ERR_INPUT and ERR_UNSUPPORTED name the file and the tensor or key. */
int quantised_open(struct quantised **out, struct weights *w, struct config *c, struct folder in,
                   struct pool *pool, struct err *e);

/* The number of matrices that became fp32. */
size_t quantised_unpacked(const struct quantised *q);

/* "gptq", "awq", "compressed-tensors". */
const char *quantised_method(const struct quantised *q);

/* Frees the data of the matrices after they were packed. Views keep names, shapes and types. NULL is fine. */
void quantised_let_go(struct quantised *q);

void quantised_close(struct quantised *q); /* NULL is fine */

#endif
