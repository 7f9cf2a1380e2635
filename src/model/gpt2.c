/* gpt2.c - GPT-2 (GPT2LMHeadModel).
 *
 * Learned positions, LayerNorm with bias in front of attention and MLP, every linear with bias and stored
 * [in, out] (Conv1D), head tied to the embedding. Names come with and without the prefix "transformer."; the
 * causal masks that old checkpoints store are skipped.
 * Reference: transformers, models/gpt2/modeling_gpt2.py.
 */
#include <math.h>

#include "base/mem.h"
#include "model/decoder.h"

struct gpt2 {
    struct decoder base; /* first */
    struct embed positions;
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
    o->embed(o, s->x, &w->base.embed, b->id, false, b->n_tokens);
    o->embed(o, s->x, &w->positions, b->pos, true, b->n_tokens);
    for (size_t l = 0; l < m->info.n_layers; l++)
        layer_forward(&w->base.layer[l], l, o, s, b);
    block_tail(m, o, b, s, &w->base.norm, &w->base.head);
}

struct gpt2_config {
    struct decoder_config base; /* first */
    bool scaled, by_layer;
};

static int read_config(struct model *m, struct gpt2_config *g, struct err *e)
{
    struct model_info *i = &m->info;
    int64_t hidden, heads, layers, vocab, len, inner;
    bool cross;
    int rc;

    if ((rc = config_int(m->config, "n_embd", 768, 1, 1 << 20, &hidden, e)) != 0 ||
        (rc = config_int(m->config, "n_head", 12, 1, 4096, &heads, e)) != 0 ||
        (rc = config_int(m->config, "n_layer", 12, 1, MODEL_MAX_LAYERS, &layers, e)) != 0 ||
        (rc = config_int(m->config, "vocab_size", 50257, 1, INT32_MAX, &vocab, e)) != 0 ||
        (rc = config_int(m->config, "n_positions", 1024, 1, 1 << 24, &len, e)) != 0 ||
        (rc = config_int(m->config, "n_inner", 4 * hidden, 1, 1 << 22, &inner, e)) != 0 ||
        (rc = config_float(m->config, "layer_norm_epsilon", 1e-5, 0, 1, &g->base.eps, e)) != 0 ||
        (rc = config_bool(m->config, "scale_attn_weights", true, &g->scaled, e)) != 0 ||
        (rc = config_bool(m->config, "scale_attn_by_inverse_layer_idx", false, &g->by_layer, e)) != 0 ||
        (rc = config_bool(m->config, "tie_word_embeddings", true, &g->base.tied, e)) != 0 ||
        (rc = config_bool(m->config, "add_cross_attention", false, &cross, e)) != 0)
        return rc;
    if (hidden % heads != 0 || hidden / heads > 512)
        return err_set(e, ERR_INPUT, "%s: n_embd %lld does not give %lld heads of at most 512 dims",
                       config_path(m->config), (long long)hidden, (long long)heads);
    if (cross)
        return err_set(e, ERR_UNSUPPORTED, "%s: add_cross_attention is not supported",
                       config_path(m->config));
    config_ignore(m->config, "n_ctx"); /* the old name of n_positions */
    config_ignore(m->config,
                  "reorder_and_upcast_attn"); /* a matter of precision in half-precision training */
    *i = (struct model_info){.n_layers = (size_t)layers,
                             .hidden = (size_t)hidden,
                             .n_heads = (size_t)heads,
                             .n_kv = (size_t)heads,
                             .head_dim = (size_t)(hidden / heads),
                             .inner = (size_t)inner,
                             .vocab = (size_t)vocab,
                             .max_len = (size_t)len,
                             .fixed_positions = true};
    return block_act(m, "activation_function", "gelu_new", &g->base.act, e);
}

static int open_layer(struct model *m, struct block_layer *w, const char *at, size_t l,
                      const struct decoder_config *c, struct err *e)
{
    const struct gpt2_config *g = (const void *)c;
    const struct model_info *i = &m->info;
    size_t E = i->hidden;
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
    int rc;
    double scale = g->scaled ? 1.0 / sqrt((double)i->head_dim) : 1.0;

    w->attn = (struct attn){.name = block_name(m, "%s.attn", at),
                            .n_heads = i->n_heads,
                            .n_kv = i->n_kv,
                            .d = i->head_dim,
                            .dp = (i->head_dim + 15) / 16 * 16,
                            .rope = -1,
                            .scale = (float)(g->by_layer ? scale / (double)(l + 1) : scale)};
    w->mlp = (struct mlp){.name = block_name(m, "%s.mlp", at), .inner = i->inner, .act = g->base.act};
    if ((rc = block_norm(m, &w->norm_attn, block_name(m, "%s.ln_1", at), E, g->base.eps, true, true, 0, e)) !=
            0 ||
        (rc = block_linear(m, &w->qkv, &qkv, e)) != 0 || (rc = block_linear(m, &w->out, &out, e)) != 0 ||
        (rc = block_norm(m, &w->norm_mlp, block_name(m, "%s.ln_2", at), E, g->base.eps, true, true, 0, e)) !=
            0 ||
        (rc = block_linear(m, &w->mlp.up, &up, e)) != 0)
        return rc;
    w->norm_attn.wide = qkv.wide;
    return block_linear(m, &w->mlp.down, &down, e);
}

static int gpt2_open(struct model *m, struct err *e)
{
    struct model_info *i = &m->info;
    struct gpt2 *w = m->impl = mem_zalloc(1, sizeof(*w), MEM_MODEL);
    const char *prefix = weights_has(m->weights, "wte.weight") ? "" : "transformer.";
    struct gpt2_config g = {0};
    int rc;

    if (!w)
        return err_nomem(e, "the model");
    if ((rc = read_config(m, &g, e)) != 0)
        return rc;
    weights_skip(m->weights, "*.attn.bias");
    weights_skip(m->weights, "*.attn.masked_bias");
    if ((rc = block_embed(m, &w->base.embed, block_name(m, "%swte", prefix), i->vocab, i->hidden, e)) != 0 ||
        (rc = block_embed(m, &w->positions, block_name(m, "%swpe", prefix), i->max_len, i->hidden, e)) != 0)
        return rc;
    if ((rc = decoder_open_layers(m, &w->base, block_name(m, "%sh", prefix), &g.base, open_layer, e)) != 0 ||
        (rc = block_norm(m, &w->base.norm, block_name(m, "%sln_f", prefix), i->hidden, g.base.eps, true, true,
                         0, e)) != 0)
        return rc;
    return block_head(m, &w->base.head, "lm_head", &w->base.embed, g.base.tied, false, e);
}

const struct model_arch gpt2_arch = {.class_name = "GPT2LMHeadModel",
                                     .model_type = "gpt2",
                                     .open = gpt2_open,
                                     .forward = forward,
                                     .close = decoder_close};
