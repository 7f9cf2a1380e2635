/* llama.c - Llama 1 to 3.3 and everything of its shape (LlamaForCausalLM).
 *
 * RMSNorm in front of attention and MLP, grouped key/value heads, rotary positions in halves, SiLU-gated
 * MLP, head tied to the embedding or not. q, k, v and gate, up are joined into one matrix each.
 * Reference: transformers, models/llama/modeling_llama.py.
 */
#include "model/llama.h"

#include "model/decoder.h"

/* One decoder layer. x is the fp32 residual stream, r what the last block adds to it (nothing in front of
 * layer 0). */
void llama_layer(const struct block_layer *w, size_t l, const struct sink *o, struct work *s,
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

static int llama_open(struct model *m, struct err *e)
{
    struct decoder_config c = {.hidden = 4096,
                               .inner = 11008,
                               .layers = 32,
                               .heads = 32,
                               .vocab = 32000,
                               .max_len = 2048,
                               .eps = 1e-6};
    int rc;

    if ((rc = decoder_read(m, &c, e)) != 0 ||
        (rc = config_bool(m->config, "attention_bias", false, &c.qkv_bias, e)) != 0 ||
        (rc = config_bool(m->config, "mlp_bias", false, &c.mlp_bias, e)) != 0 ||
        (rc = block_rope(m, &(struct block_rope){.head_dim = m->info.head_dim, .theta = 10000},
                         &m->info.rope[0], e)) != 0)
        return rc;
    c.out_bias = c.qkv_bias;
    m->info.n_ropes = 1;
    config_ignore(m->config,
                  "pretraining_tp"); /* how the original was trained; Hugging Face computes the same
                                               without it */
    weights_skip(m->weights, "*rotary_emb.inv_freq");
    return decoder_open(m, &c, decoder_layer, e);
}

const struct model_arch llama_arch = {.class_name = "LlamaForCausalLM",
                                      .model_type = "llama",
                                      .open = llama_open,
                                      .forward = decoder_forward,
                                      .layer = llama_layer,
                                      .close = decoder_close};
