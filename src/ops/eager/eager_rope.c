/* eager_rope.c - the operators of the eager sink on heads before attention: norms, the temperature of q,
 * RoPE.
 *
 * Rows are rotated to their positions in the text. If a layer keeps only the first rows (the sink) and a
 * window (StreamingLLM, https://arxiv.org/abs/2309.17453), positions are those inside the cache: a query
 * after the dropped rows has the last position of the cache. The distance to the keys of its window is the
 * same as in the text; for the sink, a copy of the query is rotated to its position in the cache.
 */
#include <math.h>

#include "kern/kern.h"
#include "ops/batch.h"
#include "ops/eager/eager_priv.h"

size_t eager_attn_width(const struct op_attn *w)
{
    return (w->n_heads + (w->shared ? 0 : 2 * w->n_kv)) * w->d;
}

struct heads_job {
    struct eager *g;
    float *qkv;
    const struct op_attn *w;
};

static void norm_heads(const struct eager *g, float *x, const struct op_norm *w, size_t n_heads, size_t d)
{
    for (size_t h = 0; w && h < n_heads; h++)
        g->norm_k->rms_norm(x + h * d, x + h * d, NULL, w->w, d, w->eps);
}

/* Multiplies N floats of the queries of row T by the temperature. */
static void warm(const struct eager *g, const struct op_attn *w, float *q, size_t n, size_t t)
{
    if (w->temp_scale) {
        float steps = floorf(((float)g->batch->pos[t] + 1) / w->temp_floor);

        g->kern->scale(q, (float)log1p((double)steps) * w->temp_scale + 1, n);
    }
}

static void heads_rows(void *ctx, int thread, size_t begin, size_t end)
{
    const struct heads_job *j = ctx;
    const struct op_attn *w = j->w;
    size_t d = w->d;

    (void)thread;
    for (size_t t = begin; t < end; t++) {
        float *q = j->qkv + t * eager_attn_width(w), *k = q + w->n_heads * d;

        norm_heads(j->g, q, w->q_norm, w->n_heads, d);
        if (!w->shared) {
            norm_heads(j->g, k, w->k_norm, w->n_kv, d);
            norm_heads(j->g, k + w->n_kv * d, w->v_norm, w->n_kv, d);
        }
        warm(j->g, w, q, w->n_heads * d, t);
    }
}

void eager_attn_heads(const struct op_sink *o, float *qkv, const struct op_attn *w, size_t T)
{
    struct heads_job j = {o->ctx, qkv, w};

    eager_rows(o->ctx, T, heads_rows, &j);
}

/* ---- rope ---- */

static void apply_rope(const struct eager *g, const struct op_attn *w, float *x, const float *cos,
                       const float *sin)
{
    (w->pairs == ROPE_PAIRS_HALF ? g->rope_k->rope_half : g->rope_k->rope_pair)(x, cos, sin,
                                                                                g->lim.rope_half[w->rope]);
}

struct rope_job {
    struct eager *g;
    float *qkv;
    const struct op_attn *w;
};

static void rope_rows(void *ctx, int thread, size_t begin, size_t end)
{
    const struct rope_job *j = ctx;
    const struct op_attn *w = j->w;
    struct eager *g = j->g;
    size_t half = g->lim.rope_half[w->rope], width = eager_attn_width(w);
    size_t n = w->n_heads + (w->shared ? 0 : w->n_kv);

    (void)thread;
    for (size_t t = begin; t < end; t++)
        for (size_t h = 0; h < n; h++)
            apply_rope(g, w, j->qkv + t * width + h * w->d, g->cos[w->rope] + t * half,
                       g->sin[w->rope] + t * half);
}

void eager_attn_rope(const struct op_sink *o, float *qkv, const struct op_attn *w, size_t T)
{
    struct rope_job j = {o->ctx, qkv, w};

    if (w->rope >= 0)
        eager_rows(o->ctx, T, rope_rows, &j);
}

void eager_attn_rope_to_sink(const struct eager *g, const struct op_attn *w, float *q, size_t t)
{
    size_t half = g->lim.rope_half[w->rope];

    apply_rope(g, w, q, g->sink_cos[w->rope] + t * half, g->sink_sin[w->rope] + t * half);
}
