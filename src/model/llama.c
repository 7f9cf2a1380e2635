/* llama.c - Llama 1 to 3.3 and everything of its shape (LlamaForCausalLM).
 *
 * RMSNorm in front of attention and MLP, grouped key/value heads, rotary positions in halves, SiLU-gated MLP, head tied to
 * the embedding or not. q, k, v and gate, up are joined into one matrix each.
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

/* One decoder layer. x is the fp32 residual stream, r what the last block adds to it (nothing in front of layer 0). */
static void layer_forward(const struct block_layer *w, size_t l, const struct sink *o, struct work *s, const struct batch *b)
{
    size_t T = b->n_tokens;

    o->tap(o, l, s->x, l ? s->r : NULL, NULL, T);
    o->norm(o, s->h, s->x, l ? s->r : NULL, &w->norm_attn, T); /* x += r; h = rmsnorm(x)              [T, E] */
    o->linear(o, s->qkv, &w->qkv, s->h, T);                    /* one packed matrix         [T, (H + 2 K) D] */
    o->rope(o, s->qkv, &w->attn, T);                           /* turns q and k in place                     */
    o->attn(o, s->a, s->qkv, &w->attn, b, l);                  /* stores k, v; walks the cache      [T, H D] */
    o->linear(o, s->r, &w->out, s->a, T);                      /*                                     [T, E] */
    o->norm(o, s->h, s->x, s->r, &w->norm_mlp, T);
    o->mlp(o, s->r, &w->mlp, s->h, T);                         /* down(act(gate) * up)                [T, E] */
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

static int read_config(struct model *m, double *eps, bool *attn_bias, bool *mlp_bias, bool *tied, struct err *e)
{
    struct model_info *i = &m->info;
    int64_t hidden, inner, layers, vocab, len;
    int rc;

    if ((rc = conf_int(m->conf, "hidden_size", 4096, 1, 1 << 20, &hidden, e)) != 0 ||
        (rc = conf_int(m->conf, "intermediate_size", 11008, 1, 1 << 22, &inner, e)) != 0 ||
        (rc = conf_int(m->conf, "num_hidden_layers", 32, 1, MODEL_MAX_LAYERS, &layers, e)) != 0 ||
        (rc = conf_int(m->conf, "vocab_size", 32000, 1, INT32_MAX, &vocab, e)) != 0 ||
        (rc = conf_int(m->conf, "max_position_embeddings", 2048, 1, 1 << 24, &len, e)) != 0 ||
        (rc = conf_float(m->conf, "rms_norm_eps", 1e-6, 0, 1, eps, e)) != 0 ||
        (rc = conf_bool(m->conf, "attention_bias", false, attn_bias, e)) != 0 ||
        (rc = conf_bool(m->conf, "mlp_bias", false, mlp_bias, e)) != 0 ||
        (rc = conf_bool(m->conf, "tie_word_embeddings", false, tied, e)) != 0)
        return rc;
    i->hidden = (size_t)hidden;
    i->inner = (size_t)inner;
    i->n_layers = (size_t)layers;
    i->vocab = (size_t)vocab;
    i->max_len = (size_t)len;
    return block_heads(m, 32, e);
}

static int open_layer(struct model *m, struct block_layer *w, const char *prefix, size_t l, double eps, bool attn_bias,
                      bool mlp_bias, enum kern_act act, struct err *e)
{
    const struct model_info *i = &m->info;
    const char *at = block_name(m, "%slayers.%zu", prefix, l);
    size_t E = i->hidden, q = i->n_heads * i->head_dim, kv = i->n_kv * i->head_dim;
    int rc;

    if (!at)
        return err_nomem(e, "a tensor name");
    struct block_linear qkv = {block_name(m, "%s.self_attn.qkv_proj", at), OP_QKV,
                               {{block_name(m, "%s.self_attn.q_proj", at), q},
                                {block_name(m, "%s.self_attn.k_proj", at), kv},
                                {block_name(m, "%s.self_attn.v_proj", at), kv}}, 3, E, attn_bias, false, true};
    struct block_linear out = {block_name(m, "%s.self_attn.o_proj", at), OP_OUT,
                               {{block_name(m, "%s.self_attn.o_proj", at), E}}, 1, q, attn_bias, false, false};
    struct block_linear up = {block_name(m, "%s.mlp.gate_up_proj", at), OP_MLP,
                              {{block_name(m, "%s.mlp.gate_proj", at), i->inner},
                               {block_name(m, "%s.mlp.up_proj", at), i->inner}}, 2, E, mlp_bias, false, false};
    struct block_linear down = {block_name(m, "%s.mlp.down_proj", at), OP_MLP,
                                {{block_name(m, "%s.mlp.down_proj", at), E}}, 1, i->inner, mlp_bias, false, false};

    w->attn = (struct attn){.name = block_name(m, "%s.self_attn", at), .n_heads = i->n_heads, .n_kv = i->n_kv,
                            .d = i->head_dim, .dp = (i->head_dim + 15) / 16 * 16,
                            .scale = (float)(1.0 / sqrt((double)i->head_dim)), .pairs = ROPE_PAIRS_HALF};
    w->mlp = (struct mlp){.name = block_name(m, "%s.mlp", at), .inner = i->inner, .act = act, .gated = true};
    if ((rc = block_norm(m, &w->norm_attn, block_name(m, "%s.input_layernorm", at), E, eps, false, false, 0, e)) != 0 ||
        (rc = block_linear(m, &w->qkv, &qkv, e)) != 0 || (rc = block_linear(m, &w->out, &out, e)) != 0 ||
        (rc = block_norm(m, &w->norm_mlp, block_name(m, "%s.post_attention_layernorm", at), E, eps, false, false, 0,
                         e)) != 0 ||
        (rc = block_linear(m, &w->mlp.up, &up, e)) != 0)
        return rc;
    w->norm_attn.wide = qkv.wide; /* scores feel the rounding of their input most: see docs/PERFORMANCE.md */
    return block_linear(m, &w->mlp.down, &down, e);
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
    bool attn_bias, mlp_bias, tied;
    enum kern_act act;
    double eps;
    int rc;

    if (!w)
        return err_nomem(e, "the model");
    if ((rc = read_config(m, &eps, &attn_bias, &mlp_bias, &tied, e)) != 0 ||
        (rc = block_act(m, "hidden_act", "silu", &act, e)) != 0 ||
        (rc = block_rope(m, i->head_dim, 10000, &i->rope[0], e)) != 0)
        return rc;
    i->n_ropes = 1;
    conf_ignore(m->conf, "pretraining_tp"); /* how the original was trained; Hugging Face computes the same without it */
    weights_skip(m->weights, "*rotary_emb.inv_freq");
    if ((rc = block_embed(m, &w->embed, block_name(m, "%sembed_tokens", prefix), i->vocab, i->hidden, e)) != 0)
        return rc;
    w->layer = mem_zalloc(i->n_layers, sizeof(*w->layer), MEM_MODEL);
    if (!w->layer)
        return err_nomem(e, "the model's layers");
    for (size_t l = 0; l < i->n_layers; l++) {
        if ((rc = open_layer(m, &w->layer[l], prefix, l, eps, attn_bias, mlp_bias, act, e)) != 0)
            return rc;
        if (m->opt.progress)
            m->opt.progress(m->opt.progress_ctx, l + 1, i->n_layers);
    }
    if ((rc = block_norm(m, &w->norm, block_name(m, "%snorm", prefix), i->hidden, eps, false, false, 0, e)) != 0)
        return rc;
    return block_head(m, &w->head, "lm_head", &w->embed, tied, e);
}

const struct model_arch llama_arch = {.class_name = "LlamaForCausalLM", .model_type = "llama", .open = llama_open,
                                      .forward = forward, .close = llama_close};
