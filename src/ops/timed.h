/* timed.h - a sink in front of another that adds up what each kind of operator takes: seconds, and the bytes
 * and operations that it cannot do without.
 *
 * Bytes are those of weights and of rows of the KV cache, with their padding and scales, which come from
 * memory; activations stay in the caches and are not counted. Of a mixture of experts those are counted that
 * the rows of a step are expected to choose. Two readings of the clock an operator, which need no system
 * call. Without a sink behind it, it counts what a step would need and computes nothing.
 */
#ifndef GALLOP_OPS_TIMED_H
#define GALLOP_OPS_TIMED_H

#include <stdint.h>

#include "ops/op.h"

enum { TIMED_OTHER = OP_N_KINDS, TIMED_N_KINDS }; /* other: embeddings, elementwise operators */
enum { TIMED_MAX_PARTS = 3 };

struct timed_kind {
    double seconds, bytes, flops; /* since it was opened; without waiting where a pool is given */
};

/* What one pass over memory needs: a linear, the experts' first ones, attention. */
struct timed_part {
    double bytes, flops;
    enum dtype dtype; /* computed in; attention: of the rows in the cache */
};

/* One operator of a step. Its parts run one after the other, so an ideal machine takes the sum of the
 * larger of bytes and operations of each. */
struct timed_op {
    int kind;
    const char *name; /* of the linear, of an MLP's or a router's; else "norm", "attention", ...; borrowed */
    bool is_module;   /* NAME is of the first linear of several */
    double seconds;   /* waiting included */
    struct timed_part part[TIMED_MAX_PARTS];
    size_t n_parts;
};

typedef void timed_fn(void *ctx, const struct timed_op *op);

struct timed {
    struct sink sink;              /* of the model */
    const struct sink *to;         /* NULL: nothing is computed */
    const size_t *window, *n_sink; /* [layers] of a sparse cache, NULL: rows see what struct attn says */
    enum dtype kv_dtype;           /* of the rows in the cache */
    const struct pool
        *pool;      /* what operators run on; NULL, as timed_open() leaves it: waiting is not told apart */
    timed_fn *each; /* is told of every operator at its end; NULL: nobody is */
    void *each_ctx;
    double waited_seconds; /* the caller's share of operators was done, another thread's was not */
    uint64_t waited_ns;    /* by the pool, when the operator that runs began */
    struct timed_kind kind[TIMED_N_KINDS];
};

/* All pointers are borrowed. WINDOW and N_SINK: as in struct eager_limits. */
void timed_open(struct timed *t, const struct sink *to, enum dtype kv_dtype, const size_t *window,
                const size_t *n_sink);

/* "norm", "qkv_projection", ... "other" */
const char *timed_name(int kind);

#endif
