/* eager_priv.h - the eager sink's own state, shared by the files that implement its ops. Not for others. */
#ifndef GALLOP_OPS_EAGER_PRIV_H
#define GALLOP_OPS_EAGER_PRIV_H

#include "ops/eager.h"

struct eager {
    struct sink sink;
    struct eager_limits lim;
    struct pool *pool;
    const struct batch *batch;
    const struct kern *kern;                             /* the engine's */
    const struct kern *norm_k, *rope_k, *attn_k, *mlp_k; /* by kind: the same, or the reference */
    void *region;
    size_t region_bytes;
    float *cos[2], *sin[2];           /* [T, half] */
    float *sink_cos[2], *sink_sin[2]; /* [T, half] which rotate a query to where it sees the sink from */
    float *q;                         /* [K, T G, dp]: queries grouped by kv head */
    float *sink_q;                    /* the same, rotated for the sink */
    void *in;                         /* of the linear that runs, in its backend's form */
    void *middle;                     /* [T, I] of the MLP that runs, in the form of its down */
    void *moe;                        /* eager_moe.c's own */
    struct eager_attn_plan *plan;     /* [max_seqs] eager_attn.c's own, of the layer that runs */
    float *partial_o;                 /* [n_partials, dp] */
    float *partial_m, *partial_l;     /* [n_partials] */
    size_t n_partials;
    char *thread_scratch; /* [threads, thread_bytes] */
    size_t thread_bytes;
    float *hidden; /* capture, borrowed */
    size_t hidden_rows, hidden_at;
};

/* Rows [0, T) in equal shares: FN(ctx, thread, begin, end). */
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

static inline void eager_rows(struct eager *g, size_t T, eager_rows_fn *fn, void *ctx)
{
    struct eager_rows_job job = {fn, ctx, T};

    if (T == 1)
        fn(ctx, 0, 0, 1); /* one row is quicker done than dealt */
    else if (T)
        pool_run(g->pool, eager_rows_share, &job);
}

size_t eager_attn_plan_bytes(const struct eager_limits *lim);
size_t eager_attn_thread_bytes(const struct eager_limits *lim);
size_t eager_attn_width(const struct attn *w); /* floats of a row of qkv */

/* Rotates a head of row T of the step from its place in the text to the one where it sees the sink from. */
void eager_attn_rope_to_sink(const struct eager *g, const struct attn *w, float *q, size_t t);
void eager_attn_heads(const struct sink *o, float *qkv, const struct attn *w, size_t T);
void eager_attn_rope(const struct sink *o, float *qkv, const struct attn *w, size_t T);
void eager_attn(const struct sink *o, float *a, const float *qkv, const struct attn *w, const struct batch *b,
                size_t layer);

size_t eager_moe_bytes(const struct eager_limits *lim);
void eager_moe(const struct sink *o, float *r, const struct moe *w, const float *h, const float *route,
               size_t T);

#endif
