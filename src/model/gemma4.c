/* gemma4.c - Gemma 4: the text model, and the text tower of the multimodal one (Gemma4ForCausalLM,
 * Gemma4ForConditionalGeneration).
 *
 * Norms in front of and behind each block, heads of q, k and v normed (v without weights), scores not scaled.
 * Global layers have heads of their own size and number, turn a part of them, and may use the keys as values;
 * local ones see a window. The last layers may use the keys and values of an earlier layer of their kind.
 * Beside the token's embedding there may be one for each layer, and beside the MLP a mixture of experts with
 * a router of its own. Each layer's output is multiplied by a stored number. Reference: transformers,
 * models/gemma4/modeling_gemma4.py.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "model/block_moe.h"
#include "model/decoder.h"

enum { GLOBAL, LOCAL }; /* ropes */

/* What a layer has beyond struct block_layer. */
struct more_layer {
    struct norm v_norm;
    struct norm route, before_moe, behind_mlp,
        behind_moe;                       /* of layers with experts; route: in front of the router */
    struct linear input_gate, input_proj; /* of the per-layer embedding */
    struct norm behind_input;
    float *scalar;
    size_t store; /* the layer whose keys and values it uses: itself, or an earlier one */
};

struct more {
    struct more_layer *layer; /* [L] */
    struct embed inputs;      /* per-layer embeddings: rows of [L P] */
    struct linear inputs_proj;
    struct norm inputs_norm; /* [P] */
    size_t P;                /* 0: there are none */
};

/* Layer l's share of the per-layer embeddings of all tokens, weighed by what the layer made: x +=
 * norm(proj(act(gate x) * e)). */
static void layer_input(const struct model *m, const struct block_layer *w, const struct more_layer *v,
                        size_t l, const struct sink *o, struct work *s, size_t T, size_t P)
{
    size_t L = m->info.n_layers;
    float *gate = s->extra + T * L * P, *h = gate + T * P;

    o->linear(o, gate, &v->input_gate, s->x, T); /* [T, P] */
    o->glu(o, h, gate, P, s->extra + l * P, L * P, w->mlp.act, P, T);
    o->linear(o, s->r, &v->input_proj, h, T); /* [T, E] */
    o->norm(o, s->r, s->r, NULL, &v->behind_input, T);
    o->add(o, s->x, s->r, m->info.hidden, T);
}

/* One decoder layer; x holds all that came before it. */
static void layer_forward(const struct model *m, const struct block_layer *w, const struct more_layer *v,
                          size_t l, const struct sink *o, struct work *s, const struct batch *b, size_t P)
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
    o->norm(o, s->r, s->r, NULL, &w->after_attn, T); /* r = norm(r) */
    o->norm(o, s->h, s->x, s->r, &w->norm_mlp, T);   /* x += r; h = norm(x) */
    o->mlp(o, s->r, &w->mlp, s->h, T);
    if (w->moe) {
        o->norm(o, s->r, s->r, NULL, &v->behind_mlp, T);
        o->norm(o, s->r2, s->x, NULL, &v->route, T); /* the router's own view of x */
        o->norm(o, s->h, s->x, NULL, &v->before_moe, T);
        o->moe(o, routed, w->moe, s->h, s->r2, T);
        o->norm(o, routed, routed, NULL, &v->behind_moe, T);
        o->add(o, s->r, routed, E, T);
    }
    o->norm(o, s->r, s->r, NULL, &w->after_mlp, T);
    o->add(o, s->x, s->r, E, T);
    if (P)
        layer_input(m, w, v, l, o, s, T, P);
    o->scale(o, s->x, *v->scalar, E, T);
}

/* extra[T, L P] = (norm(proj x) + embedding) / sqrt(2), the norm over each layer's P. */
static void inputs_forward(const struct model *m, const struct more *w, const struct sink *o, struct work *s,
                           const struct batch *b)
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

static void forward(const struct model *m, const struct sink *o, const struct batch *b, struct work *s)
{
    const struct decoder *w = m->impl;
    const struct more *more = w->more;
    struct work tail = *s;

    o->begin(o, m->info.rope, m->info.n_ropes, b);
    o->embed(o, s->x, &w->embed, b->id, false, b->n_tokens);
    if (more->P)
        inputs_forward(m, more, o, s, b);
    for (size_t l = 0; l < m->info.n_layers; l++)
        layer_forward(m, &w->layer[l], &more->layer[l], l, o, s, b, more->P);
    tail.r = NULL; /* x has it all */
    block_tail(m, o, b, &tail, &w->norm, &w->head);
}

