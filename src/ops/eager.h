/* eager.h - the op sink that computes each operator at once, in tasks for the threads of a pool.
 *
 * It owns the buffers that operators need between them (cosines, packed queries, the input and the
 * intermediate of an MLP, partial results of attention). They are sized for the largest step when the sink is
 * created, so that a step allocates nothing. One step at a time.
 */
#ifndef GALLOP_OPS_EAGER_H
#define GALLOP_OPS_EAGER_H

#include "base/err.h"
#include "base/threads/pool.h"
#include "ops/op.h"

struct eager_limits {
    /* Rows and sequences of a step, positions of a sequence. */
    size_t max_tokens;
    size_t max_seqs;
    size_t max_len;
    /* The largest numbers of the layers. */
    size_t n_heads, n_kv, head_dim;
    /* The largest I of an MLP. */
    size_t inner;
    /* Pairs that each rope of the model rotates; 0: the model does not have that rope. */
    size_t rope_half[2];
    /* The largest K of the linears. */
    size_t linear_k;
    /* The largest numbers of the mixtures of experts; 0: there are none. */
    size_t n_experts, top_k;
    /* The largest I of an expert. */
    size_t expert_inner;
    /* E */
    size_t hidden;
    /* [L] borrowed. NULL: rows see what struct op_attn says. Otherwise a row of a layer without chunks sees the
     * last window[l] rows and the first sink[l] rows, with positions as if these were adjacent. */
    const size_t *window, *sink;
    /* sink + window of the layers that have a sink; it is the same in all of them. */
    size_t seen;
    /* Type of the rows in the cache: DT_F32, DT_BF16, DT_I8 or DT_I4. */
    enum dtype kv_dtype;
    /* Borrowed for as long as the sink exists. */
    const struct kern *kern;
    /* The user asked for the reference kernels for this kind of operator. */
    bool native[OP_N_KINDS];
};

struct eager;

/* Creates a sink that computes on POOL, which is borrowed. */
int eager_new(struct eager **out, const struct eager_limits *lim, struct pool *pool, struct err *e);

const struct op_sink *eager_sink(const struct eager *g);

/* Returns the bytes of the sink's buffers. */
size_t eager_bytes(const struct eager *g);

/* Sets where tap() writes hidden states: [L + 1, ROWS, E], from row AT of each layer. NULL: they are not
 * captured. */
void eager_capture(struct eager *g, float *hidden, size_t rows, size_t at);

/* NULL is allowed. */
void eager_free(struct eager *g);

#endif
