/* gemma4.c - Gemma 4: the text model (Gemma4ForCausalLM), and the text part of the multimodal model
 * (Gemma4ForConditionalGeneration).
 *
 * Attention and MLP have norms before and after them; heads of q, k and v are normed (v without weights);
 * scores are not scaled. Global layers have another head size and number of heads, rotate a part of each
 * head, and may use the keys as values. Local layers see a window. The last layers may use the keys and
 * values of an earlier layer of their type. A model may have an embedding of each token for each layer, and a
 * mixture of experts beside the MLP, whose router has its own norm. Each layer's output is multiplied by a
 * stored number. Reference: transformers, models/gemma4/modeling_gemma4.py.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ckpt/config.h"
#include "ckpt/weights.h"
#include "model/decoder.h"
#include "model/model.h"
#include "ops/batch.h"

enum { GLOBAL, LOCAL }; /* indices of the ropes */

/* The parts of a layer that struct decoder_layer lacks. */
struct gemma4_layer {
    struct op_norm v_norm;
    /* Norms of layers with experts: before router, before experts, after MLP, after experts. */
    struct op_norm route, pre_moe, post_dense, post_moe;
    /* Linears and norm of the per-layer embedding. */
    struct linear input_gate, input_proj;
    struct op_norm post_input;
    const float *scalar;
    /* Index of the layer whose keys and values this layer uses: its own index or an earlier one. */
    size_t store;
};

/* The parts of the model that struct decoder lacks. */
struct gemma4 {
    struct gemma4_layer *layer; /* [L] */
    struct op_embed inputs;     /* per-layer embeddings [vocab, L P] */
    struct linear inputs_proj;
    struct op_norm inputs_norm; /* [P] */
    size_t P;                   /* size of a per-layer embedding; 0: none */
};

/* Adds the embedding e of layer L, gated by the layer's output x: x += norm(proj(act(gate x) * e)). */
static void layer_input(const struct model *m, const struct decoder_layer *w, const struct gemma4_layer *v,
                        size_t l, const struct op_sink *o, struct model_work *s, size_t T, size_t P)
{
    size_t L = m->info.n_layers;
    float *gate = s->extra + T * L * P, *h = gate + T * P;

    o->linear(o, gate, &v->input_gate, s->x, T); /* [T, P] */
    o->glu(o, h, gate, P, s->extra + l * P, L * P, w->mlp.act, P, T);
    o->linear(o, s->r, &v->input_proj, h, T); /* [T, E] */
    o->norm(o, s->r, s->r, NULL, &v->post_input, T);
    o->add(o, s->x, s->r, m->info.hidden, T);
}

/* Computes one decoder layer. x is the complete residual stream; r is added to it within the layer. */
static void layer_forward(const struct model *m, const struct decoder_layer *w, const struct gemma4_layer *v,
                          size_t l, const struct op_sink *o, struct model_work *s, const struct batch *b,
                          size_t P)
{
    size_t T = b->n_tokens, E = m->info.hidden;
    float *routed = s->extra + 2 * T * m->info.n_layers * P; /* [T, E] */

    o->tap(o, l, s->x, NULL, NULL, T);
    o->norm(o, s->h, s->x, NULL, &w->norm_attn, T);
    o->linear(o, s->qkv, &w->qkv, s->h, T); /* [T, (H + 2 K) D], or q alone */
    o->heads(o, s->qkv, &w->attn, T);
    o->rope(o, s->qkv, &w->attn, T);
    o->attn(o, s->a, s->qkv, &w->attn, b, v->store);
    o->linear(o, s->r, &w->out, s->a, T);
    o->norm(o, s->r, s->r, NULL, &w->post_attn, T); /* r = norm(r) */
    o->norm(o, s->h, s->x, s->r, &w->norm_mlp, T);  /* x += r; h = norm(x) */
    o->mlp(o, s->r, &w->mlp, s->h, T);
    if (w->moe) {
        o->norm(o, s->r, s->r, NULL, &v->post_dense, T);
        o->norm(o, s->r2, s->x, NULL, &v->route, T); /* input of the router */
        o->norm(o, s->h, s->x, NULL, &v->pre_moe, T);
        o->moe(o, routed, w->moe, s->h, s->r2, T);
        o->norm(o, routed, routed, NULL, &v->post_moe, T);
        o->add(o, s->r, routed, E, T);
    }
    o->norm(o, s->r, s->r, NULL, &w->post_mlp, T);
    o->add(o, s->x, s->r, E, T);
    if (P)
        layer_input(m, w, v, l, o, s, T, P);
    o->scale(o, s->x, *v->scalar, E, T);
}

