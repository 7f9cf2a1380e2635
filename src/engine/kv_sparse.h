/* kv_sparse.h - the option kv_sparse: layers keep and see only the first and the last rows of a sequence
 * (StreamingLLM, https://arxiv.org/abs/2309.17453), so that memory and time of a token do not grow with the
 * sequence.
 *
 * As in the paper, RoPE uses positions inside the cache: those of sink + window contiguous rows
 * (ops/eager_rope.c). The option is off by default.
 */
#ifndef GALLOP_ENGINE_KV_SPARSE_H
#define GALLOP_ENGINE_KV_SPARSE_H

#include "model/model.h"

struct kv_sparse {
    size_t sink, window; /* rows; window 0: off */
};

/* Parses TEXT, "sink=4,window=1024" in either order, into *S. NULL: off. */
int kv_sparse_read(struct kv_sparse *s, const char *text, struct err *e);

/* Sets the sink and window of the layers of M that see more than sink + window rows, except layers with
 * chunked attention (Llama 4). ERR_UNSUPPORTED: the positions of M cannot be those inside the cache. */
int kv_sparse_apply(const struct kv_sparse *s, struct model *m, struct err *e);

#endif
