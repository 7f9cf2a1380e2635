/* llama4.c - Llama 4: the text model, and the text tower of the multimodal one (Llama4ForCausalLM,
 * Llama4ForConditionalGeneration).
 *
 * Three of four layers turn q and k in pairs (2i, 2i + 1), norm their heads without weights after that, and
 * see only the chunk of positions that the row lies in; the others have no rope, see all, and scale q by the
 * logarithm of the position. Every layer, or every second, has a mixture of experts: sigmoid of the chosen
 * logits, which multiplies what goes in, beside an expert that all tokens take. Reference: transformers,
 * models/llama4/modeling_llama4.py.
 */
#include "model/block_moe.h"
#include "model/decoder.h"

/* One decoder layer; see llama.c. */
static void layer_forward(const struct block_layer *w, size_t l, const struct sink *o, struct work *s,
                          const struct batch *b)
{
    size_t T = b->n_tokens, E = w->norm_mlp.n;

    o->tap(o, l, s->x, l ? s->r : NULL, NULL, T);
    o->norm(o, s->h, s->x, l ? s->r : NULL, &w->norm_attn, T);
    o->linear(o, s->qkv, &w->qkv, s->h, T); /* [T, (H + 2 K) D] */
    o->rope(o, s->qkv, &w->attn, T);
    o->heads(o, s->qkv, &w->attn, T); /* behind rope: norms, or the temperature of q */
    o->attn(o, s->a, s->qkv, &w->attn, b, l);
    o->linear(o, s->r, &w->out, s->a, T);
    o->norm(o, s->h, s->x, s->r, &w->norm_mlp, T); /* stays fp32 where a router reads it */
    if (!w->moe) {
        o->mlp(o, s->r, &w->mlp, s->h, T);
        return;
    }
    o->moe(o, s->r2, w->moe, s->h, NULL, T);
    o->round(o, s->extra, s->h, E, T);
    o->mlp(o, s->r, &w->mlp, s->extra, T); /* the shared expert */
    o->add(o, s->r, s->r2, E, T);
}

struct llama4_config {
    struct decoder_config base; /* first */
    struct block_moe_sizes moe;
    int64_t inner_mlp, chunk, floor_scale;
    double attn_scale;
    bool use_qk_norm, tune;
    bool *rope, *has_experts; /* [L] */
    enum block_kind *kind;    /* [L] */
};

static int open_attention(struct model *m, struct block_layer *w, const char *at, size_t l,
                          const struct llama4_config *c, struct err *e)
{
    int rc = decoder_attention(m, w, at, &c->base, e);

    if (rc)
        return rc;
    w->attn.pairs = ROPE_PAIRS_NEXT;
    w->attn.rope = c->rope[l] ? 0 : -1;
    w->attn.chunk = c->kind[l] == BLOCK_CHUNKED ? (size_t)c->chunk : 0;
    if (c->rope[l] && c->use_qk_norm) {
        w->q_norm = (struct norm){.name = block_name(m, "%s.self_attn.qk_norm", at),
                                  .n = m->info.head_dim,
                                  .eps = (float)c->base.eps};
        w->attn.q_norm = w->attn.k_norm = &w->q_norm;
    }
    if (!c->rope[l] && c->tune) {
        w->attn.temp_scale = (float)c->attn_scale;
        w->attn.temp_floor = (float)c->floor_scale;
    }
    return 0;
}

/* MODULE.{gate,up,down}_proj: the dense MLP or the shared expert. */
static int open_mlp(struct model *m, struct mlp *w, const char *module, size_t inner,
                    const struct llama4_config *c, struct err *e)
{
    const char *gate = block_name(m, "%s.gate_proj", module), *up = block_name(m, "%s.up_proj", module),
               *down = block_name(m, "%s.down_proj", module);
    struct block_linear both = {.name = block_name(m, "%s.gate_up_proj", module),
                                .kind = OP_MLP,
                                .part = {{gate, inner}, {up, inner}},
                                .n_parts = 2,
                                .k = m->info.hidden};
    struct block_linear back = {
        .name = down, .kind = OP_MLP, .part = {{down, m->info.hidden}}, .n_parts = 1, .k = inner};
    int rc;

    *w = (struct mlp){.name = module, .inner = inner, .act = c->base.act, .gated = true};
    rc = block_linear(m, &w->up, &both, e);
    return rc ? rc : block_linear(m, &w->down, &back, e);
}

