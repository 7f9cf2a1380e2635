/* quantised.h - Hugging Face folders whose linears are stored as integers: GPTQ, AWQ and compressed-tensors.
 *
 * Each matrix X is added to the tensors as X.weight, in one of GGUF's formats (tensor/quant.h) with exactly the same
 * numbers: Q4_0 for 4 bits without zero points, Q5_0 for 4 bits with zero points (the difference of code and zero point
 * has 5 bits), Q8_0 for 8 bits. X.weight is fp32 if no format has the same numbers: if the group size is not a multiple
 * of 32, if desc_act gives groups of weights that are not neighbours, or if scales are not fp16.
 *
 * Formats: https://github.com/AutoGPTQ/AutoGPTQ (4 and 8 bits, "gptq" and "gptq_v2"),
 * https://github.com/casper-hansen/AutoAWQ ("gemm"), https://github.com/vllm-project/compressed-tensors
 * ("pack-quantized" of 4 bits, "int-quantized" of 8 bits with dynamic scales of inputs).
 */
#ifndef GALLOP_CKPT_QUANTISED_H
#define GALLOP_CKPT_QUANTISED_H

#include "base/err.h"

struct config;
struct folder;
struct pool;
struct quantised;
struct weights;

/* Converts every X.qweight, X.weight_packed or integer X.weight in W and adds it to W as X.weight, if C has a
 * quantization_config of one of the methods above, or else the folder IN has a quantize_config.json (AutoGPTQ) or
 * quant_config.json (AutoAWQ). *OUT owns the matrices and must outlive W. W NULL: the checkpoint is packed, and only
 * C's keys are marked. If there is no such method, or the method is mxfp4, which architectures read themselves, *OUT is
 * NULL and no key is marked. ERR_INPUT and ERR_UNSUPPORTED name the file and the tensor or key. */
int quantised_open(struct quantised **out, struct weights *w, struct config *c, struct folder in,
                   struct pool *pool, struct err *e);

/* Returns the number of matrices that were expanded to fp32. */
size_t quantised_unpacked(const struct quantised *q);

/* Returns the method: "gptq", "awq" or "compressed-tensors". */
const char *quantised_method(const struct quantised *q);

/* Frees the data of packed matrices. Views keep their names, shapes and types. Q may be NULL. */
void quantised_let_go(struct quantised *q);

void quantised_close(struct quantised *q); /* Q may be NULL */

#endif
