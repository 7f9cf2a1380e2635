/* qwen2.c - Qwen2 and Qwen2.5 (Qwen2ForCausalLM).
 *
 * Llama's layer with biases on q, k and v, and with sliding windows in some layers where use_sliding_window
 * says so. Reference: transformers, models/qwen2/modeling_qwen2.py.
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
    o->rope(o, s->qkv, &w->attn, T);
    o->attn(o, s->a, s->qkv, &w->attn, b, l);
    o->linear(o, s->r, &w->out, s->a, T);
    o->norm(o, s->h, s->x, s->r, &w->norm_mlp, T);
    o->mlp(o, s->r, &w->mlp, s->h, T);
}

static void forward(const struct model *m, const struct sink *o, const struct batch *b, struct work *s)
{
    const struct decoder *w = m->impl;

    o->begin(o, m->info.rope, m->info.n_ropes, b);
    o->embed(o, s->x, &w->embed, b->id, false, b->n_tokens);
    for (size_t l = 0; l < m->info.n_layers; l++)
        layer_forward(&w->layer[l], l, o, s, b);
    block_tail(m, o, b, s, &w->norm, &w->head);
}

static int open_layer(struct model *m, struct block_layer *w, const char *at, size_t l,
                      const struct decoder_config *c, struct err *e)
{
    int rc = decoder_attention(m, w, at, c, e);

    w->attn.window = c->window[l];
    return rc ? rc : decoder_mlp(m, w, at, "post_attention_layernorm", m->info.inner, c, e);
}

static int qwen2_open(struct model *m, struct err *e)
{
    struct decoder_config c = {.hidden = 4096,
                               .inner = 22016,
                               .layers = 32,
                               .heads = 32,
                               .kv_heads = 32,
                               .vocab = 151936,
                               .max_len = 32768,
                               .eps = 1e-6,
                               .qkv_bias = true};
    int rc;

    if ((rc = decoder_read(m, &c, e)) != 0 || (rc = decoder_windows(m, &c.window, e)) != 0 ||
        (rc = block_rope(m, &(struct block_rope){.head_dim = m->info.head_dim, .theta = 10000},
                         &m->info.rope[0], e)) != 0)
        return rc;
    m->info.n_ropes = 1;
    return decoder_open(m, &c, open_layer, e);
}

const struct model_arch qwen2_arch = {.class_name = "Qwen2ForCausalLM",
                                      .model_type = "qwen2",
                                      .open = qwen2_open,
                                      .forward = forward,
                                      .close = decoder_close};
