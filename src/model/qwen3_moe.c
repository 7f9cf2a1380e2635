/* qwen3_moe.c - Qwen3 with experts (Qwen3MoeForCausalLM).
 *
 * Qwen3's layer; a mixture of experts in place of the MLP in layers that mlp_only_layers does not name and
 * whose number plus one is a multiple of decoder_sparse_step. Softmax over all router logits; the chosen
 * weights are made to sum to one only where norm_topk_prob says so. Reference: transformers,
 * models/qwen3_moe/modeling_qwen3_moe.py.
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
    o->heads(o, s->qkv, &w->attn, T);       /* q and k normed, each head alone */
    o->rope(o, s->qkv, &w->attn, T);
    o->attn(o, s->a, s->qkv, &w->attn, b, l);
    o->linear(o, s->r, &w->out, s->a, T);
    o->norm(o, s->h, s->x, s->r, &w->norm_mlp, T); /* stays fp32 where a router reads it */
    if (w->moe)
        o->moe(o, s->r, w->moe, s->h, NULL, T);
    else
        o->mlp(o, s->r, &w->mlp, s->h, T);
}

struct qwen3_moe_config {
    struct decoder_config base; /* first */
    struct block_moe_sizes moe;
    int64_t inner, window;
    bool renorm;
    bool *has_experts; /* [L] */
};

static int open_layer(struct model *m, struct block_layer *w, const char *at, size_t l,
                      const struct decoder_config *c, struct err *e)
{
    const struct qwen3_moe_config *own = (const void *)c;
    struct block_moe d = {.module = block_name(m, "%s.mlp.experts", at),
                          .router = block_name(m, "%s.mlp.gate", at),
                          .stored = BLOCK_EXPERTS_APART,
                          .gate = "gate_proj",
                          .up = "up_proj",
                          .down = "down_proj",
                          .n_experts = (size_t)own->moe.n_experts,
                          .top_k = (size_t)own->moe.top_k,
                          .inner = (size_t)own->inner};
    int rc = decoder_attention(m, w, at, c, e);

    w->attn.window = (size_t)own->window;
    if (rc)
        return rc;
    if (!own->has_experts[l])
        return decoder_mlp(m, w, at, "post_attention_layernorm", m->info.inner, c, e);
    if ((rc = block_moe_norm(m, &w->norm_mlp, block_name(m, "%s.post_attention_layernorm", at), c->eps, e)) !=
            0 ||
        (rc = block_moe(m, &w->moe, &d, e)) != 0)
        return rc;
    w->moe->gate = MOE_SOFTMAX_ALL;
    w->moe->renorm = own->renorm;
    w->moe->act = c->act;
    return 0;
}

/* Which layers have experts. */
static int read_layers(struct model *m, struct qwen3_moe_config *c, struct err *e)
{
    size_t L = m->info.n_layers, n;
    int64_t *dense = arena_zalloc(&m->arena, L, sizeof(*dense)), step;
    int rc;

    c->has_experts = arena_zalloc(&m->arena, L, sizeof(*c->has_experts));
    if (!dense || !c->has_experts)
        return err_nomem(e, "the layers");
    if ((rc = config_int(m->config, "decoder_sparse_step", 1, 1, 1 << 20, &step, e)) != 0 ||
        (rc = config_ints_or_int(m->config, "mlp_only_layers", dense, L, &n, e)) != 0)
        return rc;
    for (size_t l = 0; l < L; l++)
        c->has_experts[l] = (l + 1) % (size_t)step == 0;
    for (size_t i = 0; i < n; i++)
        if (dense[i] >= 0 && (size_t)dense[i] < L)
            c->has_experts[dense[i]] = false;
    return 0;
}

static int qwen3_moe_open(struct model *m, struct err *e)
{
    static const char *const experts[2] = {"num_experts", "num_local_experts"};
    struct qwen3_moe_config c = {.base = {.hidden = 2048,
                                          .inner = 6144,
                                          .layers = 24,
                                          .heads = 32,
                                          .kv_heads = 4,
                                          .vocab = 151936,
                                          .max_len = 32768,
                                          .eps = 1e-6,
                                          .out_wide = true,
                                          .qk_norm = true},
                                 .moe = {128, 8}};
    bool windows;
    int rc;

    if ((rc = decoder_read(m, &c.base, e)) != 0 ||
        (rc = block_moe_sizes(m, &c.moe, experts, "num_experts_per_tok", e)) != 0 ||
        (rc = config_int(m->config, "moe_intermediate_size", 768, 1, 1 << 22, &c.inner, e)) != 0 ||
        (rc = config_bool(m->config, "norm_topk_prob", false, &c.renorm, e)) != 0 ||
        (rc = config_bool(m->config, "attention_bias", false, &c.base.qkv_bias, e)) != 0 ||
        (rc = config_bool(m->config, "use_sliding_window", false, &windows, e)) != 0 ||
        (rc = block_window(m, 4096, &c.window, e)) != 0 || (rc = read_layers(m, &c, e)) != 0 ||
        (rc = block_rope(m, &(struct block_rope){.head_dim = m->info.head_dim, .theta = 10000},
                         &m->info.rope[0], e)) != 0)
        return rc;
    config_ignore(m->config, "max_window_layers"); /* here a window is in all layers or in none */
    if (!windows)
        c.window = 0;
    c.base.out_bias = c.base.qkv_bias;
    m->info.n_ropes = 1;
    return decoder_open(m, &c.base, open_layer, e);
}

const struct model_arch qwen3_moe_arch = {.class_name = "Qwen3MoeForCausalLM",
                                          .model_type = "qwen3_moe",
                                          .open = qwen3_moe_open,
                                          .forward = decoder_forward,
                                          .layer = layer_forward,
                                          .close = decoder_close};
