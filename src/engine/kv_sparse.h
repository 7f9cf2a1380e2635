/* kv_sparse.h - sequences of which only the first rows and the last ones are kept and seen (StreamingLLM,
 * https://arxiv.org/abs/2309.17453): memory and time of a token stop growing, and what lies between is
 * forgotten.
 *
 * Positions are the paper's, those inside the cache: sink + window rows that stand directly behind each other
 * (ops/eager_rope.c). Asked for by the user, never a default.
 */
#ifndef GALLOP_ENGINE_KV_SPARSE_H
#define GALLOP_ENGINE_KV_SPARSE_H

#include "model/model.h"

struct kv_sparse {
    size_t sink, window; /* rows; window 0: off */
};

/* "sink=4,window=1024", in either order, into S; NULL is off. */
int kv_sparse_read(struct kv_sparse *s, const char *text, struct err *e);

/* Layers of M that see more than sink + window rows have that sink and that window from now on; those with
 * chunks (Llama 4) stay as they are. ERR_UNSUPPORTED where positions cannot be counted inside the cache. */
int kv_sparse_apply(const struct kv_sparse *s, struct model *m, struct err *e);

#endif
