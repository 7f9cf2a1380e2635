/* llama.h - Llama's layer, for the families that differ from Llama only in what they bind. */
#ifndef GALLOP_MODEL_LLAMA_H
#define GALLOP_MODEL_LLAMA_H

#include "model/block.h"

/* struct model_arch, layer. */
void llama_layer(const struct block_layer *w, size_t l, const struct sink *o, struct work *s,
                 const struct batch *b);

#endif
