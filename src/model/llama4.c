/* llama4.c - Llama 4: the text model (Llama4ForCausalLM), and the text part of the multimodal model
 * (Llama4ForConditionalGeneration).
 *
 * Three of four layers rotate q and k in pairs (2i, 2i + 1), then norm their heads without weights; a row
 * sees only the chunk of positions that it is in. The other layers have no rope, see all rows, and scale q by
 * a logarithm of the position. Every layer, or every second, has a mixture of experts and a shared expert for
 * all tokens; the sigmoid of a chosen router logit scales the input of the expert. Reference: transformers,
 * models/llama4/modeling_llama4.py.
 */
#include "ckpt/config.h"
#include "ckpt/weights.h"
#include "model/decoder.h"
#include "model/model.h"
#include "ops/batch.h"

/* Computes one decoder layer; see llama.c. */
static void layer_forward(const struct decoder_layer *w, size_t l, const struct op_sink *o,
                          struct model_work *s, const struct batch *b)
{
    size_t T = b->n_tokens, E = w->norm_mlp.n;

    o->tap(o, l, s->x, l ? s->r : NULL, NULL, T);
    o->norm(o, s->h, s->x, l ? s->r : NULL, &w->norm_attn, T);
    o->linear(o, s->qkv, &w->qkv, s->h, T); /* [T, (H + 2 K) D] */
    o->rope(o, s->qkv, &w->attn, T);
    o->heads(o, s->qkv, &w->attn, T); /* after rope: norms q and k, or scales q by the position */
    o->attn(o, s->a, s->qkv, &w->attn, b, l);
    o->linear(o, s->r, &w->out, s->a, T);
    o->norm(o, s->h, s->x, s->r, &w->norm_mlp, T);
    if (!w->moe) {
        o->mlp(o, s->r, &w->mlp, s->h, T);
        return;
    }
    o->moe(o, s->r2, w->moe, s->h, NULL, T);
    o->mlp(o, s->r, &w->mlp, s->h, T); /* the shared expert */
    o->add(o, s->r, s->r2, E, T);
}

/* Values of the config. ROPE [L]: whether a layer has rope; KIND [L]: its type. */
struct llama4_config {
    size_t inner_mlp, chunk, floor_scale;
    double attn_scale;
    bool use_qk_norm, tune;
    bool *rope;
    enum bind_layer_kind *kind;
};

static void open_attention(struct model *m, struct decoder_layer *w, const char *at, size_t l,
                           const struct decoder_config *c)
{
    const struct llama4_config *own = c->own;

    decoder_open_attention(m, w, at, l, c);
    w->attn.pairs = ROPE_PAIRS_NEXT;
    w->attn.rope = own->rope[l] ? 0 : -1;
    w->attn.chunk = own->kind[l] == BIND_CHUNKED ? own->chunk : 0;
    if (own->rope[l] && own->use_qk_norm) {
        w->q_norm = (struct op_norm){.n = m->info.head_dim, .eps = (float)c->eps};
        w->attn.q_norm = w->attn.k_norm = &w->q_norm;
    }
    if (!own->rope[l] && own->tune) {
        w->attn.temp_scale = (float)own->attn_scale;
        w->attn.temp_floor = (float)own->floor_scale;
    }
}

static void open_layer(struct model *m, struct decoder_layer *w, const char *at, size_t l,
                       const struct decoder_config *c)
{
    const struct llama4_config *own = c->own;
    bool experts = c->experts[l];

    open_attention(m, w, at, l, c);
    bind_norm(m, &w->norm_mlp, at, "post_attention_layernorm", m->info.hidden, c->eps, 0);
    if (experts)
        bind_moe(m, &w->moe, at, &c->moe);
    if (experts)
        decoder_open_mlp(m, &w->mlp, at, "feed_forward.shared_expert", c->moe.inner, c);
    else
        decoder_open_mlp(m, &w->mlp, at, "feed_forward", own->inner_mlp, c);
}

/* Reads which layers have rope, from no_rope_layers (1: the layer has rope) or no_rope_layer_interval, and
 * which layers have chunked attention. */
