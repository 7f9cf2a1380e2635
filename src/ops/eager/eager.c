/* eager.c - all operators of the eager sink except attention and mixtures of experts: each divides its rows
 * or columns among the threads and calls a kernel. */
#include "ops/eager/eager_priv.h"

#include <string.h>

#include "base/cpu.h"
#include "base/files/map.h"
#include "base/mem.h"
#include "kern/attention.h"
#include "kern/kern.h"
#include "ops/batch.h"

enum { VERIFIED = 16 }; /* with so many rows (guesses), attention is split at any length */

/* ---- begin: cosines ---- */

struct begin_job {
    struct eager *g;
    const struct rope *ropes;
    size_t n_ropes;
    const struct batch *b;
};

static void begin_rope(struct eager *g, const struct rope *ropes, size_t i, const struct batch *b,
                       size_t begin, size_t end)
{
    rope_fill(&ropes[i], b, begin, end, g->cos[i], g->sin[i]);
    if (g->lim.seen)
        rope_back(&ropes[i], b, begin, end, g->lim.seen - 1, g->sink_cos[i], g->sink_sin[i]);
}

static void begin_rows(void *ctx, int thread, size_t begin, size_t end)
{
    const struct begin_job *j = ctx;

    (void)thread;
    for (size_t i = 0; i < j->n_ropes; i++)
        begin_rope(j->g, j->ropes, i, j->b, begin, end);
}

static void op_begin(const struct op_sink *o, const struct rope *ropes, size_t n_ropes, const struct batch *b)
{
    struct eager *g = o->ctx;
    struct begin_job j = {g, ropes, n_ropes, b};

    ASSERT(b->n_tokens <= g->lim.max_tokens && b->n_seqs <= g->lim.max_seqs, "%zu tokens of %zu sequences",
           b->n_tokens, b->n_seqs);
    g->batch = b;
    eager_rows(g, b->n_tokens, begin_rows, &j);
}

/* ---- embed ---- */

struct embed_job {
    struct eager *g;
    float *x;
    const struct op_embed *w;
    const int32_t *index;
    bool add;
};

static void embed_row(const struct eager *g, float *x, const struct op_embed *w, int32_t index, float *add)
{
    size_t n = w->table.shape[1], at = (size_t)(index + w->offset);
    float *row = add ? add : x;

    ASSERT(index + w->offset >= 0 && at < w->table.shape[0], "row %d of %s", index + w->offset,
           w->table.name);
    if (w->head)
        linear_row(w->head, at, row);
    else
        view_row_f32(&w->table, at, row);
    if (w->scale)
        g->kern->scale(row, w->scale, n);
    if (add)
        g->kern->add(x, row, n);
}

static void embed_rows(void *ctx, int thread, size_t begin, size_t end)
{
    const struct embed_job *j = ctx;
    size_t n = j->w->table.shape[1];

    (void)thread;
    for (size_t t = begin; t < end; t++) /* the input buffer of linears is free here */
        embed_row(j->g, j->x + t * n, j->w, j->index[t], j->add ? (float *)j->g->in + t * n : NULL);
}

static void op_embed(const struct op_sink *o, float *x, const struct op_embed *w, const int32_t *index,
                     bool add, size_t T)
{
    struct embed_job j = {o->ctx, x, w, index, add};

    ASSERT(!add || w->table.shape[1] <= j.g->lim.linear_k, "%s", w->table.name);
    eager_rows(o->ctx, T, embed_rows, &j);
}

/* ---- norm ---- */

struct norm_job {
    struct eager *g;
    float *h, *x;
    const float *r;
    const struct op_norm *w;
};

static void norm_rows(void *ctx, int thread, size_t begin, size_t end)
{
    const struct norm_job *j = ctx;
    const struct kern *k = j->g->norm_k;
    size_t n = j->w->n;

    (void)thread;
    for (size_t t = begin; t < end; t++) {
        float *h = j->h + t * n;
        const float *r = j->r ? j->r + t * n : NULL;

        if (j->w->layer)
            k->layer_norm(h, j->x + t * n, r, j->w->w, j->w->b, n, j->w->eps);
        else
            k->rms_norm(h, j->x + t * n, r, j->w->w, n, j->w->eps);
    }
}

static void op_norm(const struct op_sink *o, float *h, float *x, const float *r, const struct op_norm *w,
                    size_t T)
{
    struct norm_job j = {o->ctx, h, x, r, w};

    eager_rows(o->ctx, T, norm_rows, &j);
}

/* ---- linear, mlp, logits ---- */

