/* llama.c - Llama 1 to 3.3 and everything of its shape (LlamaForCausalLM).
 *
 * RMSNorm in front of attention and MLP, grouped key/value heads, rotary positions in halves, SiLU-gated
 * MLP, head tied to the embedding or not. q, k, v and gate, up are joined into one matrix each.
 * Reference: transformers, models/llama/modeling_llama.py.
 */
#include <math.h>

#include "base/mem.h"
#include "model/block.h"

struct llama {
    struct embed embed;
    struct norm norm;
    struct linear head;
    struct block_layer *layer; /* [L] */
};

/* One decoder layer. x is the fp32 residual stream, r what the last block adds to it (nothing in front of
 * layer 0). */
static void layer_forward(const struct block_layer *w, size_t l, const struct sink *o, struct work *s,
                          const struct batch *b)
{
    size_t T = b->n_tokens;

    o->tap(o, l, s->x, l ? s->r : NULL, NULL, T);
    o->norm(o, s->h, s->x, l ? s->r : NULL, &w->norm_attn,
            T);                               /* x += r; h = rmsnorm(x)              [T, E] */
    o->linear(o, s->qkv, &w->qkv, s->h, T);   /* one packed matrix         [T, (H + 2 K) D] */
    o->rope(o, s->qkv, &w->attn, T);          /* turns q and k in place                     */
    o->attn(o, s->a, s->qkv, &w->attn, b, l); /* stores k, v; walks the cache      [T, H D] */
    o->linear(o, s->r, &w->out, s->a, T);     /*                                     [T, E] */
    o->norm(o, s->h, s->x, s->r, &w->norm_mlp, T);
    o->mlp(o, s->r, &w->mlp, s->h, T); /* down(act(gate) * up)                [T, E] */
}

static void forward(const struct model *m, const struct sink *o, const struct batch *b, struct work *s)
{
    const struct llama *w = m->impl;

    o->begin(o, m->info.rope, m->info.n_ropes, b);
    o->embed(o, s->x, &w->embed, b->id, false, b->n_tokens);
    for (size_t l = 0; l < m->info.n_layers; l++)
        layer_forward(&w->layer[l], l, o, s, b);
    block_tail(m, o, b, s, &w->norm, &w->head);
}

/* What of config.json is not in model_info. */
struct llama_config {
    double eps;
    bool attn_bias, mlp_bias, tied;
    enum kern_act act;
};

static int read_config(struct model *m, struct llama_config *c, struct err *e)
{
    struct model_info *i = &m->info;
    int64_t hidden, inner, layers, vocab, len;
    int rc;

    if ((rc = conf_int(m->conf, "hidden_size", 4096, 1, 1 << 20, &hidden, e)) != 0 ||
        (rc = conf_int(m->conf, "intermediate_size", 11008, 1, 1 << 22, &inner, e)) != 0 ||
        (rc = conf_int(m->conf, "num_hidden_layers", 32, 1, MODEL_MAX_LAYERS, &layers, e)) != 0 ||
        (rc = conf_int(m->conf, "vocab_size", 32000, 1, INT32_MAX, &vocab, e)) != 0 ||
        (rc = conf_int(m->conf, "max_position_embeddings", 2048, 1, 1 << 24, &len, e)) != 0 ||
        (rc = conf_float(m->conf, "rms_norm_eps", 1e-6, 0, 1, &c->eps, e)) != 0 ||
        (rc = conf_bool(m->conf, "attention_bias", false, &c->attn_bias, e)) != 0 ||
        (rc = conf_bool(m->conf, "mlp_bias", false, &c->mlp_bias, e)) != 0 ||
        (rc = conf_bool(m->conf, "tie_word_embeddings", false, &c->tied, e)) != 0 ||
        (rc = block_act(m, "hidden_act", "silu", &c->act, e)) != 0)
        return rc;
    i->hidden = (size_t)hidden;
    i->inner = (size_t)inner;
    i->n_layers = (size_t)layers;
    i->vocab = (size_t)vocab;
    i->max_len = (size_t)len;
    return block_heads(m, 32, e);
}