static void read_ropes(struct model *m, struct llama4_config *c)
{
    size_t L = m->info.n_layers, interval = bind_int(m, "no_rope_layer_interval", 4, 1, 1 << 20), n;
    const int64_t *rotates = bind_ints(m, "no_rope_layers", &n);
    bool chunked = false;

    c->rope = bind_array(m, L, sizeof(*c->rope), "the layers");
    c->kind = bind_array(m, L, sizeof(*c->kind), "the layers");
    if (n != 0 && n != L)
        bind_refuse(m, ERR_INPUT, "no_rope_layers has %zu entries, expected %zu, the number of layers", n, L);
    for (size_t l = 0; l < L && !bind_failed(m); l++) {
        c->rope[l] = n ? rotates[l] != 0 : (l + 1) % interval != 0;
        c->kind[l] = c->rope[l] ? BIND_CHUNKED : BIND_FULL;
    }
    bind_layer_types(m, c->kind, BIND_SLIDING);
    c->chunk = bind_int(m, "attention_chunk_size", 8192, 1, 1 << 30);
    for (size_t l = 0; l < L && !bind_failed(m); l++)
        chunked |= c->kind[l] == BIND_CHUNKED;
    if (chunked && config_given(m->config, "attention_chunk_size") &&
        !config_has(m->config, "attention_chunk_size"))
        bind_refuse(m, ERR_INPUT, "attention_chunk_size is null, but there are chunked layers");
}

/* Returns which layers have experts: moe_layers, or else every interleave_moe_layer_step-th layer. */
static const bool *read_experts(struct model *m)
{
    size_t L = m->info.n_layers, step = bind_int(m, "interleave_moe_layer_step", 1, 1, 1 << 20), n;
    bool given = config_has(m->config, "moe_layers"),
         *experts = bind_array(m, L, sizeof(*experts), "the layers");
    const int64_t *layer = bind_ints(m, "moe_layers", &n);

    for (size_t l = 0; l < L && !given && !bind_failed(m); l++)
        experts[l] = (l + 1) % step == 0;
    for (size_t i = 0; i < n && !bind_failed(m); i++)
        if (layer[i] >= 0 && (size_t)layer[i] < L)
            experts[layer[i]] = true;
    return experts;
}

void llama4_open(struct model *m)
{
    static const struct decoder_sizes sizes = {5120, 8192, 48, 40, 8, 128, 202048, 131072, 1e-5};
    static const char *const experts[2] = {"num_local_experts", NULL};
    struct llama4_config own;
    struct decoder_config c = {.moe = {.module = "feed_forward.experts",
                                       .router = "feed_forward.router",
                                       .stored = BIND_EXPERTS_TRANSPOSED,
                                       .n_experts = 16,
                                       .top_k = 1,
                                       .like = {.gate = MOE_SIGMOID, .scale_input = true}},
                               .own = &own};

    bind_text_config(m);
    if (m->bidirectional)
        bind_refuse(m, ERR_UNSUPPORTED,
                    "is_causal is false or null: attention in both directions is not "
                    "supported in this model");
    decoder_read(m, &c, &sizes);
    own.inner_mlp = bind_int(m, "intermediate_size_mlp", 16384, 1, 1 << 22);
    c.qkv_bias = c.out_bias = bind_bool(m, "attention_bias", false);
    own.use_qk_norm = bind_bool(m, "use_qk_norm", true);
    own.tune = bind_bool(m, "attn_temperature_tuning", true);
    own.floor_scale = bind_int(m, "floor_scale", 8192, 1, 1 << 30);
    own.attn_scale = bind_float(m, "attn_scale", 0.1, 0, 1e6);
    read_ropes(m, &own);
    c.experts = read_experts(m);
    bind_moe_sizes(m, &c.moe, experts, "num_experts_per_tok");
    c.moe.inner = m->info.inner;
    c.moe.like.act = c.act;
    bind_rope(m, &(struct bind_rope){.theta = 500000});
    m->info.extra = m->info.hidden;
    if (own.inner_mlp > m->info.inner)
        m->info.inner = own.inner_mlp;
    weights_skip(m->weights, "*vision_model.*");
    weights_skip(m->weights, "*multi_modal_projector.*");
    decoder_open(m, &c, open_layer, layer_forward);
}
