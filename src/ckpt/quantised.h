/* quantised.h - Hugging Face folders whose linears are stored as integers: GPTQ, AWQ and compressed-tensors.
 *
 * Each matrix X appears among the tensors as X.weight, in blocks of GGUF (tensor/quant.h) that hold the same
 * numbers: 4 bits without a zero point of their own as Q4_0, with one as Q5_0, whose fifth bit takes the
 * difference of code and zero point, 8 bits as Q8_0. So nothing is rounded, and all that reads GGUF's blocks
 * reads these. Where that cannot be (groups that are no multiple of 32 or, as desc_act makes them, no
 * neighbours; scales that are no halves) X.weight is fp32.
 *
 * Formats: https://github.com/AutoGPTQ/AutoGPTQ (4 and 8 bits, "gptq" and "gptq_v2"),
 * https://github.com/casper-hansen/AutoAWQ ("gemm"), https://github.com/vllm-project/compressed-tensors
 * ("pack-quantized" of 4 bits, "int-quantized" of 8 with scales of inputs found as they come).
 */
#ifndef GALLOP_CKPT_QUANTISED_H
#define GALLOP_CKPT_QUANTISED_H

#include "base/err.h"
#include "base/threads/pool.h"
#include "ckpt/config.h"
#include "ckpt/weights.h"

struct quantised;

/* Where C has a quantization_config of these, or else the folder IN a quantize_config.json (AutoGPTQ) or
 * quant_config.json (AutoAWQ), makes X.weight of every X.qweight, X.weight_packed or X.weight
 * of integers in W and adds it there; *OUT owns them and outlives W. W NULL: they were packed, and C is only
 * marked. Of mxfp4, which models read, and of none, *OUT is NULL and nothing of C is marked. ERR_INPUT and
 * ERR_UNSUPPORTED name the file and the tensor or key. */
int quantised_open(struct quantised **out, struct weights *w, struct config *c, struct folder in,
                   struct pool *pool, struct err *e);

/* How many matrices became fp32. */
size_t quantised_unpacked(const struct quantised *q);

/* "gptq", "awq", "compressed-tensors". */
const char *quantised_method(const struct quantised *q);

/* The matrices were packed elsewhere; views keep names, shapes and types, and lose their data. NULL is
 * fine. */
void quantised_let_go(struct quantised *q);

void quantised_close(struct quantised *q); /* NULL is fine */

#endif