/* Computes extra [T, L P] = (norm(proj x) + embedding) / sqrt(2), with a norm over each P. */
static void inputs_forward(const struct model *m, const struct gemma4 *w, const struct op_sink *o,
                           struct model_work *s, const struct batch *b)
{
    size_t T = b->n_tokens, L = m->info.n_layers, n = L * w->P;
    float *proj = s->extra + T * n;

    o->embed(o, s->extra, &w->inputs, b->id, false, T);
    o->linear(o, proj, &w->inputs_proj, s->x, T);
    o->scale(o, proj, (float)(1 / sqrt((double)m->info.hidden)), n, T);
    o->norm(o, proj, proj, NULL, &w->inputs_norm, T * L);
    o->add(o, s->extra, proj, n, T);
    o->scale(o, s->extra, 0.70710678f, n, T);
}

static void forward(const struct model *m, const struct op_sink *o, const struct batch *b,
                    struct model_work *s)
{
    const struct decoder *w = m->impl;
    const struct gemma4 *g = w->more;

    o->begin(o, m->info.rope, m->info.n_ropes, b);
    o->embed(o, s->x, &w->embed, b->id, false, b->n_tokens);
    if (g->P)
        inputs_forward(m, g, o, s, b);
    for (size_t l = 0; l < m->info.n_layers; l++)
        layer_forward(m, &w->layer[l], &g->layer[l], l, o, s, b, g->P);
}

/* Calls decoder_tail() without r, because x is the complete residual stream. */
static void tail(const struct model *m, const struct op_sink *o, const struct batch *b, struct model_work *s)
{
    struct model_work own = *s;

    own.r = NULL;
    decoder_tail(m, o, b, &own);
}

/* ---- config.json ---- */

struct gemma4_config {
    struct gemma4 *g;
    size_t P, inputs_vocab, inner;
    bool k_eq_v, double_wide;
    enum bind_layer_kind *kind; /* [L] */
    size_t *dim, *kv;           /* [L] */
    size_t window;
};

/* Reads layer_types; by default every sixth layer is global. The last layer is always global. */
static void read_kinds(struct model *m, struct gemma4_config *g)
{
    size_t L = m->info.n_layers;

    g->kind = bind_array(m, L, sizeof(*g->kind), "the layers");
    g->dim = bind_array(m, L, sizeof(*g->dim), "the layers");
    g->kv = bind_array(m, L, sizeof(*g->kv), "the layers");
    for (size_t l = 0; l < L && !bind_failed(m); l++)
        g->kind[l] = (l + 1) % 6 ? BIND_SLIDING : BIND_FULL;
    bind_layer_types(m, g->kind, BIND_NONE);
    if (bind_failed(m))
        return;
    g->kind[L - 1] = BIND_FULL;
    for (size_t l = 0; l < L; l++)
        if (g->kind[l] == BIND_CHUNKED)
            bind_refuse(m, ERR_UNSUPPORTED,
                        "layer_types has \"chunked_attention\", which this architecture does not support");
}

/* Returns KEY of layer L from the object EACH, which maps layer numbers to objects, or DEF. transformers pads
 * the layer numbers with zeros to the width of the largest. */
