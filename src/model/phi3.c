/* phi3.c - Phi-3, 3.5, 4 and 4-mini (Phi3ForCausalLM).
 *
 * Llama's layer with q, k, v and gate, up each stored as one tensor; rope turns a part of each head where
 * partial_rotary_factor says so, and its types su and yarn are older names of longrope.
 * Reference: transformers, models/phi3/modeling_phi3.py.
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

    (void)l;
    w->attn.window = (size_t)c->sliding;
    return rc ? rc : decoder_mlp(m, w, at, "post_attention_layernorm", m->info.inner, c, e);
}

static int phi3_open(struct model *m, struct err *e)
{
    struct decoder_config c = {.hidden = 3072,
                               .inner = 8192,
                               .layers = 32,
                               .heads = 32,
                               .vocab = 32064,
                               .max_len = 4096,
                               .eps = 1e-5,
                               .fused = true};
    int rc;

    if ((rc = decoder_read(m, &c, e)) != 0 || (rc = block_window(m, 0, &c.sliding, e)) != 0)
        return rc;
    struct block_rope rope = {.head_dim = m->info.head_dim, .theta = 10000, .partial = true, .phi = true};

    if ((rc = block_rope(m, &rope, &m->info.rope[0], e)) != 0)
        return rc;
    m->info.n_ropes = 1;
    conf_ignore(m->conf, "original_max_position_embeddings"); /* longrope alone uses it, and has read it */
    return decoder_open(m, &c, open_layer, e);
}

const struct model_arch phi3_arch = {.class_name = "Phi3ForCausalLM",
                                     .model_type = "phi3",
                                     .open = phi3_open,
                                     .forward = forward,
                                     .close = decoder_close};
