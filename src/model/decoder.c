/* decoder.c - what the decoders with Llama's names have in common. */
#include "model/decoder.h"

#include <math.h>

#include "base/mem.h"

int decoder_read(struct model *m, struct decoder_config *c, struct err *e)
{
    struct model_info *i = &m->info;
    int rc;

    if ((rc = config_int(m->config, "hidden_size", c->hidden, 1, 1 << 20, &c->hidden, e)) != 0 ||
        (rc = config_int(m->config, "intermediate_size", c->inner, 1, 1 << 22, &c->inner, e)) != 0 ||
        (rc = config_int(m->config, "num_hidden_layers", c->layers, 1, MODEL_MAX_LAYERS, &c->layers, e)) !=
            0 ||
        (rc = config_int(m->config, "vocab_size", c->vocab, 1, INT32_MAX, &c->vocab, e)) != 0 ||
        (rc = config_int(m->config, "max_position_embeddings", c->max_len, 1, 1 << 24, &c->max_len, e)) !=
            0 ||
        (rc = config_float(m->config, "rms_norm_eps", c->eps, 0, 1, &c->eps, e)) != 0 ||
        (rc = config_bool(m->config, "tie_word_embeddings", c->tied, &c->tied, e)) != 0 ||
        (rc = block_act(m, c->act_key ? c->act_key : "hidden_act", c->act_name ? c->act_name : "silu",
                        &c->act, e)) != 0)
        return rc;
    i->hidden = (size_t)c->hidden;
    i->inner = (size_t)c->inner;
    i->n_layers = (size_t)c->layers;
    i->vocab = (size_t)c->vocab;
    i->max_len = (size_t)c->max_len;
    return block_heads(m, c->heads, c->kv_heads, c->head_dim, e);
}

int decoder_attention(struct model *m, struct block_layer *w, const char *at, const struct decoder_config *c,
                      struct err *e)
{
    const struct model_info *i = &m->info;
    size_t E = i->hidden, D = i->head_dim, q = i->n_heads * D, kv = i->n_kv * D;
    const char *o_proj = block_name(m, "%s.self_attn.o_proj", at);
    struct block_linear qkv = {.name = block_name(m, "%s.self_attn.qkv_proj", at),
                               .kind = OP_QKV,
                               .part = {{block_name(m, "%s.self_attn.q_proj", at), q},
                                        {block_name(m, "%s.self_attn.k_proj", at), kv},
                                        {block_name(m, "%s.self_attn.v_proj", at), kv}},
                               .n_parts = 3,
                               .k = E,
                               .bias = c->qkv_bias,
                               .wide = true};
    struct block_linear out = {.name = o_proj,
                               .kind = OP_OUT,
                               .part = {{o_proj, E}},
                               .n_parts = 1,
                               .k = q,
                               .bias = c->out_bias,
                               .wide = c->out_wide};
    int rc;

    if (c->fused) {
        qkv.part[0] = (struct block_part){qkv.name, q + 2 * kv};
        qkv.n_parts = 1;
    }
    w->attn = (struct attn){.name = block_name(m, "%s.self_attn", at),
                            .wide = c->out_wide,
                            .n_heads = i->n_heads,
                            .n_kv = i->n_kv,
                            .d = D,
                            .dp = (D + 15) / 16 * 16,
                            .scale = (float)(1.0 / sqrt((double)D)),
                            .pairs = ROPE_PAIRS_HALF};
    if ((rc = block_norm(m, &w->norm_attn, block_name(m, "%s.input_layernorm", at), E, c->eps, false, false,
                         c->norm_add, e)) != 0)
        return rc;
    w->norm_attn.wide = true;
    if (c->qk_norm) {
        if ((rc = block_norm(m, &w->q_norm, block_name(m, "%s.self_attn.q_norm", at), D, c->eps, false, false,
                             c->norm_add, e)) != 0 ||
            (rc = block_norm(m, &w->k_norm, block_name(m, "%s.self_attn.k_norm", at), D, c->eps, false, false,
                             c->norm_add, e)) != 0)
            return rc;
        w->attn.q_norm = &w->q_norm;
        w->attn.k_norm = &w->k_norm;
    }
    rc = block_linear(m, &w->qkv, &qkv, e);
    return rc ? rc : block_linear(m, &w->out, &out, e);
}

int decoder_mlp(struct model *m, struct block_layer *w, const char *at, const char *norm, size_t inner,
                const struct decoder_config *c, struct err *e)
{
    size_t E = m->info.hidden;
    const char *down_proj = block_name(m, "%s.mlp.down_proj", at);
    struct block_linear up = {.name = block_name(m, "%s.mlp.gate_up_proj", at),
                              .kind = OP_MLP,
                              .part = {{block_name(m, "%s.mlp.gate_proj", at), inner},
                                       {block_name(m, "%s.mlp.up_proj", at), inner}},
                              .n_parts = 2,
                              .k = E,
                              .bias = c->mlp_bias};
    struct block_linear down = {.name = down_proj,
                                .kind = OP_MLP,
                                .part = {{down_proj, E}},
                                .n_parts = 1,
                                .k = inner,
                                .bias = c->mlp_bias};
    int rc;

    if (c->fused) {
        up.part[0] = (struct block_part){up.name, 2 * inner};
        up.n_parts = 1;
    }
    w->mlp = (struct mlp){.name = block_name(m, "%s.mlp", at), .inner = inner, .act = c->act, .gated = true};
    if ((rc = block_norm(m, &w->norm_mlp, block_name(m, "%s.%s", at, norm), E, c->eps, false, false,
                         c->norm_add, e)) == 0)
        rc = block_linear(m, &w->mlp.up, &up, e);
    return rc ? rc : block_linear(m, &w->mlp.down, &down, e);
}

