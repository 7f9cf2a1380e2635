/* qwen3.c - Qwen3, dense (Qwen3ForCausalLM).
 *
 * Llama's layer with an RMSNorm over each head of q and k in front of rope, and windows as Qwen2's.
 * Reference: transformers, models/qwen3/modeling_qwen3.py.
 */
#include "model/decoder.h"

/* One decoder layer; see llama.c.  */
static void layer_forward(const struct block_layer *w, size_t l, const struct sink *o, struct work *s,
                          const struct batch *b)
{
    size_t T = b->n_tokens;

    o->tap(o, l, s->x, l ? s->r : NULL, NULL, T);
    o->norm(o, s->h, s->x, l ? s->r : NULL, &w->norm_attn, T);
    o->linear(o, s->qkv, &w->qkv, s->h, T); /* [T, (H + 2 K) D] */
    o->heads(o, s->qkv, &w->attn, T);       /* q and k normed, each head alone */
    o->rope(o, s->qkv, &w->attn, T);
    o->attn(o, s->a, s->qkv, &w->attn, b, l);
    o->linear(o, s->r, &w->out, s->a, T);
    o->norm(o, s->h, s->x, s->r, &w->norm_mlp, T);
    o->mlp(o, s->r, &w->mlp, s->h, T);
}

static int qwen3_open(struct model *m, struct err *e)
{
    struct decoder_config c = {.hidden = 4096,
                               .inner = 22016,
                               .layers = 32,
                               .heads = 32,
                               .kv_heads = 32,
                               .head_dim = 128,
                               .vocab = 151936,
                               .max_len = 32768,
                               .eps = 1e-6,
                               .qk_norm = true};
    int rc;

    if ((rc = decoder_read(m, &c, e)) != 0 || (rc = decoder_windows(m, &c.window, e)) != 0 ||
        (rc = config_bool(m->config, "attention_bias", false, &c.qkv_bias, e)) != 0 ||
        (rc = block_rope(m, &(struct block_rope){.head_dim = m->info.head_dim, .theta = 10000},
                         &m->info.rope[0], e)) != 0)
        return rc;
    c.out_bias = c.qkv_bias;
    m->info.n_ropes = 1;
    return decoder_open(m, &c, decoder_layer, e);
}

const struct model_arch qwen3_arch = {.class_name = "Qwen3ForCausalLM",
                                      .model_type = "qwen3",
                                      .open = qwen3_open,
                                      .forward = decoder_forward,
                                      .layer = layer_forward,
                                      .close = decoder_close};
