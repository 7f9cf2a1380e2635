/* timed.h - an op sink that forwards to another sink and adds up the seconds of each kind of operator, and
 * the bytes and operations that it needs at least.
 *
 * Bytes are those of weights and of rows of the KV cache, with padding and scales, which come from memory;
 * activations stay in caches and are not counted. Of a mixture of experts, the expected number of chosen
 * experts is counted. Each operator costs two readings of the clock, which need no system call. Without a
 * sink to forward to, it counts what a step would need and computes nothing.
 */
#ifndef GALLOP_OPS_TIMED_H
#define GALLOP_OPS_TIMED_H

#include <stdint.h>

#include "ops/op.h"

/* TIMED_OTHER: embeddings and elementwise operators. */
enum { TIMED_OTHER = OP_N_KINDS, TIMED_N_KINDS };
enum { TIMED_MAX_PARTS = 3 };

/* Sums since timed_open(). SECONDS is without waiting if a pool is given. */
struct timed_kind {
    double seconds, bytes, flops;
};

/* What one pass over memory needs: a linear, the up linears of the experts, attention. */
struct timed_part {
    double bytes, flops;
    /* The type of the arithmetic; of attention: of the rows in the cache. */
    enum dtype dtype;
};

/* One operator of a step. Its parts run one after the other, so an ideal machine takes the sum over the parts
 * of the larger of the times for bytes and for operations. */
struct timed_op {
    int kind;
    /* The name of the linear, of an MLP's up linear or of a router; otherwise "norm", "attention", ...;
     * borrowed. */
    const char *name;
    /* NAME is that of the first of several linears. */
    bool is_module;
    /* With waiting. */
    double seconds;
    struct timed_part part[TIMED_MAX_PARTS];
    size_t n_parts;
};

typedef void timed_fn(void *ctx, const struct timed_op *op);

struct timed {
    /* The sink that the model calls. */
    struct op_sink sink;
    /* The sink that computes. NULL: nothing is computed. */
    const struct op_sink *to;
    /* [layers] of a sparse cache. NULL: rows see what struct op_attn says. */
    const size_t *window, *n_sink;
    /* Type of the rows in the cache. */
    enum dtype kv_dtype;
    /* The pool on which operators run. NULL, which timed_open() sets: waiting is counted as work. */
    const struct pool *pool;
    /* Called at the end of every operator; or NULL. */
    timed_fn *each;
    void *each_ctx;
    /* Time in which the caller's thread had finished its tasks and another thread had not. */
    double waited_seconds;
    /* What the pool had waited when the current operator began. */
    uint64_t waited_ns;
    struct timed_kind kind[TIMED_N_KINDS];
};

/* All pointers are borrowed. WINDOW and N_SINK: as in struct eager_limits. */
void timed_open(struct timed *t, const struct op_sink *to, enum dtype kv_dtype, const size_t *window,
                const size_t *n_sink);

/* Returns "norm", "qkv_projection", ... "other". */
const char *timed_name(int kind);

#endif
