/* kv_sparse.h - the option kv_sparse: layers keep and attend to only the first and the last rows of a
 * sequence (StreamingLLM, https://arxiv.org/abs/2309.17453), so that memory and time per token do not grow
 * with the length of the sequence.
 *
 * As in the paper, RoPE uses positions inside the cache, as if the sink rows and the window rows were
 * contiguous (ops/eager/eager_rope.c). The option is off by default. */
#ifndef GALLOP_ENGINE_KV_SPARSE_H
#define GALLOP_ENGINE_KV_SPARSE_H

#include <stddef.h>

struct err;
struct model;

struct kv_sparse {
    size_t sink, window; /* numbers of rows; window 0: all rows are seen */
};

/* Parses TEXT, "sink=4,window=1024" in either order, into *S. NULL: off. */
int kv_sparse_read(struct kv_sparse *s, const char *text, struct err *e);

/* Sets the sink and window of the layers of M that attend to more than sink + window rows, except layers with
 * chunked attention (Llama 4). ERR_UNSUPPORTED: M cannot use positions inside the cache. */
int kv_sparse_apply(const struct kv_sparse *s, struct model *m, struct err *e);

#endif