static size_t of_layer(struct model *m, struct config *each, size_t l, const char *key, size_t def,
                       int64_t lo, int64_t hi)
{
    int64_t v = (int64_t)def;
    struct config *own = NULL;
    char number[24];

    for (int width = 1; width <= 6 && each && !own; width++) {
        snprintf(number, sizeof(number), "%0*zu", width, l);
        own = config_sub(each, number);
    }
    if (own && !m->rc)
        m->rc = config_int(own, key, (int64_t)def, lo, hi, &v, m->e);
    return m->rc ? def : (size_t)v;
}

/* Reads size and number of the heads of each layer: from per_layer_config, an object of differences by layer,
 * or from global_head_dim and num_global_key_value_heads. */
static void read_layer_heads(struct model *m, struct gemma4_config *g)
{
    struct model_info *i = &m->info;
    struct config *each = config_sub(m->config, "per_layer_config");
    size_t dim = bind_int(m, "global_head_dim", 512, 2, 512);
    size_t kv = bind_int(m, "num_global_key_value_heads", i->n_kv, 1, 4096);
    size_t most_dim = i->head_dim, most_kv = i->n_kv;

    for (size_t l = 0; l < i->n_layers && !bind_failed(m); l++) {
        bool global = g->kind[l] == BIND_FULL && !each;

        g->dim[l] = of_layer(m, each, l, "head_dim", global ? dim : i->head_dim, 2, 512);
        g->kv[l] = of_layer(m, each, l, "num_key_value_heads", global && g->k_eq_v ? kv : i->n_kv, 1, 4096);
        most_dim = g->dim[l] > most_dim ? g->dim[l] : most_dim;
        most_kv = g->kv[l] > most_kv ? g->kv[l] : most_kv;
    }
    for (size_t l = 0; l < i->n_layers && !bind_failed(m); l++)
        if (i->n_heads % g->kv[l] != 0)
            bind_refuse(m, ERR_INPUT,
                        "layer %zu: %zu attention heads are not divisible by %zu key/value heads", l,
                        i->n_heads, g->kv[l]);
    i->head_dim = most_dim;
    i->n_kv = most_kv;
    i->dim = g->dim;
}

/* Returns the head size that all layers of KIND have; 0: no layer is of this kind. */
static size_t dim_of_kind(struct model *m, const struct gemma4_config *g, enum bind_layer_kind kind)
{
    size_t dim = 0;

    for (size_t l = 0; l < m->info.n_layers && !bind_failed(m); l++) {
        if (g->kind[l] != kind)
            continue;
        if (dim && dim != g->dim[l])
            bind_refuse(m, ERR_UNSUPPORTED,
                        "layers of the same type have head sizes %zu and %zu, expected one head size", dim,
                        g->dim[l]);
        dim = g->dim[l];
    }
    return dim;
}

static void read_ropes(struct model *m, const struct gemma4_config *g)
{
    size_t dim = dim_of_kind(m, g, BIND_FULL), local_dim = dim_of_kind(m, g, BIND_SLIDING);
    struct bind_rope global = {
        .head_dim = dim, .theta = 1000000, .sub = "full_attention", .unscaled = true, .fixed_length = true};
    struct bind_rope local = {.head_dim = local_dim ? local_dim : dim,
                              .theta = 10000,
                              .sub = "sliding_attention",
                              .unscaled = true,
                              .fixed_length = true};
    struct rope_params by_default = {.type = ROPE_PROPORTIONAL,
                                     .dim = dim,
                                     .n_rotated = 2 * (dim / 8),
                                     .theta = 1000000,
                                     .factor = 1,
                                     .attention_factor = -1};

    if (config_has(m->config, "rope_parameters"))
        bind_rope(m, &global);
    else
        bind_rope_of(m, &by_default);
    bind_rope(m, &local);
}

