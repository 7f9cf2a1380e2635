/* self_draft.h - guesses of the model itself with int4 weights (the method "self"): a second set of packed weights of
 * the same checkpoint computes KV rows after the target's own, and the verification computes them again. There is no
 * second KV cache, no prompt to compute, and no training.
 *
 * Only a model whose weights are not quantized gains from it: the copy takes about 0.28 of the time and of the memory
 * of bf16 weights.
 */
#ifndef GALLOP_ENGINE_GUESS_SELF_DRAFT_H
#define GALLOP_ENGINE_GUESS_SELF_DRAFT_H

#include <stddef.h>

struct err;
struct gallop_options;
struct llm;
struct self_draft;
struct seq;

/* Packs the int4 weights of TARGET, which is borrowed. The caller has unblocked SIGBUS. MOST: maximum number of guesses
 * of a sequence. ERR_UNSUPPORTED: the weights of TARGET are quantized. ERR_NOMEM, or an error of model_open(). */
int self_draft_open(struct self_draft **out, const struct gallop_options *o, struct llm *target, size_t most,
                    struct err *e);
void self_draft_close(struct self_draft *d); /* D may be NULL */

size_t self_draft_bytes(const struct self_draft *d); /* the bytes of the weights */

/* The function propose of struct guess_maker. KV rows that it reserves are given back. */
void self_draft_propose(struct self_draft *d, struct seq **seq, size_t n);

#endif
