/* gemma3.c - Gemma 3: the text model, and the text tower of the multimodal one (Gemma3ForCausalLM,
 * Gemma3ForConditionalGeneration).
 *
 * Norms multiply by 1 + w and stand in front of and behind each block; q and k are normed; embeddings are
 * scaled by the root of their size; local layers see a window and turn with a base of their own; scores are
 * scaled by query_pre_attn_scalar. Reference: transformers, models/gemma3/modeling_gemma3.py.
 */
#include <math.h>

#include "model/decoder.h"

enum { GLOBAL, LOCAL }; /* ropes */

static void layer_forward(const struct block_layer *w, size_t l, const struct sink *o, struct work *s,
                          const struct batch *b)
{
    size_t T = b->n_tokens;

    o->tap(o, l, s->x, l ? s->r : NULL, NULL, T);
    o->norm(o, s->h, s->x, l ? s->r : NULL, &w->norm_attn, T);
    o->linear(o, s->qkv, &w->qkv, s->h, T);          /* [T, (H + 2 K) D] */
    o->heads(o, s->qkv, &w->attn, T);                /* q and k normed, each head alone */
    o->rope(o, s->qkv, &w->attn, T);                 /* by the layer's own base */
    o->attn(o, s->a, s->qkv, &w->attn, b, l);        /* [T, H D] */
    o->linear(o, s->r, &w->out, s->a, T);            /* [T, E] */
    o->norm(o, s->r, s->r, NULL, &w->after_attn, T); /* r = norm(r) */
    o->norm(o, s->h, s->x, s->r, &w->norm_mlp, T);   /* x += r; h = norm(x) */
    o->mlp(o, s->r, &w->mlp, s->h, T);               /* [T, E] */
    o->norm(o, s->r, s->r, NULL, &w->after_mlp, T);
}

/* A norm behind a block: its result goes to the residual stream, in fp32. */
static int open_after(struct model *m, struct norm *w, const char *name, const struct decoder_config *c,
                      struct err *e)
{
    int rc = block_norm(m, w, name, m->info.hidden, c->eps, false, false, c->norm_add, e);

    w->wide = true;
    return rc;
}

static int open_layer(struct model *m, struct block_layer *w, const char *at, size_t l,
                      const struct decoder_config *c, struct err *e)
{
    double scalar, cap;
    int rc;

    if ((rc = decoder_attention(m, w, at, c, e)) != 0 ||
        (rc = config_float(m->config, "query_pre_attn_scalar", 256, 1e-6, 1e6, &scalar, e)) != 0 ||
        (rc = config_float(m->config, "attn_logit_softcapping", 0, 0, 1e6, &cap, e)) != 0 ||
        (rc = open_after(m, &w->after_attn, block_name(m, "%s.post_attention_layernorm", at), c, e)) != 0 ||
        (rc = decoder_mlp(m, w, at, "pre_feedforward_layernorm", m->info.inner, c, e)) != 0)
        return rc;
    w->attn.scale = (float)(1 / sqrt(scalar));
    w->attn.softcap = (float)cap;
    w->attn.window = c->window[l];
    w->attn.rope = c->window[l] ? LOCAL : GLOBAL;
    return open_after(m, &w->after_mlp, block_name(m, "%s.post_feedforward_layernorm", at), c, e);
}

/* Which layers are local: layer_types, or all but every sixth. */
static int read_windows(struct model *m, size_t **window, struct err *e)
{
    size_t L = m->info.n_layers;
    enum block_kind *kind = arena_zalloc(&m->arena, L, sizeof(*kind));
    int64_t rows, pattern;
    bool given;
    int rc;

    *window = arena_zalloc(&m->arena, L, sizeof(**window));
    if (!kind || !*window)
        return err_nomem(e, "layer_types");
    if ((rc = block_window(m, 4096, &rows, e)) != 0 ||
        (rc = config_int(m->config, "sliding_window_pattern", 6, 1, 1 << 20, &pattern, e)) != 0 ||
        (rc = block_layer_types(m, kind, &given, e)) != 0)
        return rc;
    for (size_t l = 0; l < L; l++)
        if (given ? kind[l] == BLOCK_SLIDING : (l + 1) % (size_t)pattern != 0)
            (*window)[l] = (size_t)rows;
    return 0;
}

static int read_ropes(struct model *m, struct err *e)
{
    struct block_rope global = {
        .head_dim = m->info.head_dim, .theta = 1000000, .sub = "full_attention", .fixed_length = true};
    struct block_rope local = {.head_dim = m->info.head_dim,
                               .theta = 10000,
                               .theta_key = "rope_local_base_freq",
                               .sub = "sliding_attention",
                               .unscaled = true,
                               .fixed_length = true};
    int rc = block_rope(m, &global, &m->info.rope[GLOBAL], e);

    if (rc)
        return rc;
    m->info.n_ropes = 1;
    if ((rc = block_rope(m, &local, &m->info.rope[LOCAL], e)) == 0)
        m->info.n_ropes = 2;
    return rc;
}

static int gemma3_open(struct model *m, struct err *e)
{
    struct decoder_config c = {.hidden = 2304,
                               .inner = 9216,
                               .layers = 26,
                               .heads = 8,
                               .kv_heads = 4,
                               .head_dim = 256,
                               .vocab = 262208,
                               .max_len = 131072,
                               .eps = 1e-6,
                               .act_key = "hidden_activation",
                               .act_name = "gelu_pytorch_tanh",
                               .tied = true,
                               .qk_norm = true,
                               .norm_add = 1};
    double logit_cap;
    int rc;

    block_text_config(m);
    if ((rc = decoder_read(m, &c, e)) != 0 || (rc = read_windows(m, &c.window, e)) != 0 ||
        (rc = config_bool(m->config, "attention_bias", false, &c.qkv_bias, e)) != 0 ||
        (rc = config_float(m->config, "final_logit_softcapping", 0, 0, 1e6, &logit_cap, e)) != 0 ||
        (rc = read_ropes(m, e)) != 0)
        return rc;
    m->info.logit_softcap = (float)logit_cap;
    c.out_bias = c.qkv_bias;
    config_ignore(m->config, "_sliding_window_pattern"); /* layer_types stands beside it */
    weights_skip(m->weights, "*vision_tower.*");
    weights_skip(m->weights, "*multi_modal_projector.*");
    if ((rc = decoder_open(m, &c, open_layer, e)) == 0)
        decoder_scale_embedding(m);
    return rc;
}

const struct model_arch gemma3_arch = {.class_name = "Gemma3ForCausalLM",
                                       .model_type = "gemma3_text",
                                       .open = gemma3_open,
                                       .forward = decoder_forward,
                                       .layer = layer_forward,
                                       .close = decoder_close};

const struct model_arch gemma3_mm_arch = {.class_name = "Gemma3ForConditionalGeneration",
                                          .model_type = "gemma3",
                                          .open = gemma3_open,
                                          .forward = decoder_forward,
                                          .layer = layer_forward,
                                          .close = decoder_close};