/* Reads the sizes of the mixture of experts, and sets the size of model_work.extra. */
static void read_experts(struct model *m, struct decoder_config *c, const struct gemma4_config *g)
{
    static const char *const keys[2] = {"num_experts", NULL};
    int64_t inner = 0;

    m->info.extra = 2 * m->info.n_layers * g->P;
    if (!bind_bool(m, "enable_moe_block", false)) {
        config_ignore(m->config, "num_experts");
        config_ignore(m->config, "top_k_experts");
        config_ignore(m->config, "moe_intermediate_size");
        return;
    }
    m->info.extra += m->info.hidden;
    if (!config_has(m->config, "num_experts") || !config_has(m->config, "top_k_experts"))
        bind_refuse(m, ERR_INPUT, "enable_moe_block is true, but num_experts or top_k_experts is missing");
    c->moe = (struct bind_moe){.module = "experts",
                               .router = "router.proj",
                               .stored = BIND_EXPERTS_STACKED,
                               .like = {.gate = MOE_SOFTMAX_ALL, .renorm = true, .act = c->act}};
    bind_moe_sizes(m, &c->moe, keys, "top_k_experts");
    if (!bind_failed(m))
        m->rc = config_need_int(m->config, "moe_intermediate_size", 1, 1 << 22, &inner, m->e);
    c->moe.inner = (size_t)inner;
}

static void read_config(struct model *m, struct decoder_config *c, struct gemma4_config *g)
{
    static const struct decoder_sizes sizes = {2304, 9216, 30, 8, 4, 256, 262144, 131072, 1e-6};
    struct model_info *i = &m->info;

    decoder_read(m, c, &sizes);
    g->window = bind_window(m, 512);
    c->qkv_bias = c->out_bias = bind_bool(m, "attention_bias", false);
    g->k_eq_v = bind_bool(m, "attention_k_eq_v", false);
    g->double_wide = bind_bool(m, "use_double_wide_mlp", false);
    i->n_shared = bind_int(m, "num_kv_shared_layers", 0, 0, i->n_layers - 1);
    g->P = bind_int(m, "hidden_size_per_layer_input", 256, 0, 1 << 16);
    g->inputs_vocab = bind_int(m, "vocab_size_per_layer_input", 262144, 1, INT32_MAX);
    i->logit_softcap = (float)bind_float(m, "final_logit_softcapping", 0, 0, 1e6);
    read_kinds(m, g);
    read_layer_heads(m, g);
    read_ropes(m, g);
    read_experts(m, c, g);
    if (g->P && g->inputs_vocab < i->vocab)
        bind_refuse(m, ERR_UNSUPPORTED, "vocab_size_per_layer_input is %zu, expected at least vocab_size",
                    g->inputs_vocab);
    g->inner = i->inner;
    if (g->double_wide && i->n_shared)
        i->inner *= 2;
}

/* Checks use_bidirectional_attention: "vision" affects only images; "all" is not supported. */
static void read_direction(struct model *m)
{
    const char *which;

    if (bind_failed(m) ||
        (m->rc = config_str(m->config, "use_bidirectional_attention", "vision", &which, m->e)) != 0)
        return;
    if (strcmp(which, "vision") != 0)
        bind_refuse(m, ERR_UNSUPPORTED, "use_bidirectional_attention is \"%s\", expected \"vision\"", which);
}

/* ---- layers ---- */

static void open_norm(struct model *m, struct op_norm *w, const char *at, const char *module,
                      const struct decoder_config *c)
{
    bind_norm(m, w, at, module, m->info.hidden, c->eps, 0);
}

static void open_linear(struct model *m, struct linear *w, const char *at, const char *module, size_t n,
                        size_t k)
{
    struct bind_linear d = {.kind = OP_MLP, .part = {{module, n}}, .k = k};

    bind_linear(m, w, at, &d);
}

