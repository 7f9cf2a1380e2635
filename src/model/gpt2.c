/* gpt2.c - GPT-2 (GPT2LMHeadModel).
 *
 * Learned positions, LayerNorm with bias in front of attention and MLP, every linear with bias and stored
 * [in, out] (Conv1D), head tied to the embedding. Names come with and without the prefix "transformer."; the
 * causal masks that old checkpoints store are skipped.
 * Reference: transformers, models/gpt2/modeling_gpt2.py.
 */
#include <math.h>

#include "base/mem.h"
#include "model/block.h"

struct gpt2 {
    struct embed tokens, positions;
    struct norm norm;
    struct linear head;
    struct block_layer *layer; /* [L] */
};

static void layer_forward(const struct block_layer *w, size_t l, const struct sink *o, struct work *s,
                          const struct batch *b)
{
    size_t T = b->n_tokens;

    o->tap(o, l, s->x, l ? s->r : NULL, NULL, T);
    o->norm(o, s->h, s->x, l ? s->r : NULL, &w->norm_attn,
            T);                               /* x += r; h = layernorm(x)            [T, E] */
    o->linear(o, s->qkv, &w->qkv, s->h, T);   /*                                   [T, 3 E] */
    o->attn(o, s->a, s->qkv, &w->attn, b, l); /*                                     [T, E] */
    o->linear(o, s->r, &w->out, s->a, T);
    o->norm(o, s->h, s->x, s->r, &w->norm_mlp, T);
    o->mlp(o, s->r, &w->mlp, s->h, T); /* down(gelu(up))                      [T, E] */
}

static void forward(const struct model *m, const struct sink *o, const struct batch *b, struct work *s)
{
    const struct gpt2 *w = m->impl;

    o->begin(o, NULL, 0, b);
    o->embed(o, s->x, &w->tokens, b->id, false, b->n_tokens);
    o->embed(o, s->x, &w->positions, b->pos, true, b->n_tokens);
    for (size_t l = 0; l < m->info.n_layers; l++)
        layer_forward(&w->layer[l], l, o, s, b);
    block_tail(m, o, b, s, &w->norm, &w->head);
}

struct gpt2_config {
    double eps;
    bool scaled, by_layer, tied;
    enum kern_act act;
};

static int read_config(struct model *m, struct gpt2_config *g, struct err *e)
{
    struct model_info *i = &m->info;
    int64_t hidden, heads, layers, vocab, len, inner;
    bool cross;
    int rc;

    if ((rc = conf_int(m->conf, "n_embd", 768, 1, 1 << 20, &hidden, e)) != 0 ||
        (rc = conf_int(m->conf, "n_head", 12, 1, 4096, &heads, e)) != 0 ||
        (rc = conf_int(m->conf, "n_layer", 12, 1, MODEL_MAX_LAYERS, &layers, e)) != 0 ||
        (rc = conf_int(m->conf, "vocab_size", 50257, 1, INT32_MAX, &vocab, e)) != 0 ||
        (rc = conf_int(m->conf, "n_positions", 1024, 1, 1 << 24, &len, e)) != 0 ||
        (rc = conf_int(m->conf, "n_inner", 4 * hidden, 1, 1 << 22, &inner, e)) != 0 ||
        (rc = conf_float(m->conf, "layer_norm_epsilon", 1e-5, 0, 1, &g->eps, e)) != 0 ||
        (rc = conf_bool(m->conf, "scale_attn_weights", true, &g->scaled, e)) != 0 ||
        (rc = conf_bool(m->conf, "scale_attn_by_inverse_layer_idx", false, &g->by_layer, e)) != 0 ||
        (rc = conf_bool(m->conf, "tie_word_embeddings", true, &g->tied, e)) != 0 ||
        (rc = conf_bool(m->conf, "add_cross_attention", false, &cross, e)) != 0)
        return rc;
    if (hidden % heads != 0 || hidden / heads > 512)
        return err_set(e, ERR_INPUT, "%s: n_embd %lld does not give %lld heads of at most 512 dims",
                       conf_path(m->conf), (long long)hidden, (long long)heads);
    if (cross)
        return err_set(e, ERR_UNSUPPORTED, "%s: add_cross_attention is not supported", conf_path(m->conf));
    conf_ignore(m->conf, "n_ctx");                   /* the old name of n_positions */
    conf_ignore(m->conf, "reorder_and_upcast_attn"); /* a matter of precision in half-precision training */
    *i = (struct model_info){.n_layers = (size_t)layers,
                             .hidden = (size_t)hidden,
                             .n_heads = (size_t)heads,
                             .n_kv = (size_t)heads,
                             .head_dim = (size_t)(hidden / heads),
                             .inner = (size_t)inner,
                             .vocab = (size_t)vocab,
                             .max_len = (size_t)len,
                             .fixed_positions = true};
    return block_act(m, "activation_function", "gelu_new", &g->act, e);
}