static int open_layer(struct model *m, struct block_layer *w, const char *at, size_t l,
                      const struct decoder_config *base, struct err *e)
{
    const struct llama4_config *c = (const void *)base;
    const char *module = block_name(m, "%s.feed_forward", at);
    struct block_moe d = {.module = block_name(m, "%s.feed_forward.experts", at),
                          .router = block_name(m, "%s.feed_forward.router", at),
                          .stored = BLOCK_EXPERTS_TURNED,
                          .n_experts = (size_t)c->moe.n_experts,
                          .top_k = (size_t)c->moe.top_k,
                          .inner = (size_t)base->inner};
    int rc = open_attention(m, w, at, l, c, e);

    if (rc || (rc = block_moe_norm(m, &w->norm_mlp, block_name(m, "%s.post_attention_layernorm", at),
                                   base->eps, e)) != 0)
        return rc;
    if (!c->has_experts[l]) {
        w->norm_mlp.wide = false;
        return open_mlp(m, &w->mlp, module, (size_t)c->inner_mlp, c, e);
    }
    if ((rc = block_moe(m, &w->moe, &d, e)) != 0)
        return rc;
    w->moe->gate = MOE_SIGMOID;
    w->moe->scale_input = true;
    w->moe->act = base->act;
    return open_mlp(m, &w->mlp, block_name(m, "%s.shared_expert", module), (size_t)base->inner, c, e);
}

/* Which layers turn, by no_rope_layers (of which 1 means that it does) or no_rope_layer_interval; which
 * see chunks. */
static int read_ropes(struct model *m, struct llama4_config *c, struct err *e)
{
    size_t L = m->info.n_layers, n;
    int64_t *turns = arena_zalloc(&m->arena, L, sizeof(*turns)), interval;
    bool given, chunked = false;
    int rc;

    c->rope = arena_zalloc(&m->arena, L, sizeof(*c->rope));
    c->kind = arena_zalloc(&m->arena, L, sizeof(*c->kind));
    if (!turns || !c->rope || !c->kind)
        return err_nomem(e, "the layers");
    if ((rc = config_int(m->config, "no_rope_layer_interval", 4, 1, 1 << 20, &interval, e)) != 0 ||
        (rc = config_ints_or_int(m->config, "no_rope_layers", turns, L, &n, e)) != 0)
        return rc;
    if (n != 0 && n != L)
        return err_set(e, ERR_INPUT, "%s: no_rope_layers has %zu entries for %zu layers",
                       config_path(m->config), n, L);
    for (size_t l = 0; l < L; l++) {
        c->rope[l] = n ? turns[l] != 0 : (l + 1) % (size_t)interval != 0;
        c->kind[l] = c->rope[l] ? BLOCK_CHUNKED : BLOCK_FULL;
    }
    if ((rc = block_layer_types(m, c->kind, &given, e)) != 0 ||
        (rc = config_int(m->config, "attention_chunk_size", 8192, 1, 1 << 30, &c->chunk, e)) != 0)
        return rc;
    for (size_t l = 0; l < L; l++) {
        chunked |= c->kind[l] == BLOCK_CHUNKED;
        if (c->kind[l] == BLOCK_SLIDING)
            return err_set(e, ERR_UNSUPPORTED, "%s: sliding_attention is not known in this model",
                           config_path(m->config));
    }
    if (chunked && config_given(m->config, "attention_chunk_size") &&
        !config_has(m->config, "attention_chunk_size"))
        return err_set(e, ERR_INPUT, "%s: attention_chunk_size is null, but there are chunked layers",
                       config_path(m->config));
    return 0;
}

