/* timed.h - an op sink that forwards to another sink and adds up, for each kind of operator, the seconds that it takes
 * and the minimum of bytes and operations that it needs.
 *
 * Bytes are those of weights and of rows of the KV cache, including padding and scales, which are read from memory;
 * activations stay in caches and are not counted. For a mixture of experts, the expected number of chosen experts is
 * counted. Each operator costs two readings of the clock, which need no system call. Without a sink to forward to, the
 * sink computes nothing and counts what a step would need.
 */
#ifndef GALLOP_OPS_TIMED_H
#define GALLOP_OPS_TIMED_H

#include <stdint.h>

#include "ops/op.h"

/* The kinds of operators: enum op_kind, and TIMED_OTHER for embeddings and elementwise operators. */
enum { TIMED_OTHER = OP_N_KINDS, TIMED_N_KINDS };
enum { TIMED_MAX_PARTS = 3 }; /* maximum parts of an operator */

/* The totals of one kind of operators since timed_open(). SECONDS excludes waiting if timed.pool is set. */
struct timed_kind {
    double seconds, bytes, flops;
};

/* The bytes and operations of a part of an operator: a linear, the up linears of the experts, or
 * attention. */
struct timed_part {
    double bytes, flops;
    /* The type of the arithmetic; for attention, the type of the rows in the cache. */
    enum dtype dtype;
};

/* One operator of a step. The parts run one after the other. The ideal time of a part is the larger of the
 * times for its bytes and for its operations; the ideal time of the operator is the sum over its parts. */
struct timed_op {
    int kind; /* enum op_kind or TIMED_OTHER */
    /* The name of the linear, the MLP's up linear or the router, or "norm", "attention", ...; borrowed. */
    const char *name;
    /* True if NAME is the name of the first of several linears. */
    bool is_module;
    /* The time of the operator, including waiting. */
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
    /* Windows and sinks of a sparse cache, [L] each; NULL: struct op_attn decides which rows are seen. */
    const size_t *window, *n_sink;
    /* Type of the rows in the cache. */
    enum dtype kv_dtype;
    /* The pool on which operators run. timed_open() sets NULL: waiting is then counted as work. */
    const struct pool *pool;
    /* Called at the end of every operator; NULL: not called. */
    timed_fn *each;
    void *each_ctx;
    /* Time in which the caller's thread waited for tasks of other threads. */
    double waited_seconds;
    /* What pool_waited_ns() returned when the current operator began. */
    uint64_t waited_ns;
    struct timed_kind kind[TIMED_N_KINDS];
};

/* Opens T as a sink that forwards to TO (may be NULL). All pointers are borrowed. WINDOW and N_SINK: see
 * struct eager_limits. */
void timed_open(struct timed *t, const struct op_sink *to, enum dtype kv_dtype, const size_t *window,
                const size_t *n_sink);

/* Returns the name of KIND: "norm", "qkv_projection", ... "other". */
const char *timed_name(int kind);

#endif
