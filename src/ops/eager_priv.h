/* eager_priv.h - the state of the eager sink. Only the files that implement its operators include it. */
#ifndef GALLOP_OPS_EAGER_PRIV_H
#define GALLOP_OPS_EAGER_PRIV_H

#include <stdatomic.h>

#include "base/threads/team.h"
#include "ops/eager.h"

struct eager {
    struct op_sink sink;
    struct eager_limits lim;
    struct pool *pool;
    const struct batch *batch;
    /* The kernels of the engine; and, for four kinds of operators, the same or the reference kernels. */
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

/* Operators of the sink on heads, in the order in which they are called between a linear and attention. */
enum { EAGER_ON_HEADS = 2 };
struct eager_on_heads {
    size_t n;
    bool is_rope[EAGER_ON_HEADS]; /* true: rope; false: heads */
};

/* Attention as one phase of a team (planned/planned.c), as THREAD computes it. */
struct eager_attn_team {
    struct team *team;
    int thread;
    /* Operators on heads that were not applied to qkv: attention applies them to copies of q, k and v. */
    struct eager_on_heads ops;
    /* No row that a sequence reads is computed by another sequence of the step. */
    bool alone;
    /* Memory of the thread: plans, [max_seqs]; queries of a task, [eager_attn_task_rows(), dp]. */
    struct eager_attn_plan *plan;
    float *q;
    /* Memory of the team, zeros between phases: finished pieces of each sequence and KV head, [max_seqs, n_kv]. */
    atomic_uint *finished;
    /* The linear that reads the result of attention next; the thread that finishes a row writes the row to IN, the
     * input of this linear. NULL: the operator of the linear writes its own input. ROW: the number of finished heads
     * of each row, [rows], zeros between phases. */
    const struct linear *out;
    void *in;
    atomic_uint *row;
    /* The panels of qkv, [(H + 2 K) d / 32]: those that hold NUMBER are computed, and a task waits for those that it
     * reads. NULL: all are computed. */
    atomic_uint *panel;
    unsigned number;
};

/* Returns true if each task of the attention of a layer stores the keys that it reads. */
bool eager_attn_is_fused(const struct eager *g, bool alone, const struct op_attn *w, const struct batch *b,
                         size_t layer);

/* Returns the largest number of rows of q in a task that stores its own keys. */
size_t eager_attn_task_rows(void);

/* Computes THREAD's part of eager_attn(). Returns true if the threads met after storing rows, because some read rows
 * that others have stored. */
bool eager_attn_in_team(struct eager *g, const struct eager_attn_team *own, float *a, const float *qkv,
                        const struct op_attn *w, const struct batch *b, size_t layer);

/* Computes the cosines of rope I for the rows [begin, end) of B. */
void eager_begin_rope(struct eager *g, const struct rope *ropes, size_t i, const struct batch *b,
                      size_t begin, size_t end);

/* Writes row INDEX of the table of W to X, or, if ADD is not NULL, adds it to X; ADD is then scratch for a row. */
void eager_embed_row(const struct eager *g, float *x, const struct op_embed *w, int32_t index, float *add);

size_t eager_attn_plan_bytes(const struct eager_limits *lim);
size_t eager_attn_thread_bytes(const struct eager_limits *lim);

/* Returns the number of floats of a row of qkv. */
size_t eager_attn_width(const struct op_attn *w);

enum eager_head { EAGER_Q, EAGER_K, EAGER_V };

/* Applies OPS to one head X [d] of q, k or v of row T of the step, in place. */
void eager_attn_head(const struct eager *g, const struct op_attn *w, enum eager_head of,
                     const struct eager_on_heads *ops, float *x, size_t t);

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
