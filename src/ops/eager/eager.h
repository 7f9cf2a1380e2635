/* eager.h - the op sink that computes each operator at once, in tasks for the threads of a pool.
 *
 * The sink owns the buffers that operators need between them (cosines, packed queries, the input and the
 * intermediate of an MLP, partial results of attention). These buffers are sized for the largest step when
 * the sink is created, so that a step allocates nothing. A sink computes one step at a time.
 */
#ifndef GALLOP_OPS_EAGER_H
#define GALLOP_OPS_EAGER_H

#include "base/err.h"
#include "ops/linear.h"
#include "tensor/dtype.h"

struct op_sink;
struct pool;

/* The sizes for which a sink allocates its buffers, and its kernels. */
struct eager_limits {
    /* Maximum rows and maximum sequences of a step, and maximum positions of a sequence. */
    size_t max_tokens;
    size_t max_seqs;
    size_t max_len;
    /* The largest number of heads and of KV heads, and the largest head size, of any layer. */
    size_t n_heads, n_kv, head_dim;
    /* The largest intermediate size I of an MLP. */
    size_t inner;
    /* Number of pairs of dims that each rope of the model rotates; 0: the model does not have that rope. */
    size_t rope_half[2];
    /* The largest input size K of a linear. */
    size_t linear_k;
    /* The largest number of experts, and of experts for each token, of any layer; 0: no experts. */
    size_t n_experts, top_k;
    /* The largest intermediate size I of an expert. */
    size_t expert_inner;
    /* The hidden size E. */
    size_t hidden;
    /* Windows and sinks of a sparse cache, [L] each, borrowed. A row of layer l, unless it has chunks, sees
     * the last window[l] rows and the first sink[l] rows, with positions as if both were adjacent. NULL:
     * struct op_attn decides which rows are seen. */
    const size_t *window, *sink;
    /* sink + window of the layers that have a sink, the same in all of them; 0: no layer has a sink. */
    size_t seen;
    /* Type of the rows in the cache: DT_F32, DT_BF16, DT_I8 or DT_I4. */
    enum dtype kv_dtype;
    /* The engine's kernels; borrowed for as long as the sink exists. */
    const struct kern *kern;
    /* For each kind of operators: true if it uses the reference kernels (backend "native"). */
    bool native[OP_N_KINDS];
};

struct eager;

/* Creates a sink that computes on POOL, which is borrowed. */
int eager_new(struct eager **out, const struct eager_limits *lim, struct pool *pool, struct err *e);

const struct op_sink *eager_sink(const struct eager *g);

/* Returns the bytes of the sink's buffers. */
size_t eager_bytes(const struct eager *g);

/* Sets the buffer to which tap() writes hidden states, [L + 1, ROWS, E], beginning with row AT of each layer.
 * NULL: hidden states are not captured. */
void eager_capture(struct eager *g, float *hidden, size_t rows, size_t at);

/* G may be NULL. */
void eager_free(struct eager *g);

#endif