/* ---- config.json ---- */

struct gemma4_config {
    struct decoder_config base; /* first */
    struct block_moe_sizes moe;
    struct more *more;
    int64_t expert_inner, P, inputs_vocab, n_shared;
    bool k_eq_v, experts, double_wide;
    enum block_kind *kind; /* [L] */
    size_t *dim, *kv;      /* [L] */
    int64_t window;
};

/* layer_types, or every sixth global; the last always is. */
static int read_kinds(struct model *m, struct gemma4_config *c, struct err *e)
{
    size_t L = m->info.n_layers;
    bool given;
    int rc;

    c->kind = arena_zalloc(&m->arena, L, sizeof(*c->kind));
    c->dim = arena_zalloc(&m->arena, L, sizeof(*c->dim));
    c->kv = arena_zalloc(&m->arena, L, sizeof(*c->kv));
    if (!c->kind || !c->dim || !c->kv)
        return err_nomem(e, "the layers");
    for (size_t l = 0; l < L; l++)
        c->kind[l] = (l + 1) % 6 ? BLOCK_SLIDING : BLOCK_FULL;
    if ((rc = block_layer_types(m, c->kind, &given, e)) != 0)
        return rc;
    c->kind[L - 1] = BLOCK_FULL;
    for (size_t l = 0; l < L; l++)
        if (c->kind[l] == BLOCK_CHUNKED)
            return err_set(e, ERR_UNSUPPORTED, "%s: chunked_attention is not known in this model",
                           config_path(m->config));
    return 0;
}

/* What EACH, an object from layer numbers, says of layer L; NULL: nothing. transformers pads the numbers with
 * zeros to the width of the largest. */
static struct config *config_of_layer(struct config *each, size_t l)
{
    char number[24];
    struct config *own = NULL;

    for (int width = 1; width <= 6 && each && !own; width++) {
        snprintf(number, sizeof(number), "%0*zu", width, l);
        own = config_sub(each, number);
    }
    return own;
}

/* Heads of each layer: global_head_dim and num_global_key_value_heads, or per_layer_config, an object of
 * what differs. */
static int read_layer_heads(struct model *m, struct gemma4_config *c, struct err *e)
{
    struct model_info *i = &m->info;
    struct config *each = config_sub(m->config, "per_layer_config"), *own;
    int64_t dim, kv, kv_given, of_layer;
    int rc;

    if ((rc = config_int(m->config, "global_head_dim", 512, 2, 512, &dim, e)) != 0 ||
        (rc = config_int(m->config, "num_global_key_value_heads", (int64_t)i->n_kv, 1, 4096, &kv_given, e)) !=
            0)
        return rc;
    kv = c->k_eq_v ? kv_given : (int64_t)i->n_kv;
    for (size_t l = 0; l < i->n_layers; l++) {
        bool global = c->kind[l] == BLOCK_FULL && !each;

        c->dim[l] = global ? (size_t)dim : i->head_dim;
        c->kv[l] = global ? (size_t)kv : i->n_kv;
        if (!(own = config_of_layer(each, l)))
            continue;
        if ((rc = config_int(own, "head_dim", (int64_t)c->dim[l], 2, 512, &of_layer, e)) != 0)
            return rc;
        c->dim[l] = (size_t)of_layer;
        if ((rc = config_int(own, "num_key_value_heads", (int64_t)c->kv[l], 1, 4096, &of_layer, e)) != 0)
            return rc;
        c->kv[l] = (size_t)of_layer;
    }
    for (size_t l = 0; l < i->n_layers; l++) {
        if (i->n_heads % c->kv[l] != 0)
            return err_set(e, ERR_INPUT,
                           "%s: layer %zu: %zu attention heads are not divisible by %zu key/value heads",
                           config_path(m->config), l, i->n_heads, c->kv[l]);
        i->head_dim = c->dim[l] > i->head_dim ? c->dim[l] : i->head_dim;
        i->n_kv = c->kv[l] > i->n_kv ? c->kv[l] : i->n_kv;
    }
    i->dim = c->dim;
    return 0;
}

/* The heads' size in layers of KIND, which must be one; 0: there is no such layer. */
static int dim_of_kind(struct model *m, const struct gemma4_config *c, enum block_kind kind, size_t *dim,
                       struct err *e)
{
    *dim = 0;
    for (size_t l = 0; l < m->info.n_layers; l++) {
        if (c->kind[l] != kind)
            continue;
        if (*dim && *dim != c->dim[l])
            return err_set(e, ERR_UNSUPPORTED, "%s: layers of one type have heads of %zu and of %zu dims",
                           config_path(m->config), *dim, c->dim[l]);
        *dim = c->dim[l];
    }
    return 0;
}