/* Which layers have experts: moe_layers, or every interleave_moe_layer_step-th. */
static int read_experts(struct model *m, struct llama4_config *c, struct err *e)
{
    static const char *const experts[2] = {"num_local_experts", NULL};
    size_t L = m->info.n_layers, n;
    int64_t *layer = arena_zalloc(&m->arena, L, sizeof(*layer)), step;
    bool given = config_has(m->config, "moe_layers");
    int rc;

    c->has_experts = arena_zalloc(&m->arena, L, sizeof(*c->has_experts));
    if (!layer || !c->has_experts)
        return err_nomem(e, "the layers");
    if ((rc = config_int(m->config, "interleave_moe_layer_step", 1, 1, 1 << 20, &step, e)) != 0 ||
        (rc = config_ints_or_int(m->config, "moe_layers", layer, L, &n, e)) != 0)
        return rc;
    for (size_t l = 0; l < L && !given; l++)
        c->has_experts[l] = (l + 1) % (size_t)step == 0;
    for (size_t i = 0; i < n; i++)
        if (layer[i] >= 0 && (size_t)layer[i] < L)
            c->has_experts[layer[i]] = true;
    return block_moe_sizes(m, &c->moe, experts, "num_experts_per_tok", e);
}

static int llama4_open(struct model *m, struct err *e)
{
    struct llama4_config c = {.base = {.hidden = 5120,
                                       .inner = 8192,
                                       .layers = 48,
                                       .heads = 40,
                                       .kv_heads = 8,
                                       .head_dim = 128,
                                       .vocab = 202048,
                                       .max_len = 131072,
                                       .eps = 1e-5,
                                       .out_wide = true},
                              .moe = {16, 1}};
    int rc;

    block_text_config(m);
    if ((rc = decoder_read(m, &c.base, e)) != 0 ||
        (rc = config_int(m->config, "intermediate_size_mlp", 16384, 1, 1 << 22, &c.inner_mlp, e)) != 0 ||
        (rc = config_bool(m->config, "attention_bias", false, &c.base.qkv_bias, e)) != 0 ||
        (rc = config_bool(m->config, "use_qk_norm", true, &c.use_qk_norm, e)) != 0 ||
        (rc = config_bool(m->config, "attn_temperature_tuning", true, &c.tune, e)) != 0 ||
        (rc = config_int(m->config, "floor_scale", 8192, 1, 1 << 30, &c.floor_scale, e)) != 0 ||
        (rc = config_float(m->config, "attn_scale", 0.1, 0, 1e6, &c.attn_scale, e)) != 0 ||
        (rc = read_ropes(m, &c, e)) != 0 || (rc = read_experts(m, &c, e)) != 0 ||
        (rc = block_rope(m, &(struct block_rope){.head_dim = m->info.head_dim, .theta = 500000},
                         &m->info.rope[0], e)) != 0)
        return rc;
    c.base.out_bias = c.base.qkv_bias;
    m->info.n_ropes = 1;
    m->info.extra = m->info.hidden;
    if ((size_t)c.inner_mlp > m->info.inner)
        m->info.inner = (size_t)c.inner_mlp;
    weights_skip(m->weights, "*vision_model.*");
    weights_skip(m->weights, "*multi_modal_projector.*");
    return decoder_open(m, &c.base, open_layer, e);
}

const struct model_arch llama4_arch = {.class_name = "Llama4ForCausalLM",
                                       .model_type = "llama4_text",
                                       .open = llama4_open,
                                       .forward = decoder_forward,
                                       .layer = layer_forward,
                                       .close = decoder_close};

const struct model_arch llama4_mm_arch = {.class_name = "Llama4ForConditionalGeneration",
                                          .model_type = "llama4",
                                          .open = llama4_open,
                                          .forward = decoder_forward,
                                          .layer = layer_forward,
                                          .close = decoder_close};
