/* timed.c - each operator between two readings of the clock. */
#include "ops/timed.h"

#include <math.h>

#include "base/clock.h"
#include "ops/moe.h"

const char *timed_name(int kind)
{
    return kind < OP_N_KINDS ? linear_kind_name((enum op_kind)kind) : "other";
}

/* What began at BEGIN_NS has ended. */
static void add(const struct sink *o, int kind, uint64_t begin_ns, double bytes, double flops)
{
    struct timed *t = o->ctx;

    t->kind[kind].seconds += (double)(clock_ns() - begin_ns) * 1e-9;
    t->kind[kind].bytes += bytes;
    t->kind[kind].flops += flops;
}

static const struct sink *to(const struct sink *o)
{
    return ((const struct timed *)o->ctx)->to;
}

/* ---- what operators cannot do without ---- */

static double linear_flops(const struct linear *w, double rows)
{
    return 2 * (double)w->n * (double)w->k * rows;
}

/* Rows that the one at position P sees, itself among them. */
static size_t seen(const struct timed *t, const struct attn *w, size_t layer, size_t p)
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

static void count_attn(const struct timed *t, const struct attn *w, const struct batch *b, size_t layer,
                       double *bytes, double *flops)
{
    double rows = 0, pairs = 0;

    for (size_t s = 0; s < b->n_seqs; s++) {
        rows += (double)(seen(t, w, layer, b->seq[s].pos) - 1 + b->seq[s].n);
        for (size_t i = 0; i < b->seq[s].n; i++)
            pairs += (double)seen(t, w, layer, b->seq[s].pos + i);
    }
    *bytes = rows * 2 * (double)(w->n_kv * w->d * t->kv_bytes);
    *flops = pairs * 4 * (double)(w->n_heads * w->d); /* scores, and the sum of values */
}

/* Of N experts, the K of each of T rows; which these are is left to chance. */
static double experts_read(const struct moe *w, size_t T)
{
    double n = (double)w->n_experts;

    return n * (1 - pow(1 - (double)w->top_k / n, (double)T));
}

/* ---- the operators ---- */

static void op_begin(const struct sink *o, const struct rope *ropes, size_t n_ropes, const struct batch *b)
{
    uint64_t begin = clock_ns();

    to(o)->begin(to(o), ropes, n_ropes, b);
    add(o, OP_ROPE, begin, 0, 0);
}

static void op_embed(const struct sink *o, float *x, const struct embed *w, const int32_t *index,
                     bool is_added, size_t T)
{
    uint64_t begin = clock_ns();

    to(o)->embed(to(o), x, w, index, is_added, T);
    add(o, TIMED_OTHER, begin, 0, 0);
}

static void op_norm(const struct sink *o, float *h, float *x, const float *r, const struct norm *w, size_t T)
{
    uint64_t begin = clock_ns();

    to(o)->norm(to(o), h, x, r, w, T);
    add(o, OP_NORM, begin, 0, 0);
}

static void op_linear(const struct sink *o, float *y, const struct linear *w, const float *x, size_t T)
{
    uint64_t begin = clock_ns();

    to(o)->linear(to(o), y, w, x, T);
    add(o, w->kind, begin, (double)w->packed_bytes, linear_flops(w, (double)T));
}

static void op_heads(const struct sink *o, float *qkv, const struct attn *w, size_t T)
{
    uint64_t begin = clock_ns();

    to(o)->heads(to(o), qkv, w, T);
    add(o, OP_NORM, begin, 0, 0);
}

static void op_rope(const struct sink *o, float *qkv, const struct attn *w, size_t T)
{
    uint64_t begin = clock_ns();

    to(o)->rope(to(o), qkv, w, T);
    add(o, OP_ROPE, begin, 0, 0);
}

static void op_attn(const struct sink *o, float *a, const float *qkv, const struct attn *w,
                    const struct batch *b, size_t layer)
{
    uint64_t begin = clock_ns();
    double bytes, flops;

    to(o)->attn(to(o), a, qkv, w, b, layer);
    count_attn(o->ctx, w, b, layer, &bytes, &flops);
    add(o, OP_ATTENTION, begin, bytes, flops);
}

static void op_mlp(const struct sink *o, float *r, const struct mlp *w, const float *h, size_t T)
{
    uint64_t begin = clock_ns();

    to(o)->mlp(to(o), r, w, h, T);
    add(o, OP_MLP, begin, (double)(w->up.packed_bytes + w->down.packed_bytes),
        linear_flops(&w->up, (double)T) + linear_flops(&w->down, (double)T));
}

static void op_moe(const struct sink *o, float *r, const struct moe *w, const float *h, const float *route,
                   size_t T)
{
    const struct expert *x = w->expert;
    double chosen = (double)(T * w->top_k);
    uint64_t begin = clock_ns();

    to(o)->moe(to(o), r, w, h, route, T);
    add(o, OP_MLP, begin,
        (double)w->router.packed_bytes +
            experts_read(w, T) * (double)(x->up.packed_bytes + x->down.packed_bytes),
        linear_flops(&w->router, (double)T) + linear_flops(&x->up, chosen) + linear_flops(&x->down, chosen));
}

static void op_glu(const struct sink *o, float *out, const float *gate, size_t ldg, const float *up,
                   size_t ldu, enum kern_act f, size_t n, size_t T)
{
    uint64_t begin = clock_ns();

    to(o)->glu(to(o), out, gate, ldg, up, ldu, f, n, T);
    add(o, TIMED_OTHER, begin, 0, 0);
}

static void op_scale(const struct sink *o, float *x, float a, size_t n, size_t T)
{
    uint64_t begin = clock_ns();

    to(o)->scale(to(o), x, a, n, T);
    add(o, TIMED_OTHER, begin, 0, 0);
}

static void op_softcap(const struct sink *o, float *x, float cap, size_t n, size_t T)
{
    uint64_t begin = clock_ns();

    to(o)->softcap(to(o), x, cap, n, T);
    add(o, TIMED_OTHER, begin, 0, 0);
}

static void op_add(const struct sink *o, float *x, const float *r, size_t n, size_t T)
{
    uint64_t begin = clock_ns();

    to(o)->add(to(o), x, r, n, T);
    add(o, TIMED_OTHER, begin, 0, 0);
}

static void op_rows(const struct sink *o, float *dst, const float *src, const uint32_t *index, size_t n,
                    size_t n_rows)
{
    uint64_t begin = clock_ns();

    to(o)->rows(to(o), dst, src, index, n, n_rows);
    add(o, TIMED_OTHER, begin, 0, 0);
}

static void op_logits(const struct sink *o, float *logits, const struct linear *head, const float *h,
                      size_t n_rows)
{
    uint64_t begin = clock_ns();

    to(o)->logits(to(o), logits, head, h, n_rows);
    add(o, OP_LM_HEAD, begin, n_rows ? (double)head->packed_bytes : 0, linear_flops(head, (double)n_rows));
}

static void op_tap(const struct sink *o, size_t layer, const float *x, const float *r, const float *h,
                   size_t T)
{
    to(o)->tap(to(o), layer, x, r, h, T);
}

void timed_open(struct timed *t, const struct sink *sink, enum dtype kv_dtype, const size_t *window,
                const size_t *n_sink)
{
    *t = (struct timed){.to = sink,
                        .window = window,
                        .n_sink = n_sink,
                        .kv_bytes = kv_dtype == DT_F32  ? 4
                                    : kv_dtype == DT_I8 ? 1
                                                        : 2};
    t->sink = (struct sink){.begin = op_begin,
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