static int read_ropes(struct model *m, const struct gemma4_config *c, struct err *e)
{
    struct block_rope global = {
        .theta = 1000000, .sub = "full_attention", .unscaled = true, .fixed_length = true};
    struct block_rope local = {
        .theta = 10000, .sub = "sliding_attention", .unscaled = true, .fixed_length = true};
    struct rope_params by_default = {
        .type = ROPE_PROPORTIONAL, .theta = 1000000, .factor = 1, .attention_factor = -1};
    int rc;

    if ((rc = dim_of_kind(m, c, BLOCK_FULL, &global.head_dim, e)) != 0 ||
        (rc = dim_of_kind(m, c, BLOCK_SLIDING, &local.head_dim, e)) != 0)
        return rc;
    local.head_dim = local.head_dim ? local.head_dim : global.head_dim;
    by_default.dim = global.head_dim;
    by_default.turned = 2 * (global.head_dim / 8);
    rc = config_has(m->config, "rope_parameters") ? block_rope(m, &global, &m->info.rope[GLOBAL], e)
                                                  : rope_open(&m->info.rope[GLOBAL], &by_default, e);
    if (rc)
        return rc;
    m->info.n_ropes = 1;
    if ((rc = block_rope(m, &local, &m->info.rope[LOCAL], e)) == 0)
        m->info.n_ropes = 2;
    return rc;
}

/* The mixture's sizes, and the sizes of what lies in work.extra. */
static int read_experts(struct model *m, struct gemma4_config *c, struct err *e)
{
    static const char *const experts[2] = {"num_experts", NULL};
    int rc;

    if ((rc = config_bool(m->config, "enable_moe_block", false, &c->experts, e)) != 0)
        return rc;
    m->info.extra = 2 * m->info.n_layers * (size_t)c->P;
    if (!c->experts) {
        config_ignore(m->config, "num_experts");
        config_ignore(m->config, "top_k_experts");
        config_ignore(m->config, "moe_intermediate_size");
        return 0;
    }
    m->info.extra += m->info.hidden;
    c->base.out_wide = true;
    if (!config_has(m->config, "num_experts") || !config_has(m->config, "top_k_experts"))
        return err_set(e, ERR_INPUT,
                       "%s: enable_moe_block is true, but num_experts or top_k_experts is missing",
                       config_path(m->config));
    if ((rc = block_moe_sizes(m, &c->moe, experts, "top_k_experts", e)) != 0)
        return rc;
    return config_need_int(m->config, "moe_intermediate_size", 1, 1 << 22, &c->expert_inner, e);
}

/* ---- layers ---- */

/* A norm whose result stays fp32. */
static int open_wide(struct model *m, struct norm *w, const char *name, const struct gemma4_config *c,
                     struct err *e)
{
    int rc = block_norm(m, w, name, m->info.hidden, c->base.eps, false, false, 0, e);

    w->wide = true;
    return rc;
}

static int open_linear(struct model *m, struct linear *w, const char *name, size_t n, size_t k, bool wide,
                       struct err *e)
{
    struct block_linear d = {
        .name = name, .kind = OP_MLP, .part = {{name, n}}, .n_parts = 1, .k = k, .wide = wide};

    return block_linear(m, w, &d, e);
}

/* Layer L's keys and values: its own, or those of the last layer of its kind that has some. */
static int find_store(struct model *m, const struct gemma4_config *c, size_t l, size_t *store, struct err *e)
{
    size_t first = m->info.n_layers - m->info.n_shared;

    *store = l;
    if (l < first)
        return 0;
    while (first > 0 && c->kind[first - 1] != c->kind[l])
        first--;
    if (first == 0)
        return err_set(e, ERR_INPUT,
                       "%s: layer %zu shares keys and values, but no layer of its type stores any",
                       config_path(m->config), l);
    *store = first - 1;
    if (c->kv[l] != c->kv[*store])
        return err_set(e, ERR_INPUT, "%s: layer %zu has %zu key/value heads, layer %zu, whose it shares, %zu",
                       config_path(m->config), l, c->kv[l], *store, c->kv[*store]);
    return 0;
}

