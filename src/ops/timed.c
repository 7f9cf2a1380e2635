/* timed.c - an op sink that measures each operator by reading the clock before and after it. */
#include "ops/timed.h"

#include <math.h>

#include "base/clock.h"
#include "base/threads/pool.h"
#include "kern/attention.h"
#include "kern/format/kv.h"
#include "ops/batch.h"
#include "ops/moe.h"

const char *timed_name(int kind)
{
    return kind < OP_N_KINDS ? linear_kind_name((enum op_kind)kind) : "other";
}

/* Returns the time at which an operator begins, and records how long the pool has waited so far. */
static uint64_t begin_op(const struct op_sink *o)
{
    struct timed *t = o->ctx;

    t->waited_ns = t->pool ? pool_waited_ns(t->pool) : 0;
    return clock_ns();
}

/* Counts OP, which began at BEGIN_NS and has ended. The time that the pool waited is not counted as work of
 * OP, because under load a thread may not run for milliseconds. */
static void end_op(const struct op_sink *o, uint64_t begin_ns, struct timed_op *op)
{
    struct timed *t = o->ctx;
    struct timed_kind *kind = &t->kind[op->kind];
    double waited = t->pool ? (double)(pool_waited_ns(t->pool) - t->waited_ns) * 1e-9 : 0;

    op->seconds = (double)(clock_ns() - begin_ns) * 1e-9;
    kind->seconds += op->seconds - waited;
    t->waited_seconds += waited;
    for (size_t i = 0; i < op->n_parts; i++) {
        kind->bytes += op->part[i].bytes;
        kind->flops += op->part[i].flops;
    }
    if (t->each)
        t->each(t->each_ctx, op);
}

/* Counts an operator that reads neither weights nor the cache. */
static void end_small_op(const struct op_sink *o, uint64_t begin_ns, int kind, const char *name)
{
    struct timed_op op = {.kind = kind, .name = name};

    end_op(o, begin_ns, &op);
}

static const struct op_sink *target(const struct op_sink *o)
{
    return ((const struct timed *)o->ctx)->to;
}

/* ---- bytes and operations ---- */

/* Returns the bytes and operations of a linear with ROWS rows. WEIGHTS is the number of linears of this size
 * whose weights are read (for experts a mean). */
static struct timed_part linear_part(const struct linear *w, double rows, double weights)
{
    return (struct timed_part){.bytes = rows > 0 ? weights * (double)w->packed_bytes : 0,
                               .flops = 2 * (double)w->n * (double)w->k * rows,
                               .dtype = w->dtype};
}

/* Returns the number of rows that a row at position P sees, including itself. */
static size_t seen(const struct timed *t, const struct op_attn *w, size_t layer, size_t p)
{
    size_t n = w->chunk ? p % w->chunk + 1 : p + 1;

    if (w->window && n > w->window)
        n = w->window;
    if (t->window && t->window[layer]) {
        size_t most = t->window[layer] + (t->n_sink ? t->n_sink[layer] : 0);

        n = n < most ? n : most;
    }
    return n;
}

static struct timed_part attn_part(const struct timed *t, const struct op_attn *w, const struct batch *b,
                                   size_t layer)
{
    /* bytes of K and V of a row in one head */
    size_t row = 2 * kv_tile_bytes(t->kv_dtype, w->dp) / KERN_TILE;
    double rows = 0, pairs = 0;

    for (size_t s = 0; s < b->n_seqs; s++) {
        rows += (double)(seen(t, w, layer, b->seq[s].pos) - 1 + b->seq[s].n);
        for (size_t i = 0; i < b->seq[s].n; i++)
            pairs += (double)seen(t, w, layer, b->seq[s].pos + i);
    }
    return (struct timed_part){.bytes = rows * (double)(w->n_kv * row),
                               .flops = pairs * 4 * (double)(w->n_heads * w->d), /* scores, sum of values */
                               .dtype = t->kv_dtype};
}

/* Returns the expected number of experts that T rows choose, if all experts are equally likely. */
static double experts_read(const struct moe *w, size_t T)
{
    double n = (double)w->n_experts;

    return n * (1 - pow(1 - (double)w->top_k / n, (double)T));
}

/* ---- the operators ---- */

static void op_begin(const struct op_sink *o, const struct rope *ropes, size_t n_ropes, const struct batch *b)
{
    uint64_t begin = begin_op(o);

    if (target(o))
        target(o)->begin(target(o), ropes, n_ropes, b);
    end_small_op(o, begin, OP_ROPE, "begin");
}

static void op_embed(const struct op_sink *o, float *x, const struct op_embed *w, const int32_t *index,
                     bool is_added, size_t T)
{
    uint64_t begin = begin_op(o);

    if (target(o))
        target(o)->embed(target(o), x, w, index, is_added, T);
    end_small_op(o, begin, TIMED_OTHER, "embed");
}

static void op_norm(const struct op_sink *o, float *h, float *x, const float *r, const struct op_norm *w,
                    size_t T)
{
    uint64_t begin = begin_op(o);

    if (target(o))
        target(o)->norm(target(o), h, x, r, w, T);
    end_small_op(o, begin, OP_NORM, "norm");
}

static void op_linear(const struct op_sink *o, float *y, const struct linear *w, const float *x, size_t T)
{
    struct timed_op op = {
        .kind = w->kind, .name = w->name, .part = {linear_part(w, (double)T, 1)}, .n_parts = 1};
    uint64_t begin = begin_op(o);

    if (target(o))
        target(o)->linear(target(o), y, w, x, T);
    end_op(o, begin, &op);
}