/* AT: "model.layers.L". */
static int open_attention(struct model *m, struct block_layer *w, const char *at,
                          const struct llama_config *c, struct err *e)
{
    const struct model_info *i = &m->info;
    size_t E = i->hidden, q = i->n_heads * i->head_dim, kv = i->n_kv * i->head_dim;
    const char *o_proj = block_name(m, "%s.self_attn.o_proj", at);
    struct block_linear qkv = {.name = block_name(m, "%s.self_attn.qkv_proj", at),
                               .kind = OP_QKV,
                               .part = {{block_name(m, "%s.self_attn.q_proj", at), q},
                                        {block_name(m, "%s.self_attn.k_proj", at), kv},
                                        {block_name(m, "%s.self_attn.v_proj", at), kv}},
                               .n_parts = 3,
                               .k = E,
                               .bias = c->attn_bias,
                               .wide = true};
    struct block_linear out = {
        .name = o_proj, .kind = OP_OUT, .part = {{o_proj, E}}, .n_parts = 1, .k = q, .bias = c->attn_bias};
    int rc;

    w->attn = (struct attn){.name = block_name(m, "%s.self_attn", at),
                            .n_heads = i->n_heads,
                            .n_kv = i->n_kv,
                            .d = i->head_dim,
                            .dp = (i->head_dim + 15) / 16 * 16,
                            .scale = (float)(1.0 / sqrt((double)i->head_dim)),
                            .pairs = ROPE_PAIRS_HALF};
    rc = block_norm(m, &w->norm_attn, block_name(m, "%s.input_layernorm", at), E, c->eps, false, false, 0, e);
    if (rc)
        return rc;
    w->norm_attn.wide = qkv.wide;
    rc = block_linear(m, &w->qkv, &qkv, e);
    return rc ? rc : block_linear(m, &w->out, &out, e);
}

static int open_mlp(struct model *m, struct block_layer *w, const char *at, const struct llama_config *c,
                    struct err *e)
{
    const struct model_info *i = &m->info;
    size_t E = i->hidden, I = i->inner;
    const char *down_proj = block_name(m, "%s.mlp.down_proj", at);
    struct block_linear up = {
        .name = block_name(m, "%s.mlp.gate_up_proj", at),
        .kind = OP_MLP,
        .part = {{block_name(m, "%s.mlp.gate_proj", at), I}, {block_name(m, "%s.mlp.up_proj", at), I}},
        .n_parts = 2,
        .k = E,
        .bias = c->mlp_bias};
    struct block_linear down = {.name = down_proj,
                                .kind = OP_MLP,
                                .part = {{down_proj, E}},
                                .n_parts = 1,
                                .k = I,
                                .bias = c->mlp_bias};
    int rc;

    w->mlp = (struct mlp){.name = block_name(m, "%s.mlp", at), .inner = I, .act = c->act, .gated = true};
    rc = block_norm(m, &w->norm_mlp, block_name(m, "%s.post_attention_layernorm", at), E, c->eps, false,
                    false, 0, e);
    if (rc == 0)
        rc = block_linear(m, &w->mlp.up, &up, e);
    return rc ? rc : block_linear(m, &w->mlp.down, &down, e);
}

static void llama_close(struct model *m)
{
    struct llama *w = m->impl;

    block_norm_close(&w->norm);
    linear_close(&w->head);
    block_layers_close(w->layer, m->info.n_layers);
    mem_free(w);
    m->impl = NULL;
}

static int llama_open(struct model *m, struct err *e)
{
    struct model_info *i = &m->info;
    struct llama *w = m->impl = mem_zalloc(1, sizeof(*w), MEM_MODEL);
    const char *prefix = weights_has(m->weights, "embed_tokens.weight") ? "" : "model.";
    struct llama_config c;
    int rc;

    if (!w)
        return err_nomem(e, "the model");
    if ((rc = read_config(m, &c, e)) != 0 || (rc = block_rope(m, i->head_dim, 10000, &i->rope[0], e)) != 0)
        return rc;
    i->n_ropes = 1;
    conf_ignore(
        m->conf,
        "pretraining_tp"); /* how the original was trained; Hugging Face computes the same without it */
    weights_skip(m->weights, "*rotary_emb.inv_freq");
    if ((rc = block_embed(m, &w->embed, block_name(m, "%sembed_tokens", prefix), i->vocab, i->hidden, e)) !=
        0)
        return rc;
    w->layer = mem_zalloc(i->n_layers, sizeof(*w->layer), MEM_MODEL);
    if (!w->layer)
        return err_nomem(e, "the model's layers");
    for (size_t l = 0; l < i->n_layers; l++) {
        const char *at = block_name(m, "%slayers.%zu", prefix, l);

        if (!at)
            return err_nomem(e, "a tensor name");
        if ((rc = open_attention(m, &w->layer[l], at, &c, e)) != 0 ||
            (rc = open_mlp(m, &w->layer[l], at, &c, e)) != 0)
            return rc;
        if (m->opt.progress)
            m->opt.progress(m->opt.progress_ctx, l + 1, i->n_layers);
    }
    if ((rc = block_norm(m, &w->norm, block_name(m, "%snorm", prefix), i->hidden, c.eps, false, false, 0,
                         e)) != 0)
        return rc;
    return block_head(m, &w->head, "lm_head", &w->embed, c.tied, e);
}

const struct model_arch llama_arch = {.class_name = "LlamaForCausalLM",
                                      .model_type = "llama",
                                      .open = llama_open,
                                      .forward = forward,
                                      .close = llama_close};
