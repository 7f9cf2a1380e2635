/* ggufname.h - the tensors of a GGUF checkpoint under the names and in the layout that Hugging Face gives
 * them.
 *
 * What GGUF's converters change is undone in the view: rows of Llama's q and k go back to halves, GPT-2's
 * matrices back to [in, out], Gemma's norm weights back to w - 1, stacked experts become one tensor each.
 * Bytes stay where they are, but for Gemma's norms. A tensor that is not known keeps its GGUF name, so that
 * it is reported as unused.
 */
#ifndef GALLOP_CKPT_GGUFNAME_H
#define GALLOP_CKPT_GGUFNAME_H

#include "ckpt/ggufarch.h"

/* Fills and seals s->file[] from s->part[]. */
int ggufname_fill(struct ggufset *s, const struct ggufarch *a, struct err *e);

#endif