static int open_attention(struct model *m, struct block_layer *w, struct more_layer *v, const char *at,
                          size_t l, const struct gemma4_config *c, struct err *e)
{
    size_t E = m->info.hidden, D = c->dim[l], kv = c->kv[l] * D, q = m->info.n_heads * D;
    const char *k_proj = block_name(m, "%s.self_attn.k_proj", at),
               *o_proj = block_name(m, "%s.self_attn.o_proj", at);
    bool shared = v->store != l, global = c->kind[l] == BLOCK_FULL;
    struct block_linear qkv = {
        .name = block_name(m, "%s.self_attn.qkv_proj", at),
        .kind = OP_QKV,
        .part = {{block_name(m, "%s.self_attn.q_proj", at), q}, {k_proj, kv}, {k_proj, kv}},
        .n_parts = shared ? 1 : 3,
        .k = E,
        .bias = c->base.qkv_bias,
        .wide = true};
    struct block_linear out = {.name = o_proj,
                               .kind = OP_OUT,
                               .part = {{o_proj, E}},
                               .n_parts = 1,
                               .k = q,
                               .bias = c->base.qkv_bias,
                               .wide = c->base.out_wide};
    int rc;

    if (!(c->k_eq_v && global))
        qkv.part[2].module = block_name(m, "%s.self_attn.v_proj", at);
    w->attn = (struct attn){.name = block_name(m, "%s.self_attn", at),
                            .n_heads = m->info.n_heads,
                            .n_kv = c->kv[l],
                            .d = D,
                            .dp = (D + 15) / 16 * 16,
                            .scale = 1,
                            .window = global ? 0 : (size_t)c->window,
                            .rope = global ? GLOBAL : LOCAL,
                            .pairs = ROPE_PAIRS_HALF,
                            .q_norm = &w->q_norm,
                            .k_norm = &w->k_norm,
                            .v_norm = &v->v_norm,
                            .wide = c->base.out_wide,
                            .shared = shared};
    v->v_norm =
        (struct norm){.name = block_name(m, "%s.self_attn.v_norm", at), .n = D, .eps = (float)c->base.eps};
    if ((rc = open_wide(m, &w->norm_attn, block_name(m, "%s.input_layernorm", at), c, e)) != 0 ||
        (rc = block_norm(m, &w->q_norm, block_name(m, "%s.self_attn.q_norm", at), D, c->base.eps, false,
                         false, 0, e)) != 0 ||
        (!shared && (rc = block_norm(m, &w->k_norm, block_name(m, "%s.self_attn.k_norm", at), D, c->base.eps,
                                     false, false, 0, e)) != 0) ||
        (rc = block_linear(m, &w->qkv, &qkv, e)) != 0)
        return rc;
    if (shared) { /* stored all the same by some, and used by nobody */
        const char *k = block_name(m, "%s.self_attn.k_*", at), *v_too = block_name(m, "%s.self_attn.v_*", at);

        if (!k || !v_too)
            return err_nomem(e, "a tensor name");
        weights_skip(m->weights, k);
        weights_skip(m->weights, v_too);
    }
    return block_linear(m, &w->out, &out, e);
}

/* A vector of N numbers NAME into the model's arena, each TIMES as large. */
static int open_vector(struct model *m, float **out, const char *name, size_t n, float times, struct err *e)
{
    const struct view *v;
    int rc;

    *out = arena_zalloc(&m->arena, n, sizeof(**out));
    if (!*out)
        return err_nomem(e, "a vector");
    if ((rc = block_tensor(m, name, n, 0, "vector", &v, e)) != 0)
        return rc;
    if ((rc = block_vector(m, v, *out, times, 0, e)) != 0)
        return rc;
    return block_record(m, v, "vector", NULL, 0, e);
}

