/* gptj.c - GPT-J (GPTJForCausalLM).
 *
 * Attention and MLP read the same LayerNorm and are added together; rope turns the first rotary_dim dims of
 * each head in neighbouring pairs; biases on MLP and head only. Names come with and without the prefix
 * "transformer."; the masks that old checkpoints store are skipped. Reference: transformers,
 * models/gptj/modeling_gptj.py.
 */
#include <math.h>

#include "base/mem.h"
#include "model/decoder.h"

static void layer_forward(const struct block_layer *w, size_t l, const struct sink *o, struct work *s,
                          const struct batch *b)
{
    size_t T = b->n_tokens, E = w->norm_attn.n;

    o->tap(o, l, s->x, l ? s->r : NULL, NULL, T);
    o->norm(o, s->r2, s->x, l ? s->r : NULL, &w->norm_attn, T); /* x += r; r2 = layernorm(x), fp32 [T, E] */
    o->linear(o, s->qkv, &w->qkv, s->r2, T);                    /*                               [T, 3 E] */
    o->rope(o, s->qkv, &w->attn, T);
    o->attn(o, s->a, s->qkv, &w->attn, b, l);
    o->linear(o, s->r, &w->out, s->a, T); /*                                     [T, E] */
    o->round(o, s->h, s->r2, E, T);       /* the same normed row for the MLP             */
    o->mlp(o, s->r2, &w->mlp, s->h, T);
    o->add(o, s->r, s->r2, E, T);
}

static int read_config(struct model *m, struct decoder_config *c, struct err *e)
{
    int64_t hidden, heads, layers, vocab, len, inner, rotary;
    struct rope_params rope = {.type = ROPE_DEFAULT, .theta = 10000, .attention_factor = -1};
    int rc;

    if ((rc = config_int(m->config, "n_embd", 4096, 1, 1 << 20, &hidden, e)) != 0 ||
        (rc = config_int(m->config, "n_head", 16, 1, 4096, &heads, e)) != 0 ||
        (rc = config_int(m->config, "n_layer", 28, 1, MODEL_MAX_LAYERS, &layers, e)) != 0 ||
        (rc = config_int(m->config, "vocab_size", 50400, 1, INT32_MAX, &vocab, e)) != 0 ||
        (rc = config_int(m->config, "n_positions", 2048, 1, 1 << 24, &len, e)) != 0 ||
        (rc = config_int(m->config, "n_inner", 4 * hidden, 1, 1 << 22, &inner, e)) != 0 ||
        (rc = config_int(m->config, "rotary_dim", config_given(m->config, "rotary_dim") ? hidden / heads : 64,
                         2, 512, &rotary, e)) != 0 ||
        (rc = config_float(m->config, "layer_norm_epsilon", 1e-5, 0, 1, &c->eps, e)) != 0 ||
        (rc = config_bool(m->config, "tie_word_embeddings", false, &c->tied, e)) != 0)
        return rc;
    if (hidden % heads != 0 || hidden / heads > 512)
        return err_set(e, ERR_INPUT, "%s: n_embd %lld does not give %lld heads of at most 512 dims",
                       config_path(m->config), (long long)hidden, (long long)heads);
    if (rotary % 2 != 0 || rotary > hidden / heads)
        return err_set(e, ERR_INPUT, "%s: rotary_dim %lld does not fit heads of %lld dims",
                       config_path(m->config), (long long)rotary, (long long)(hidden / heads));
    config_ignore(m->config, "n_ctx");  /* the old name of n_positions */
    config_ignore(m->config, "rotary"); /* always true */
    config_ignore(m->config, "scale_attn_weights");
    m->info = (struct model_info){.n_layers = (size_t)layers,
                                  .hidden = (size_t)hidden,
                                  .n_heads = (size_t)heads,
                                  .n_kv = (size_t)heads,
                                  .head_dim = (size_t)(hidden / heads),
                                  .inner = (size_t)inner,
                                  .vocab = (size_t)vocab,
                                  .max_len = (size_t)len,
                                  .fixed_positions = true};
    rope.dim = (size_t)rotary;
    if ((rc = rope_open(&m->info.rope[0], &rope, e)) != 0)
        return rc;
    m->info.n_ropes = 1;
    return block_act(m, "activation_function", "gelu_new", &c->act, e);
}