/* Returns the layer whose keys and values layer L uses: L, or the last storing layer of its type. */
static size_t find_store(struct model *m, const struct gemma4_config *g, size_t l)
{
    size_t first = m->info.n_layers - m->info.n_shared;

    if (l < first)
        return l;
    while (first > 0 && g->kind[first - 1] != g->kind[l])
        first--;
    if (first == 0) {
        bind_refuse(m, ERR_INPUT, "layer %zu shares keys and values, but no layer of its type stores any", l);
        return l;
    }
    if (g->kv[l] != g->kv[first - 1])
        bind_refuse(
            m, ERR_INPUT,
            "layer %zu has %zu key/value heads, but layer %zu, whose keys and values it uses, has %zu", l,
            g->kv[l], first - 1, g->kv[first - 1]);
    return first - 1;
}

static void open_attention(struct model *m, struct decoder_layer *w, struct gemma4_layer *v, const char *at,
                           size_t l, const struct decoder_config *c)
{
    const struct gemma4_config *g = c->own;
    size_t E = m->info.hidden, D = g->dim[l], kv = g->kv[l] * D, q = m->info.n_heads * D;
    const char *own = bind_name(m, "%sself_attn.", at);
    bool shared = v->store != l, global = g->kind[l] == BIND_FULL;
    const unsigned bias = c->qkv_bias ? BIND_BIAS : 0;
    struct bind_linear qkv = {
        .name = "qkv_proj",
        .kind = OP_QKV,
        .part = {{"q_proj", q}, {"k_proj", kv}, {g->k_eq_v && global ? "k_proj" : "v_proj", kv}},
        .k = E,
        .how = bias};
    struct bind_linear out = {.kind = OP_OUT, .part = {{"o_proj", E}}, .k = q, .how = bias};

    if (shared)
        qkv.part[1].module = NULL;
    w->attn = (struct op_attn){.n_heads = m->info.n_heads,
                               .n_kv = g->kv[l],
                               .d = D,
                               .dp = (D + 15) / 16 * 16,
                               .scale = 1,
                               .window = global ? 0 : g->window,
                               .rope = global ? GLOBAL : LOCAL,
                               .q_norm = &w->q_norm,
                               .k_norm = &w->k_norm,
                               .v_norm = &v->v_norm,
                               .shared = shared};
    v->v_norm = (struct op_norm){.n = D, .eps = (float)c->eps};
    open_norm(m, &w->norm_attn, at, "input_layernorm", c);
    bind_norm(m, &w->q_norm, own, "q_norm", D, c->eps, 0);
    if (!shared)
        bind_norm(m, &w->k_norm, own, "k_norm", D, c->eps, 0);
    bind_linear(m, &w->qkv, own, &qkv);
    if (shared && !bind_failed(m)) { /* some checkpoints store unused k and v */
        const char *k = bind_name(m, "%sk_*", own), *v_too = bind_name(m, "%sv_*", own);

        if (k && v_too) {
            weights_skip(m->weights, k);
            weights_skip(m->weights, v_too);
        }
    }
    bind_linear(m, &w->out, own, &out);
}

static void open_experts(struct model *m, struct decoder_layer *w, struct gemma4_layer *v, const char *at,
                         const struct decoder_config *c)
{
    size_t E = m->info.hidden;
    const float *expert_scale;

    v->route = (struct op_norm){
        .w = bind_vector(m, bind_name(m, "%srouter.scale", at), E, (float)(1 / sqrt((double)E)), "vector"),
        .n = E,
        .eps = (float)c->eps};
    open_norm(m, &v->pre_moe, at, "pre_feedforward_layernorm_2", c);
    open_norm(m, &v->post_dense, at, "post_feedforward_layernorm_1", c);
    open_norm(m, &v->post_moe, at, "post_feedforward_layernorm_2", c);
    bind_moe(m, &w->moe, at, &c->moe);
    expert_scale =
        bind_vector(m, bind_name(m, "%srouter.per_expert_scale", at), c->moe.n_experts, 1, "vector");
    if (w->moe)
        w->moe->expert_scale = expert_scale;
}

/* Opens the table, projection and norm of the per-layer embeddings. FIRST_LAYER is the name prefix of the
 * tensors of layer 0. */