static int open_experts(struct model *m, struct block_layer *w, struct more_layer *v, const char *at,
                        const struct gemma4_config *c, struct err *e)
{
    size_t E = m->info.hidden;
    struct block_moe d = {.module = block_name(m, "%s.experts", at),
                          .router = block_name(m, "%s.router.proj", at),
                          .stored = BLOCK_EXPERTS_STACKED,
                          .n_experts = (size_t)c->moe.n_experts,
                          .top_k = (size_t)c->moe.top_k,
                          .inner = (size_t)c->expert_inner};
    float *scale, *expert_scale;
    int rc;

    if ((rc = open_vector(m, &scale, block_name(m, "%s.router.scale", at), E, (float)(1 / sqrt((double)E)),
                          e)) != 0 ||
        (rc = open_wide(m, &v->before_moe, block_name(m, "%s.pre_feedforward_layernorm_2", at), c, e)) != 0 ||
        (rc = open_wide(m, &v->behind_mlp, block_name(m, "%s.post_feedforward_layernorm_1", at), c, e)) !=
            0 ||
        (rc = open_wide(m, &v->behind_moe, block_name(m, "%s.post_feedforward_layernorm_2", at), c, e)) !=
            0 ||
        (rc = block_moe(m, &w->moe, &d, e)) != 0 ||
        (rc = open_vector(m, &expert_scale, block_name(m, "%s.router.per_expert_scale", at), d.n_experts, 1,
                          e)) != 0)
        return rc;
    v->route = (struct norm){.name = block_name(m, "%s.router.norm", at),
                             .w = scale,
                             .n = E,
                             .eps = (float)c->base.eps,
                             .wide = true};
    w->moe->expert_scale = expert_scale;
    w->moe->gate = MOE_SOFTMAX_ALL;
    w->moe->renorm = true;
    w->moe->act = c->base.act;
    return 0;
}

/* What the model has once: in front of its first layer. */
static int open_inputs(struct model *m, struct more *w, const char *first_layer,
                       const struct gemma4_config *c, struct err *e)
{
    int before = (int)(strlen(first_layer) - strlen("layers.0"));
    size_t P = (size_t)c->P, n = m->info.n_layers * P;
    int rc;

    if ((rc = block_embed(m, &w->inputs, block_name(m, "%.*sembed_tokens_per_layer", before, first_layer),
                          (size_t)c->inputs_vocab, n, e)) != 0 ||
        (rc = open_linear(m, &w->inputs_proj,
                          block_name(m, "%.*sper_layer_model_projection", before, first_layer), n,
                          m->info.hidden, true, e)) != 0)
        return rc;
    w->inputs.scale = (float)sqrt((double)P);
    rc = block_norm(m, &w->inputs_norm, block_name(m, "%.*sper_layer_projection_norm", before, first_layer),
                    P, c->base.eps, false, false, 0, e);
    w->inputs_norm.wide = true;
    return rc;
}

static int open_layer(struct model *m, struct block_layer *w, const char *at, size_t l,
                      const struct decoder_config *base, struct err *e)
{
    const struct gemma4_config *c = (const void *)base;
    struct more_layer *v = &c->more->layer[l];
    size_t E = m->info.hidden, P = (size_t)c->P;
    int rc;

    ((struct decoder *)m->impl)->more = c->more; /* from here on gemma4_close() sees it */
    if (l == 0 && P && (rc = open_inputs(m, c->more, at, c, e)) != 0)
        return rc;
    if ((rc = find_store(m, c, l, &v->store, e)) != 0 || (rc = open_attention(m, w, v, at, l, c, e)) != 0 ||
        (rc = open_wide(m, &w->after_attn, block_name(m, "%s.post_attention_layernorm", at), c, e)) != 0 ||
        (rc = decoder_mlp(m, w, at, "pre_feedforward_layernorm",
                          (size_t)base->inner * (c->double_wide && v->store != l ? 2 : 1), base, e)) != 0 ||
        (rc = open_wide(m, &w->after_mlp, block_name(m, "%s.post_feedforward_layernorm", at), c, e)) != 0 ||
        (rc = open_vector(m, &v->scalar, block_name(m, "%s.layer_scalar", at), 1, 1, e)) != 0)
        return rc;
    if (c->experts && (rc = open_experts(m, w, v, at, c, e)) != 0)
        return rc;
    if (P == 0)
        return 0;
    if ((rc = open_linear(m, &v->input_gate, block_name(m, "%s.per_layer_input_gate", at), P, E, true, e)) !=
            0 ||
        (rc = open_linear(m, &v->input_proj, block_name(m, "%s.per_layer_projection", at), E, P, false, e)) !=
            0)
        return rc;
    return open_wide(m, &v->behind_input, block_name(m, "%s.post_per_layer_input_norm", at), c, e);
}

static void gemma4_close(struct model *m)
{
    struct decoder *w = m->impl;
    struct more *more = w->more;

    for (size_t l = 0; more && l < m->info.n_layers; l++) {
        struct more_layer *v = &more->layer[l];

        block_norm_close(&v->before_moe);
        block_norm_close(&v->behind_mlp);
        block_norm_close(&v->behind_moe);
        block_norm_close(&v->behind_input);
        linear_close(&v->input_gate);
        linear_close(&v->input_proj);
    }
    if (more) {
        linear_close(&more->inputs_proj);
        block_norm_close(&more->inputs_norm);
    }
    decoder_close(m);
}