static int open_layer(struct model *m, struct block_layer *w, const char *at, size_t l,
                      const struct decoder_config *c, struct err *e)
{
    const struct model_info *i = &m->info;
    size_t E = i->hidden;
    const char *out_proj = block_name(m, "%s.attn.out_proj", at), *fc_in = block_name(m, "%s.mlp.fc_in", at),
               *fc_out = block_name(m, "%s.mlp.fc_out", at);
    struct block_linear qkv = {.name = block_name(m, "%s.attn.qkv_proj", at),
                               .kind = OP_QKV,
                               .part = {{block_name(m, "%s.attn.q_proj", at), E},
                                        {block_name(m, "%s.attn.k_proj", at), E},
                                        {block_name(m, "%s.attn.v_proj", at), E}},
                               .n_parts = 3,
                               .k = E,
                               .wide = true};
    struct block_linear out = {
        .name = out_proj, .kind = OP_OUT, .part = {{out_proj, E}}, .n_parts = 1, .k = E};
    struct block_linear up = {
        .name = fc_in, .kind = OP_MLP, .part = {{fc_in, i->inner}}, .n_parts = 1, .k = E, .bias = true};
    struct block_linear down = {
        .name = fc_out, .kind = OP_MLP, .part = {{fc_out, E}}, .n_parts = 1, .k = i->inner, .bias = true};

    int rc;

    (void)l;
    w->attn = (struct attn){.name = block_name(m, "%s.attn", at),
                            .n_heads = i->n_heads,
                            .n_kv = i->n_kv,
                            .d = i->head_dim,
                            .dp = (i->head_dim + 15) / 16 * 16,
                            .scale = (float)(1.0 / sqrt((double)i->head_dim)),
                            .pairs = ROPE_PAIRS_NEXT};
    w->mlp = (struct mlp){.name = block_name(m, "%s.mlp", at), .inner = i->inner, .act = c->act};
    if ((rc = block_norm(m, &w->norm_attn, block_name(m, "%s.ln_1", at), E, c->eps, true, true, 0, e)) != 0 ||
        (rc = block_linear(m, &w->qkv, &qkv, e)) != 0 || (rc = block_linear(m, &w->out, &out, e)) != 0 ||
        (rc = block_linear(m, &w->mlp.up, &up, e)) != 0)
        return rc;
    w->norm_attn.wide = true;
    return block_linear(m, &w->mlp.down, &down, e);
}

static int gptj_open(struct model *m, struct err *e)
{
    struct model_info *i = &m->info;
    struct decoder *w = m->impl = mem_zalloc(1, sizeof(*w), MEM_MODEL);
    const char *prefix = weights_has(m->weights, "wte.weight") ? "" : "transformer.";
    struct decoder_config c = {0};
    int rc;

    if (!w)
        return err_nomem(e, "the model");
    if ((rc = read_config(m, &c, e)) != 0)
        return rc;
    weights_skip(m->weights, "*.attn.bias");
    weights_skip(m->weights, "*.attn.masked_bias");
    if ((rc = block_embed(m, &w->embed, block_name(m, "%swte", prefix), i->vocab, i->hidden, e)) != 0)
        return rc;
    if ((rc = decoder_open_layers(m, w, block_name(m, "%sh", prefix), &c, open_layer, e)) != 0 ||
        (rc = block_norm(m, &w->norm, block_name(m, "%sln_f", prefix), i->hidden, c.eps, true, true, 0, e)) !=
            0)
        return rc;
    return block_head(m, &w->head, "lm_head", &w->embed, c.tied, true, e);
}

const struct model_arch gptj_arch = {.class_name = "GPTJForCausalLM",
                                     .model_type = "gptj",
                                     .open = gptj_open,
                                     .forward = decoder_forward,
                                     .layer = layer_forward,
                                     .close = decoder_close};