static void open_inputs(struct model *m, struct gemma4 *w, const char *first_layer,
                        const struct decoder_config *c)
{
    const struct gemma4_config *g = c->own;
    size_t n = m->info.n_layers * g->P;
    const char *at = bind_name(m, "%.*s", (int)(strlen(first_layer) - strlen("layers.0.")), first_layer);

    bind_embed(m, &w->inputs, at, "embed_tokens_per_layer", g->inputs_vocab, n);
    w->inputs.scale = (float)sqrt((double)g->P);
    open_linear(m, &w->inputs_proj, at, "per_layer_model_projection", n, m->info.hidden);
    bind_norm(m, &w->inputs_norm, at, "per_layer_projection_norm", g->P, c->eps, 0);
}

static void open_layer(struct model *m, struct decoder_layer *w, const char *at, size_t l,
                       const struct decoder_config *c)
{
    const struct gemma4_config *g = c->own;
    struct gemma4_layer *v = &g->g->layer[l];
    size_t E = m->info.hidden, P = g->P;

    if (l == 0 && P)
        open_inputs(m, g->g, at, c);
    v->store = find_store(m, g, l);
    open_attention(m, w, v, at, l, c);
    open_norm(m, &w->post_attn, at, "post_attention_layernorm", c);
    open_norm(m, &w->norm_mlp, at, "pre_feedforward_layernorm", c);
    decoder_open_mlp(m, &w->mlp, at, "mlp", g->inner * (g->double_wide && v->store != l ? 2 : 1), c);
    open_norm(m, &w->post_mlp, at, "post_feedforward_layernorm", c);
    v->scalar = bind_vector(m, bind_name(m, "%slayer_scalar", at), 1, 1, "vector");
    if (c->moe.n_experts)
        open_experts(m, w, v, at, c);
    if (P == 0)
        return;
    open_linear(m, &v->input_gate, at, "per_layer_input_gate", P, E);
    open_linear(m, &v->input_proj, at, "per_layer_projection", E, P);
    open_norm(m, &v->post_input, at, "post_per_layer_input_norm", c);
}

static void gemma4_close(struct model *m)
{
    struct gemma4 *g = ((struct decoder *)m->impl)->more;

    for (size_t l = 0; g && l < m->info.n_layers; l++) {
        struct gemma4_layer *v = &g->layer[l];

        bind_norm_close(&v->pre_moe);
        bind_norm_close(&v->post_dense);
        bind_norm_close(&v->post_moe);
        bind_norm_close(&v->post_input);
        linear_close(&v->input_gate);
        linear_close(&v->input_proj);
    }
    if (g) {
        linear_close(&g->inputs_proj);
        bind_norm_close(&g->inputs_norm);
    }
    decoder_close(m);
}

void gemma4_open(struct model *m)
{
    struct gemma4_config g = {.g = bind_array(m, 1, sizeof(*g.g), "the model")};
    struct decoder_config c = {
        .act_key = "hidden_activation", .act_name = "gelu_pytorch_tanh", .tied = true, .own = &g};
    struct decoder *w;

    bind_text_config(m);
    if (m->bidirectional)
        bind_refuse(m, ERR_UNSUPPORTED,
                    "is_causal is false or null: attention in both directions is not "
                    "supported in this model");
    read_config(m, &c, &g);
    read_direction(m);
    w = decoder_new(m, NULL);
    if (!w)
        return;
    g.g->P = g.P;
    g.g->layer = bind_array(m, m->info.n_layers, sizeof(*g.g->layer), "the model's layers");
    if (!g.g->layer)
        return;
    w->more = g.g;
    m->forward = forward;
    m->tail = tail;
    m->close = gemma4_close;
    weights_skip(m->weights, "*vision_tower.*");
    weights_skip(m->weights, "*audio_tower.*");
    weights_skip(m->weights, "*embed_vision.*");
    weights_skip(m->weights, "*embed_audio.*");
    decoder_open(m, &c, open_layer, NULL);
    decoder_scale_embedding(m);
}