static int read_config(struct model *m, struct gemma4_config *c, struct err *e)
{
    double cap;
    int rc;

    if ((rc = decoder_read(m, &c->base, e)) != 0 || (rc = block_window(m, 512, &c->window, e)) != 0 ||
        (rc = config_bool(m->config, "attention_bias", false, &c->base.qkv_bias, e)) != 0 ||
        (rc = config_bool(m->config, "attention_k_eq_v", false, &c->k_eq_v, e)) != 0 ||
        (rc = config_bool(m->config, "use_double_wide_mlp", false, &c->double_wide, e)) != 0 ||
        (rc = config_int(m->config, "num_kv_shared_layers", 0, 0, c->base.layers - 1, &c->n_shared, e)) !=
            0 ||
        (rc = config_int(m->config, "hidden_size_per_layer_input", 256, 0, 1 << 16, &c->P, e)) != 0 ||
        (rc = config_int(m->config, "vocab_size_per_layer_input", 262144, 1, INT32_MAX, &c->inputs_vocab,
                         e)) != 0 ||
        (rc = config_float(m->config, "final_logit_softcapping", 0, 0, 1e6, &cap, e)) != 0 ||
        (rc = read_kinds(m, c, e)) != 0 || (rc = read_layer_heads(m, c, e)) != 0 ||
        (rc = read_ropes(m, c, e)) != 0 || (rc = read_experts(m, c, e)) != 0)
        return rc;
    m->info.logit_softcap = (float)cap;
    m->info.n_shared = (size_t)c->n_shared;
    if (c->double_wide && c->n_shared)
        m->info.inner *= 2;
    if (c->P && (size_t)c->inputs_vocab < m->info.vocab)
        return err_set(e, ERR_UNSUPPORTED,
                       "%s: vocab_size_per_layer_input %lld is smaller than the vocabulary",
                       config_path(m->config), (long long)c->inputs_vocab);
    return 0;
}

/* Attention to later tokens is for images alone ("vision"), which do not come here; "all" is another
 * model. */
static int read_direction(struct model *m, struct err *e)
{
    const char *which;
    int rc = config_str(m->config, "use_bidirectional_attention", "vision", &which, e);

    if (rc == 0 && strcmp(which, "vision") != 0)
        return err_set(e, ERR_UNSUPPORTED, "%s: use_bidirectional_attention \"%s\" cannot be computed",
                       config_path(m->config), which);
    return rc;
}

static int gemma4_open(struct model *m, struct err *e)
{
    struct gemma4_config c = {.base = {.hidden = 2304,
                                       .inner = 9216,
                                       .layers = 30,
                                       .heads = 8,
                                       .kv_heads = 4,
                                       .head_dim = 256,
                                       .vocab = 262144,
                                       .max_len = 131072,
                                       .eps = 1e-6,
                                       .act_key = "hidden_activation",
                                       .act_name = "gelu_pytorch_tanh",
                                       .tied = true},
                              .more = arena_zalloc(&m->arena, 1, sizeof(*c.more))};
    int rc;

    if (!c.more)
        return err_nomem(e, "the model");
    block_text_config(m);
    if ((rc = read_config(m, &c, e)) != 0 || (rc = read_direction(m, e)) != 0)
        return rc;
    c.more->P = (size_t)c.P;
    c.more->layer = arena_zalloc(&m->arena, m->info.n_layers, sizeof(*c.more->layer));
    if (!c.more->layer)
        return err_nomem(e, "the model's layers");
    weights_skip(m->weights, "*vision_tower.*");
    weights_skip(m->weights, "*audio_tower.*");
    weights_skip(m->weights, "*embed_vision.*");
    weights_skip(m->weights, "*embed_audio.*");
    if ((rc = decoder_open(m, &c.base, open_layer, e)) == 0)
        decoder_scale_embedding(m);
    return rc;
}

const struct model_arch gemma4_arch = {.class_name = "Gemma4ForCausalLM",
                                       .model_type = "gemma4_text",
                                       .open = gemma4_open,
                                       .forward = forward,
                                       .close = gemma4_close};

const struct model_arch gemma4_mm_arch = {.class_name = "Gemma4ForConditionalGeneration",
                                          .model_type = "gemma4",
                                          .open = gemma4_open,
                                          .forward = forward,
                                          .close = gemma4_close};