static int open_layer(struct model *m, struct block_layer *w, const char *prefix, size_t l,
                      const struct gpt2_config *g, struct err *e)
{
    const struct model_info *i = &m->info;
    const char *at = block_name(m, "%sh.%zu", prefix, l);
    size_t E = i->hidden;
    int rc;

    if (!at)
        return err_nomem(e, "a tensor name");
    const char *c_attn = block_name(m, "%s.attn.c_attn", at), *c_proj = block_name(m, "%s.attn.c_proj", at);
    const char *fc = block_name(m, "%s.mlp.c_fc", at), *proj = block_name(m, "%s.mlp.c_proj", at);
    struct block_linear qkv = {.name = c_attn,
                               .kind = OP_QKV,
                               .part = {{c_attn, 3 * E}},
                               .n_parts = 1,
                               .k = E,
                               .bias = true,
                               .transposed = true,
                               .wide = true};
    struct block_linear out = {.name = c_proj,
                               .kind = OP_OUT,
                               .part = {{c_proj, E}},
                               .n_parts = 1,
                               .k = E,
                               .bias = true,
                               .transposed = true};
    struct block_linear up = {.name = fc,
                              .kind = OP_MLP,
                              .part = {{fc, i->inner}},
                              .n_parts = 1,
                              .k = E,
                              .bias = true,
                              .transposed = true};
    struct block_linear down = {.name = proj,
                                .kind = OP_MLP,
                                .part = {{proj, E}},
                                .n_parts = 1,
                                .k = i->inner,
                                .bias = true,
                                .transposed = true};
    double scale = g->scaled ? 1.0 / sqrt((double)i->head_dim) : 1.0;

    w->attn = (struct attn){.name = block_name(m, "%s.attn", at),
                            .n_heads = i->n_heads,
                            .n_kv = i->n_kv,
                            .d = i->head_dim,
                            .dp = (i->head_dim + 15) / 16 * 16,
                            .rope = -1,
                            .scale = (float)(g->by_layer ? scale / (double)(l + 1) : scale)};
    w->mlp = (struct mlp){.name = block_name(m, "%s.mlp", at), .inner = i->inner, .act = g->act};
    if ((rc = block_norm(m, &w->norm_attn, block_name(m, "%s.ln_1", at), E, g->eps, true, true, 0, e)) != 0 ||
        (rc = block_linear(m, &w->qkv, &qkv, e)) != 0 || (rc = block_linear(m, &w->out, &out, e)) != 0 ||
        (rc = block_norm(m, &w->norm_mlp, block_name(m, "%s.ln_2", at), E, g->eps, true, true, 0, e)) != 0 ||
        (rc = block_linear(m, &w->mlp.up, &up, e)) != 0)
        return rc;
    w->norm_attn.wide = qkv.wide;
    return block_linear(m, &w->mlp.down, &down, e);
}

static void gpt2_close(struct model *m)
{
    struct gpt2 *w = m->impl;

    block_norm_close(&w->norm);
    linear_close(&w->head);
    block_layers_close(w->layer, m->info.n_layers);
    mem_free(w);
    m->impl = NULL;
}

static int gpt2_open(struct model *m, struct err *e)
{
    struct model_info *i = &m->info;
    struct gpt2 *w = m->impl = mem_zalloc(1, sizeof(*w), MEM_MODEL);
    const char *prefix = weights_has(m->weights, "wte.weight") ? "" : "transformer.";
    struct gpt2_config g;
    int rc;

    if (!w)
        return err_nomem(e, "the model");
    if ((rc = read_config(m, &g, e)) != 0)
        return rc;
    weights_skip(m->weights, "*.attn.bias");
    weights_skip(m->weights, "*.attn.masked_bias");
    if ((rc = block_embed(m, &w->tokens, block_name(m, "%swte", prefix), i->vocab, i->hidden, e)) != 0 ||
        (rc = block_embed(m, &w->positions, block_name(m, "%swpe", prefix), i->max_len, i->hidden, e)) != 0)
        return rc;
    w->layer = mem_zalloc(i->n_layers, sizeof(*w->layer), MEM_MODEL);
    if (!w->layer)
        return err_nomem(e, "the model's layers");
    for (size_t l = 0; l < i->n_layers; l++) {
        if ((rc = open_layer(m, &w->layer[l], prefix, l, &g, e)) != 0)
            return rc;
        if (m->opt.progress)
            m->opt.progress(m->opt.progress_ctx, l + 1, i->n_layers);
    }
    if ((rc = block_norm(m, &w->norm, block_name(m, "%sln_f", prefix), i->hidden, g.eps, true, true, 0, e)) !=
        0)
        return rc;
    return block_head(m, &w->head, "lm_head", &w->tokens, g.tied, false, e);
}

const struct model_arch gpt2_arch = {.class_name = "GPT2LMHeadModel",
                                     .model_type = "gpt2",
                                     .open = gpt2_open,
                                     .forward = forward,
                                     .close = gpt2_close};