static void op_linear(const struct op_sink *o, float *y, const struct linear *w, const float *x, size_t T)
{
    struct eager *g = o->ctx;

    ASSERT(w->k <= g->lim.linear_k, "%s", w->name);
    linear_put_all(w, g->pool, g->in, x, T);
    linear_run(w, g->pool, g->in, y, w->n, T);
}

static void op_mlp(const struct op_sink *o, float *r, const struct op_mlp *w, const float *h, size_t T)
{
    struct eager *g = o->ctx;

    ASSERT(w->up.k <= g->lim.linear_k && w->down.k <= g->lim.linear_k && w->down.k <= g->lim.inner, "%s",
           w->up.name);
    linear_put_all(&w->up, g->pool, g->in, h, T);
    if (linear_leads_into(&w->up, &w->down)) {
        linear_run_mlp(&(struct linear_mlp){&w->up, &w->down, w->act, g->in, g->middle, r, T}, g->pool);
        return;
    }
    linear_run_act(&w->up, g->pool, g->in, g->middle, w->down.k, w->act, T);
    linear_put_all(&w->down, g->pool, g->in, g->middle, T);
    linear_run(&w->down, g->pool, g->in, r, w->down.n, T);
}

/* ---- elementwise ---- */

struct each_job {
    struct eager *g;
    float *out, *x;
    const float *r, *gate;
    size_t ld_r, ld_gate, n;
    float a;
    enum kern_act f;
};

static void add_rows(void *ctx, int thread, size_t begin, size_t end)
{
    const struct each_job *j = ctx;

    (void)thread;
    j->g->kern->add(j->x + begin * j->n, j->r + begin * j->n, (end - begin) * j->n);
}

static void op_add(const struct op_sink *o, float *x, const float *r, size_t n, size_t T)
{
    struct each_job j = {.g = o->ctx, .x = x, .r = r, .n = n};

    eager_rows(o->ctx, T, add_rows, &j);
}

static void scale_rows(void *ctx, int thread, size_t begin, size_t end)
{
    const struct each_job *j = ctx;

    (void)thread;
    j->g->kern->scale(j->x + begin * j->n, j->a, (end - begin) * j->n);
}

static void op_scale(const struct op_sink *o, float *x, float a, size_t n, size_t T)
{
    struct each_job j = {.g = o->ctx, .x = x, .a = a, .n = n};

    eager_rows(o->ctx, T, scale_rows, &j);
}

static void softcap_elements(void *ctx, int thread, size_t begin, size_t end)
{
    const struct each_job *j = ctx;

    (void)thread;
    j->g->kern->softcap(j->x + begin, j->a, end - begin);
}

static void op_softcap(const struct op_sink *o, float *x, float cap, size_t n, size_t T)
{
    struct each_job j = {.g = o->ctx, .x = x, .a = cap};

    eager_rows(o->ctx, n * T, softcap_elements, &j); /* one row of logits is enough work for all threads */
}

static void glu_rows(void *ctx, int thread, size_t begin, size_t end)
{
    const struct each_job *j = ctx;

    (void)thread;
    for (size_t t = begin; t < end; t++)
        j->g->mlp_k->glu(j->out + t * j->n, j->gate + t * j->ld_gate, j->r + t * j->ld_r, j->n, j->f);
}

static void op_glu(const struct op_sink *o, float *out, const float *gate, size_t ldg, const float *up,
                   size_t ldu, enum kern_act f, size_t n, size_t T)
{
    struct each_job j = {
        .g = o->ctx, .out = out, .gate = gate, .ld_gate = ldg, .r = up, .ld_r = ldu, .n = n, .f = f};

    eager_rows(o->ctx, T, glu_rows, &j);
}

/* ---- rows, tap ---- */

static void op_rows(const struct op_sink *o, float *dst, const float *src, const uint32_t *index, size_t n,
                    size_t n_rows)
{
    (void)o;
    for (size_t i = 0; i < n_rows; i++)
        memcpy(dst + i * n, src + index[i] * n, n * sizeof(float));
}

static void op_tap(const struct op_sink *o, size_t layer, const float *x, const float *r, const float *h,
                   size_t T)
{
    struct eager *g = o->ctx;
    size_t n = g->lim.hidden * T;
    float *out;

    if (!g->hidden)
        return;
    out = g->hidden + (layer * g->hidden_rows + g->hidden_at) * g->lim.hidden;
    if (h) {
        memcpy(out, h, n * sizeof(float));
        return;
    }
    memcpy(out, x, n * sizeof(float));
    if (r)
        g->kern->add(out, r, n);
}

void eager_capture(struct eager *g, float *hidden, size_t rows, size_t at)
{
    g->hidden = hidden;
    g->hidden_rows = rows;
    g->hidden_at = at;
}