int decoder_windows(struct model *m, size_t **window, struct err *e)
{
    size_t L = m->info.n_layers;
    enum block_kind *kind = arena_zalloc(&m->arena, L, sizeof(*kind));
    int64_t rows, first;
    bool use, given;
    int rc;

    *window = arena_zalloc(&m->arena, L, sizeof(**window));
    if (!kind || !*window)
        return err_nomem(e, "layer_types");
    if ((rc = config_bool(m->config, "use_sliding_window", false, &use, e)) != 0 ||
        (rc = block_window(m, 4096, &rows, e)) != 0 ||
        (rc = config_int(m->config, "max_window_layers", 28, 0, 1 << 30, &first, e)) != 0 ||
        (rc = block_layer_types(m, kind, &given, e)) != 0)
        return rc;
    for (size_t l = 0; l < L && use; l++)
        if (given ? kind[l] == BLOCK_SLIDING : l >= (size_t)first)
            (*window)[l] = (size_t)rows;
    return 0;
}

void decoder_close(struct model *m)
{
    struct decoder *w = m->impl;

    block_norm_close(&w->norm);
    linear_close(&w->head);
    block_layers_close(w->layer, m->info.n_layers);
    mem_free(w);
    m->impl = NULL;
}

/* What stands in front of "embed_tokens" and "layers". */
static const char *find_prefix(const struct model *m)
{
    static const char *const prefix[] = {"model.embed_tokens.weight", "embed_tokens.weight",
                                         "language_model.model.embed_tokens.weight",
                                         "model.language_model.embed_tokens.weight"};
    static const char *const before[] = {"model.", "", "language_model.model.", "model.language_model."};

    for (size_t i = 0; i < sizeof(prefix) / sizeof(prefix[0]); i++)
        if (weights_has(m->weights, prefix[i]))
            return before[i];
    return before[0];
}

/* What the cache needs to know of windows. A chunk is never longer than a window of its size. */
static int note_windows(struct model *m, const struct decoder *w, struct err *e)
{
    size_t *window = arena_zalloc(&m->arena, m->info.n_layers, sizeof(*window));
    bool any = false;

    if (!window)
        return err_nomem(e, "the windows");
    for (size_t l = 0; l < m->info.n_layers; l++) {
        const struct attn *a = &w->layer[l].attn;

        window[l] = a->chunk ? a->chunk : a->window;
        m->info.chunk = a->chunk ? a->chunk : m->info.chunk;
        any |= window[l] != 0;
    }
    m->info.window = any ? window : NULL;
    return 0;
}

int decoder_open_layers(struct model *m, struct decoder *w, const char *stem, const struct decoder_config *c,
                        decoder_open_layer *open_layer, struct err *e)
{
    size_t L = m->info.n_layers;
    int rc;

    if (!stem)
        return err_nomem(e, "a tensor name");
    w->layer = mem_zalloc(L, sizeof(*w->layer), MEM_MODEL);
    if (!w->layer)
        return err_nomem(e, "the model's layers");
    for (size_t l = 0; l < L; l++) {
        const char *at = block_name(m, "%s.%zu", stem, l);

        if (!at)
            return err_nomem(e, "a tensor name");
        if ((rc = open_layer(m, &w->layer[l], at, l, c, e)) != 0 || (rc = block_loaded(m, l + 1, e)) != 0)
            return rc;
    }
    return 0;
}

int decoder_layer(struct model *m, struct block_layer *w, const char *at, size_t l,
                  const struct decoder_config *c, struct err *e)
{
    int rc = decoder_attention(m, w, at, c, e);

    w->attn.window = c->window ? c->window[l] : (size_t)c->sliding;
    return rc ? rc : decoder_mlp(m, w, at, "post_attention_layernorm", m->info.inner, c, e);
}

void decoder_forward(const struct model *m, const struct sink *o, const struct batch *b, struct work *s)
{
    const struct decoder *w = m->impl;

    o->begin(o, m->info.rope, m->info.n_ropes, b);
    o->embed(o, s->x, &w->embed, b->id, false, b->n_tokens);
    for (size_t l = 0; l < m->info.n_layers; l++)
        m->arch->layer(&w->layer[l], l, o, s, b);
    block_tail(m, o, b, s, &w->norm, &w->head);
}

void decoder_scale_embedding(struct model *m)
{
    struct decoder *w = m->impl;
    float root = (float)sqrt((double)m->info.hidden);

    w->embed.scale = m->opt.dtype == DT_BF16 ? dtype_bf16_to_f32(dtype_f32_to_bf16(root)) : root;
}

int decoder_open(struct model *m, const struct decoder_config *c, decoder_open_layer *open_layer,
                 struct err *e)
{
    struct model_info *i = &m->info;
    struct decoder *w = m->impl = mem_zalloc(1, sizeof(*w), MEM_MODEL);
    const char *prefix = find_prefix(m);
    int rc;

    if (!w)
        return err_nomem(e, "the model");
    if ((rc = block_embed(m, &w->embed, block_name(m, "%sembed_tokens", prefix), i->vocab, i->hidden, e)) !=
        0)
        return rc;
    if ((rc = decoder_open_layers(m, w, block_name(m, "%slayers", prefix), c, open_layer, e)) != 0 ||
        (rc = note_windows(m, w, e)) != 0 ||
        (rc = block_norm(m, &w->norm, block_name(m, "%snorm", prefix), i->hidden, c->eps, false, false,
                         c->norm_add, e)) != 0)
        return rc;
    return block_head(m, &w->head,
                      weights_has(m->weights, "language_model.lm_head.weight") ? "language_model.lm_head"
                                                                               : "lm_head",
                      &w->embed, c->tied, false, e);
}
