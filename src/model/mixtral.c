/* mixtral.c - Mixtral (MixtralForCausalLM).
 *
 * Mistral's layer with a mixture of experts in place of the MLP: softmax over all router logits, the largest
 * few of it made to sum to one. Window in every layer, or none. Reference: transformers,
 * models/mixtral/modeling_mixtral.py.
 */
#include "model/block_moe.h"
#include "model/decoder.h"

/* One decoder layer; see llama.c. */
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
    o->norm(o, s->h, s->x, s->r, &w->norm_mlp, T); /* stays fp32: the router reads it */
    o->moe(o, s->r, w->moe, s->h, NULL, T);
}

struct mixtral_config {
    struct decoder_config base; /* first */
    struct block_moe_sizes moe;
    int64_t window;
};

static int open_layer(struct model *m, struct block_layer *w, const char *at, size_t l,
                      const struct decoder_config *c, struct err *e)
{
    const struct mixtral_config *own = (const void *)c;
    struct block_moe d = {.module = block_name(m, "%s.block_sparse_moe.experts", at),
                          .router = block_name(m, "%s.block_sparse_moe.gate", at),
                          .stored = BLOCK_EXPERTS_APART,
                          .gate = "w1",
                          .up = "w3",
                          .down = "w2",
                          .n_experts = (size_t)own->moe.n_experts,
                          .top_k = (size_t)own->moe.top_k,
                          .inner = m->info.inner};
    int rc;

    (void)l;
    if ((rc = decoder_attention(m, w, at, c, e)) != 0 ||
        (rc = block_moe_norm(m, &w->norm_mlp, block_name(m, "%s.post_attention_layernorm", at), c->eps, e)) !=
            0 ||
        (rc = block_moe(m, &w->moe, &d, e)) != 0)
        return rc;
    w->attn.window = (size_t)own->window;
    w->moe->gate = MOE_SOFTMAX_ALL;
    w->moe->renorm = true;
    w->moe->act = c->act;
    return 0;
}

static int mixtral_open(struct model *m, struct err *e)
{
    static const char *const experts[2] = {"num_local_experts", "num_experts"};
    struct mixtral_config c = {.base = {.hidden = 4096,
                                        .inner = 14336,
                                        .layers = 32,
                                        .heads = 32,
                                        .kv_heads = 8,
                                        .vocab = 32000,
                                        .max_len = 131072,
                                        .eps = 1e-5,
                                        .out_wide = true},
                               .moe = {8, 2}};
    int rc;

    if ((rc = decoder_read(m, &c.base, e)) != 0 || (rc = block_window(m, 0, &c.window, e)) != 0 ||
        (rc = block_moe_sizes(m, &c.moe, experts, "num_experts_per_tok", e)) != 0 ||
        (rc = block_rope(m, &(struct block_rope){.head_dim = m->info.head_dim, .theta = 1000000},
                         &m->info.rope[0], e)) != 0)
        return rc;
    m->info.n_ropes = 1;
    return decoder_open(m, &c.base, open_layer, e);
}

const struct model_arch mixtral_arch = {.class_name = "MixtralForCausalLM",
                                        .model_type = "mixtral",
                                        .open = mixtral_open,
                                        .forward = decoder_forward,
                                        .layer = layer_forward,
                                        .close = decoder_close};