/* ---- open, close ---- */

static size_t lay_out(struct eager *g, char *base)
{
    const struct eager_limits *l = &g->lim;
    size_t at = 0, dp = (l->head_dim + 15) / 16 * 16;

    for (int i = 0; i < 2; i++) {
        g->cos[i] = map_carve(base, &at, l->max_tokens * l->rope_half[i] * 4);
        g->sin[i] = map_carve(base, &at, l->max_tokens * l->rope_half[i] * 4);
        g->sink_cos[i] = map_carve(base, &at, l->seen ? l->max_tokens * l->rope_half[i] * 4 : 0);
        g->sink_sin[i] = map_carve(base, &at, l->seen ? l->max_tokens * l->rope_half[i] * 4 : 0);
    }
    g->q = map_carve(base, &at, l->max_tokens * l->n_heads * dp * 4);
    g->sink_q = map_carve(base, &at, l->seen ? l->max_tokens * l->n_heads * dp * 4 : 0);
    g->in = map_carve(base, &at, l->max_tokens * linear_in_bytes(l->linear_k));
    g->plan = map_carve(base, &at, eager_attn_plan_bytes(l));
    g->middle = map_carve(base, &at, l->max_tokens * linear_in_bytes(l->inner));
    g->moe = map_carve(base, &at, eager_moe_bytes(l));
    g->partial_o = map_carve(base, &at, g->n_partials * dp * 4);
    g->partial_m = map_carve(base, &at, g->n_partials * 4);
    g->partial_l = map_carve(base, &at, g->n_partials * 4);
    g->thread_scratch = map_carve(base, &at, (size_t)pool_threads(g->pool) * g->thread_bytes);
    return at;
}

/* Returns the number of partial results of attention that the sink has room for: one for each head, chunk and row of a
 * sequence of the maximum length with VERIFIED rows, and one more for each head of every sequence, within 32 MiB. */
static size_t count_partials(const struct eager_limits *l)
{
    size_t chunks = (l->max_len + KERN_CHUNK - 1) / KERN_CHUNK,
           most = ((size_t)32 << 20) / (l->head_dim * 4 + 8);
    size_t want = l->n_heads * (VERIFIED * chunks + l->max_seqs);

    return want < most ? want : most;
}

static void pick_rows(struct eager *g)
{
    const struct kern *ref = kern_table(CPU_REF), *best = g->lim.kern;

    ASSERT(best);
    g->kern = best;
    g->norm_k = g->lim.native[OP_NORM] ? ref : best;
    g->rope_k = g->lim.native[OP_ROPE] ? ref : best;
    g->attn_k = g->lim.native[OP_ATTENTION] ? ref : best;
    g->mlp_k = g->lim.native[OP_MLP] ? ref : best;
}

int eager_new(struct eager **out, const struct eager_limits *lim, struct pool *pool, struct err *e)
{
    struct eager *g = mem_zalloc(1, sizeof(*g), MEM_ENGINE);

    *out = NULL;
    if (!g)
        return err_nomem(e, "the operator sink");
    g->lim = *lim;
    g->pool = pool;
    g->n_partials = count_partials(lim);
    g->thread_bytes = eager_attn_thread_bytes(lim);
    g->region_bytes = lay_out(g, NULL);
    g->region = map_region_new(g->region_bytes);
    if (!g->region) {
        size_t bytes = g->region_bytes;

        mem_free(g);
        return err_set(e, ERR_NOMEM, "out of memory: the operators need %zu bytes for steps of %zu tokens",
                       bytes, lim->max_tokens);
    }
    lay_out(g, g->region);
    pick_rows(g);
    g->sink = (struct op_sink){.begin = op_begin,
                               .embed = op_embed,
                               .norm = op_norm,
                               .linear = op_linear,
                               .heads = eager_attn_heads,
                               .rope = eager_attn_rope,
                               .attn = eager_attn,
                               .mlp = op_mlp,
                               .moe = eager_moe,
                               .glu = op_glu,
                               .scale = op_scale,
                               .softcap = op_softcap,
                               .add = op_add,
                               .rows = op_rows,
                               .logits = op_linear,
                               .tap = op_tap,
                               .ctx = g};
    *out = g;
    return 0;
}

const struct op_sink *eager_sink(const struct eager *g)
{
    return &g->sink;
}

size_t eager_bytes(const struct eager *g)
{
    return g->region_bytes;
}

void eager_free(struct eager *g)
{
    if (!g)
        return;
    map_region_free(g->region, g->region_bytes);
    mem_free(g);
}