static void op_heads(const struct op_sink *o, float *qkv, const struct op_attn *w, size_t T)
{
    uint64_t begin = begin_op(o);

    if (target(o))
        target(o)->heads(target(o), qkv, w, T);
    end_small_op(o, begin, OP_NORM, "heads");
}

static void op_rope(const struct op_sink *o, float *qkv, const struct op_attn *w, size_t T)
{
    uint64_t begin = begin_op(o);

    if (target(o))
        target(o)->rope(target(o), qkv, w, T);
    end_small_op(o, begin, OP_ROPE, "rope");
}

static void op_attn(const struct op_sink *o, float *a, const float *qkv, const struct op_attn *w,
                    const struct batch *b, size_t layer)
{
    struct timed_op op = {
        .kind = OP_ATTENTION, .name = "attention", .part = {attn_part(o->ctx, w, b, layer)}, .n_parts = 1};
    uint64_t begin = begin_op(o);

    if (target(o))
        target(o)->attn(target(o), a, qkv, w, b, layer);
    end_op(o, begin, &op);
}

static void op_mlp(const struct op_sink *o, float *r, const struct op_mlp *w, const float *h, size_t T)
{
    double rows = (double)T;
    struct timed_op op = {.kind = OP_MLP,
                          .name = w->up.name,
                          .is_module = true,
                          .part = {linear_part(&w->up, rows, 1), linear_part(&w->down, rows, 1)},
                          .n_parts = 2};
    uint64_t begin = begin_op(o);

    if (target(o))
        target(o)->mlp(target(o), r, w, h, T);
    end_op(o, begin, &op);
}

static void op_moe(const struct op_sink *o, float *r, const struct moe *w, const float *h, const float *route,
                   size_t T)
{
    const struct moe_expert *x = w->expert;
    double chosen = (double)(T * w->top_k), experts = experts_read(w, T);
    struct timed_op op = {.kind = OP_MLP,
                          .name = w->router.name,
                          .is_module = true,
                          .part = {linear_part(&w->router, (double)T, 1),
                                   linear_part(&x->up, chosen, experts),
                                   linear_part(&x->down, chosen, experts)},
                          .n_parts = 3};
    uint64_t begin = begin_op(o);

    if (target(o))
        target(o)->moe(target(o), r, w, h, route, T);
    end_op(o, begin, &op);
}

static void op_glu(const struct op_sink *o, float *out, const float *gate, size_t ldg, const float *up,
                   size_t ldu, enum kern_act f, size_t n, size_t T)
{
    uint64_t begin = begin_op(o);

    if (target(o))
        target(o)->glu(target(o), out, gate, ldg, up, ldu, f, n, T);
    end_small_op(o, begin, TIMED_OTHER, "glu");
}

static void op_scale(const struct op_sink *o, float *x, float a, size_t n, size_t T)
{
    uint64_t begin = begin_op(o);

    if (target(o))
        target(o)->scale(target(o), x, a, n, T);
    end_small_op(o, begin, TIMED_OTHER, "scale");
}

static void op_softcap(const struct op_sink *o, float *x, float cap, size_t n, size_t T)
{
    uint64_t begin = begin_op(o);

    if (target(o))
        target(o)->softcap(target(o), x, cap, n, T);
    end_small_op(o, begin, TIMED_OTHER, "softcap");
}

static void op_add(const struct op_sink *o, float *x, const float *r, size_t n, size_t T)
{
    uint64_t begin = begin_op(o);

    if (target(o))
        target(o)->add(target(o), x, r, n, T);
    end_small_op(o, begin, TIMED_OTHER, "add");
}

static void op_rows(const struct op_sink *o, float *dst, const float *src, const uint32_t *index, size_t n,
                    size_t n_rows)
{
    uint64_t begin = begin_op(o);

    if (target(o))
        target(o)->rows(target(o), dst, src, index, n, n_rows);
    end_small_op(o, begin, TIMED_OTHER, "rows");
}

static void op_logits(const struct op_sink *o, float *logits, const struct linear *head, const float *h,
                      size_t n_rows)
{
    struct timed_op op = {
        .kind = OP_LM_HEAD, .name = head->name, .part = {linear_part(head, (double)n_rows, 1)}, .n_parts = 1};
    uint64_t begin = begin_op(o);

    if (target(o))
        target(o)->logits(target(o), logits, head, h, n_rows);
    end_op(o, begin, &op);
}

static void op_tap(const struct op_sink *o, size_t layer, const float *x, const float *r, const float *h,
                   size_t T)
{
    if (target(o))
        target(o)->tap(target(o), layer, x, r, h, T);
}

void timed_open(struct timed *t, const struct op_sink *sink, enum dtype kv_dtype, const size_t *window,
                const size_t *n_sink)
{
    *t = (struct timed){.to = sink, .kv_dtype = kv_dtype, .window = window, .n_sink = n_sink};
    t->sink = (struct op_sink){.begin = op_begin,
                               .embed = op_embed,
                               .norm = op_norm,
                               .linear = op_linear,
                               .heads = op_heads,
                               .rope = op_rope,
                               .attn = op_attn,
                               .mlp = op_mlp,
                               .moe = op_moe,
                               .glu = op_glu,
                               .scale = op_scale,
                               .softcap = op_softcap,
                               .add = op_add,
                               .rows = op_rows,
                               .logits = op_logits,
                               .tap = op_tap,
                               .ctx = t};
}
