/* eager_priv.h - the state of the eager sink. Only the files that implement its operators include it. */
#ifndef GALLOP_OPS_EAGER_PRIV_H
#define GALLOP_OPS_EAGER_PRIV_H

#include "base/threads/pool.h"
#include "ops/eager/eager.h"
#include "ops/op.h"

struct moe;
struct op_attn;

struct eager {
    struct op_sink sink;
    struct eager_limits lim;
    struct pool *pool;
    const struct batch *batch;
    /* The engine's kernels, and the kernels of four kinds of operators: the engine's or, with backend
     * "native", the reference kernels. */
    const struct kern *kern;
    const struct kern *norm_k, *rope_k, *attn_k, *mlp_k;
    void *region;
    size_t region_bytes;
    /* Cosines and sines of the rows of the step for each rope, [T, half]. */
    float *cos[2], *sin[2];
    /* Cosines and sines, [T, half], that rotate a query to the position from which it sees the sink. */
    float *sink_cos[2], *sink_sin[2];
    /* Queries grouped by KV head, [K, T G, dp]. */
    float *q;
    /* Copies of the queries in q, rotated to the position from which they see the sink. */
    float *sink_q;
    /* The input of the current linear, in the form of its backend. */
    void *in;
    /* The intermediate of the current MLP, [T, I], in the form of its down linear. */
    void *middle;
    /* Scratch of eager_moe.c. */
    void *moe;
    /* The plans of the current layer, [max_seqs]; used by eager_attn.c only. */
    struct eager_attn_plan *plan;
    /* Partial results of attention that are folded later: outputs [n_partials, dp], maximums, sums. */
    float *partial_o;
    float *partial_m, *partial_l;
    size_t n_partials;
    /* Scratch of each thread, [threads, thread_bytes]. */
    char *thread_scratch;
    size_t thread_bytes;
    /* The arguments of eager_capture(); the buffer is borrowed. */
    float *hidden;
    size_t hidden_rows, hidden_at;
};

/* Computes the rows [begin, end) of an operator. */
typedef void eager_rows_fn(void *ctx, int thread, size_t begin, size_t end);

struct eager_rows_job {
    eager_rows_fn *fn;
    void *ctx;
    size_t T;
};

static inline void eager_rows_share(void *ctx, int thread, int n_threads)
{
    const struct eager_rows_job *j = ctx;
    size_t begin, end;

    pool_share(j->T, 1, thread, n_threads, &begin, &end);
    if (begin < end)
        j->fn(j->ctx, thread, begin, end);
}

/* Calls FN for the rows [0, T) in equal parts, one for each thread. */
static inline void eager_rows(struct eager *g, size_t T, eager_rows_fn *fn, void *ctx)
{
    struct eager_rows_job job = {fn, ctx, T};

    if (T == 1)
        fn(ctx, 0, 0, 1); /* for one row, waking the pool costs more than the work */
    else if (T)
        pool_run(g->pool, eager_rows_share, &job);
}

size_t eager_attn_plan_bytes(const struct eager_limits *lim);
size_t eager_attn_thread_bytes(const struct eager_limits *lim);

/* Returns the number of floats of a row of qkv. */
size_t eager_attn_width(const struct op_attn *w);

/* Rotates the head Q of row T of the step to the position from which it sees the sink. */
void eager_attn_rope_to_sink(const struct eager *g, const struct op_attn *w, float *q, size_t t);
void eager_attn_heads(const struct op_sink *o, float *qkv, const struct op_attn *w, size_t T);
void eager_attn_rope(const struct op_sink *o, float *qkv, const struct op_attn *w, size_t T);
void eager_attn(const struct op_sink *o, float *a, const float *qkv, const struct op_attn *w,
                const struct batch *b, size_t layer);

size_t eager_moe_bytes(const struct eager_limits *lim);
void eager_moe(const struct op_sink *o, float *r, const struct moe *w, const float *h, const float *route,
               size_t T);

#endif
