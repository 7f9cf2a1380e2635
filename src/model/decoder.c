/* decoder.c - code that decoder models share: forward pass, config keys, layers, opening and closing. */
#include "model/decoder.h"
#include "ckpt/weights.h"
#include "model/model.h"
#include "ops/batch.h"

#include <math.h>

#include "base/mem.h"

/* ---- forward ---- */

static void forward(const struct model *m, const struct op_sink *o, const struct batch *b,
                    struct model_work *s)
{
    const struct decoder *w = m->impl;

    o->begin(o, m->info.rope, m->info.n_ropes, b);
    o->embed(o, s->x, &w->embed, b->id, false, b->n_tokens);
    if (w->positions.table.n_dims)
        o->embed(o, s->x, &w->positions, b->pos, true, b->n_tokens);
    for (size_t l = 0; l < m->info.n_layers; l++)
        w->layer_forward(&w->layer[l], l, o, s, b);
}

void decoder_tail(const struct model *m, const struct op_sink *o, const struct batch *b, struct model_work *s)
{
    const struct decoder *w = m->impl;
    size_t E = m->info.hidden, n = b->n_wanted;

    if (n == 0)
        return;
    o->rows(o, s->xw, s->x, b->wanted, E, n);
    if (s->r)
        o->rows(o, s->rw, s->r, b->wanted, E, n);
    o->norm(o, s->hw, s->xw, s->r ? s->rw : NULL, &w->norm, n); /* x += r; h = norm(x)     [wanted, E] */
    o->tap(o, m->info.n_layers, NULL, NULL, s->hw, n);
    if (m->info.headless || b->hidden_only)
        return;
    o->logits(o, b->logits, &w->head, s->hw, n); /*                                        [wanted, V] */
    if (m->info.logit_softcap > 0)
        o->softcap(o, b->logits, m->info.logit_softcap, m->info.vocab, n);
}

/* ---- config.json ---- */

void decoder_read(struct model *m, struct decoder_config *c, const struct decoder_sizes *of_class)
{
    struct model_info *i = &m->info;

    i->hidden = bind_int(m, "hidden_size", of_class->hidden, 1, 1 << 20);
    i->inner = bind_int(m, "intermediate_size", of_class->inner, 1, 1 << 22);
    i->n_layers = bind_int(m, "num_hidden_layers", of_class->layers, 1, MODEL_MAX_LAYERS);
    i->vocab = bind_int(m, "vocab_size", of_class->vocab, 1, INT32_MAX);
    i->max_len = bind_int(m, "max_position_embeddings", of_class->max_len, 1, 1 << 24);
    c->eps = bind_float(m, "rms_norm_eps", of_class->eps, 0, 1);
    c->tied = bind_bool(m, "tie_word_embeddings", c->tied);
    c->act = bind_act(m, c->act_key ? c->act_key : "hidden_act", c->act_name ? c->act_name : "silu");
    bind_heads(m, of_class->heads, of_class->kv_heads, of_class->head_dim);
}

const size_t *decoder_same_window(struct model *m, size_t rows)
{
    size_t *window = bind_array(m, m->info.n_layers, sizeof(*window), "the windows");

    for (size_t l = 0; l < m->info.n_layers && window; l++)
        window[l] = rows;
    return window;
}

const size_t *decoder_windows(struct model *m, size_t rows, enum bind_layer_kind *kind,
                              enum bind_layer_kind refused)
{
    size_t L = m->info.n_layers, *window = bind_array(m, L, sizeof(*window), "layer_types");

    bind_layer_types(m, kind, refused);
    for (size_t l = 0; l < L && !bind_failed(m); l++)
        window[l] = kind[l] == BIND_SLIDING ? rows : 0;
    return window;
}

const size_t *decoder_qwen_windows(struct model *m)
{
    enum bind_layer_kind *kind = bind_array(m, m->info.n_layers, sizeof(*kind), "layer_types");
    bool use = bind_bool(m, "use_sliding_window", false);
    size_t rows = bind_window(m, 4096), first = bind_int(m, "max_window_layers", 28, 0, 1 << 30);

    for (size_t l = first; l < m->info.n_layers && kind; l++)
        kind[l] = BIND_SLIDING;
    return decoder_windows(m, use ? rows : 0, kind, BIND_NONE);
}

/* Sets info.window and info.chunk. The window of a layer with chunks is the chunk size. */
static void note_windows(struct model *m)
{
    const struct decoder *w = m->impl;
    size_t *window = bind_array(m, m->info.n_layers, sizeof(*window), "the windows");
    bool any = false;

    for (size_t l = 0; l < m->info.n_layers && !bind_failed(m); l++) {
        const struct op_attn *a = &w->layer[l].attn;

        window[l] = a->chunk ? a->chunk : a->window;
        m->info.chunk = a->chunk ? a->chunk : m->info.chunk;
        any |= window[l] != 0;
    }
    m->info.window = any ? window : NULL;
}

/* ---- layers ---- */

struct op_attn decoder_attn(const struct model *m)
{
    size_t D = m->info.head_dim;

    return (struct op_attn){.n_heads = m->info.n_heads,
                            .n_kv = m->info.n_kv,
                            .d = D,
                            .dp = (D + 15) / 16 * 16,
                            .rope = -1,
                            .two_sided = m->bidirectional,
                            .scale = (float)(1.0 / sqrt((double)D))};
}

void decoder_open_attention(struct model *m, struct decoder_layer *w, const char *at, size_t l,
                            const struct decoder_config *c)
{
    size_t E = m->info.hidden, D = m->info.head_dim, q = m->info.n_heads * D, kv = m->info.n_kv * D;
    const char *own = bind_name(m, "%sself_attn.", at);
    const unsigned bias = c->qkv_bias ? BIND_BIAS : 0;
    struct bind_linear qkv = {.name = "qkv_proj",
                              .kind = OP_QKV,
                              .part = {{"q_proj", q}, {"k_proj", kv}, {"v_proj", kv}},
                              .k = E,
                              .how = bias};
    struct bind_linear out = {
        .kind = OP_OUT, .part = {{"o_proj", E}}, .k = q, .how = c->out_bias ? BIND_BIAS : 0};

    if (c->fused)
        qkv = (struct bind_linear){.kind = OP_QKV, .part = {{"qkv_proj", q + 2 * kv}}, .k = E, .how = bias};
    w->attn = decoder_attn(m);
    w->attn.window = c->window ? c->window[l] : 0;
    /* attn.window includes the row itself, the config's window in both directions does not. */
    if (m->bidirectional && w->attn.window)
        w->attn.window++;
    w->attn.rope = c->local_rope && w->attn.window ? 1 : 0;
    w->attn.softcap = (float)c->softcap;
    if (c->scale > 0)
        w->attn.scale = (float)c->scale;
    bind_norm(m, &w->norm_attn, at, "input_layernorm", E, c->eps, c->norm_how);
    if (c->qk_norm) {
        bind_norm(m, &w->q_norm, own, "q_norm", D, c->eps, c->norm_how);
        bind_norm(m, &w->k_norm, own, "k_norm", D, c->eps, c->norm_how);
        w->attn.q_norm = &w->q_norm;
        w->attn.k_norm = &w->k_norm;
    }
    bind_linear(m, &w->qkv, own, &qkv);
    bind_linear(m, &w->out, own, &out);
    if (c->sinks)
        w->attn.sinks = bind_vector(m, bind_name(m, "%ssinks", own), w->attn.n_heads, 1, "sinks");
}

void decoder_open_mlp(struct model *m, struct op_mlp *w, const char *at, const char *module, size_t inner,
                      const struct decoder_config *c)
{
    const char *own = bind_name(m, "%s%s.", at, module);
    const unsigned how = c->mlp_bias ? BIND_BIAS : 0;
    struct bind_linear up = {.name = "gate_up_proj",
                             .kind = OP_MLP,
                             .part = {{"gate_proj", inner}, {"up_proj", inner}},
                             .k = m->info.hidden,
                             .how = how | BIND_PAIRED};
    struct bind_linear down = {
        .kind = OP_MLP, .part = {{"down_proj", m->info.hidden}}, .k = inner, .how = how};

    if (c->fused)
        up = (struct bind_linear){
            .kind = OP_MLP, .part = {{"gate_up_proj", 2 * inner}}, .k = m->info.hidden, .how = up.how};
    w->act = c->act;
    bind_linear(m, &w->up, own, &up);
    bind_linear(m, &w->down, own, &down);
}

void decoder_open_layer(struct model *m, struct decoder_layer *w, const char *at, size_t l,
                        const struct decoder_config *c)
{
    const char *norm = c->post_norms ? "pre_feedforward_layernorm" : "post_attention_layernorm";
    bool experts = c->moe.n_experts && (!c->experts || c->experts[l]);
    size_t E = m->info.hidden;

    decoder_open_attention(m, w, at, l, c);
    if (c->post_norms)
        bind_norm(m, &w->post_attn, at, "post_attention_layernorm", E, c->eps, c->norm_how);
    bind_norm(m, &w->norm_mlp, at, norm, E, c->eps, c->norm_how);
    if (experts)
        bind_moe(m, &w->moe, at, &c->moe);
    else
        decoder_open_mlp(m, &w->mlp, at, "mlp", m->info.inner, c);
    if (c->post_norms)
        bind_norm(m, &w->post_mlp, at, "post_feedforward_layernorm", E, c->eps, c->norm_how);
}

/* ---- the whole model ---- */

static void close_layers(struct decoder_layer *layer, size_t n)
{
    for (size_t l = 0; layer && l < n; l++) {
        bind_norm_close(&layer[l].norm_attn);
        bind_norm_close(&layer[l].norm_mlp);
        bind_norm_close(&layer[l].post_attn);
        bind_norm_close(&layer[l].post_mlp);
        bind_norm_close(&layer[l].q_norm);
        bind_norm_close(&layer[l].k_norm);
        bind_moe_close(layer[l].moe);
        linear_close(&layer[l].qkv);
        linear_close(&layer[l].out);
        linear_close(&layer[l].mlp.up);
        linear_close(&layer[l].mlp.down);
    }
    mem_free(layer);
}

void decoder_close(struct model *m)
{
    struct decoder *w = m->impl;

    bind_norm_close(&w->norm);
    linear_close(&w->head);
    close_layers(w->layer, m->info.n_layers);
    mem_free(w);
    m->impl = NULL;
}

struct decoder *decoder_new(struct model *m, decoder_layer_fn *layer_forward)
{
    struct decoder *w = m->rc ? NULL : mem_zalloc(1, sizeof(*w), MEM_MODEL);

    if (w) {
        w->layer_forward = layer_forward;
        w->layer = mem_zalloc(m->info.n_layers, sizeof(*w->layer), MEM_MODEL);
        m->impl = w;
        m->forward = forward;
        m->tail = decoder_tail;
        m->close = decoder_close;
    }
    if (!m->rc && (!w || !w->layer))
        m->rc = err_nomem(m->e, "the model's layers");
    return m->rc ? NULL : w;
}

void decoder_open_layers(struct model *m, const char *at, const struct decoder_config *c,
                         decoder_open_fn *open_layer)
{
    struct decoder *w = m->impl;

    for (size_t l = 0; l < m->info.n_layers && !bind_failed(m); l++) {
        const char *own = bind_name(m, "%s%zu.", at, l);

        if (own)
            open_layer(m, &w->layer[l], own, l, c);
        bind_loaded(m, l + 1);
    }
    note_windows(m);
}

/* Returns the prefix of the names "embed_tokens" and "layers" in the checkpoint. */
static const char *find_prefix(const struct model *m)
{
    static const char *const tensor[] = {"model.embed_tokens.weight", "embed_tokens.weight",
                                         "language_model.model.embed_tokens.weight",
                                         "model.language_model.embed_tokens.weight"};
    static const char *const before[] = {"model.", "", "language_model.model.", "model.language_model."};

    for (size_t i = 0; i < sizeof(tensor) / sizeof(tensor[0]); i++)
        if (weights_has(m->weights, tensor[i]))
            return before[i];
    return before[0];
}

void decoder_open(struct model *m, const struct decoder_config *c, decoder_open_fn *open_layer,
                  decoder_layer_fn *layer_forward)
{
    const char *at = find_prefix(m);
    bool inside = weights_has(m->weights, "language_model.lm_head.weight");
    const char *head = inside ? "language_model.lm_head" : "lm_head";
    struct decoder *w = m->impl ? m->impl : decoder_new(m, layer_forward);

    if (!w)
        return;
    if (c->tied && !weights_has(m->weights, bind_name(m, "%sembed_tokens.weight", at)) &&
        /* the tied matrix is stored under the head's name */
        weights_has(m->weights, bind_name(m, "%s.weight", head)))
        bind_embed(m, &w->embed, "", head, m->info.vocab, m->info.hidden);
    else
        bind_embed(m, &w->embed, at, "embed_tokens", m->info.vocab, m->info.hidden);
    decoder_open_layers(m, bind_name(m, "%slayers.", at), c, open_layer);
    bind_norm(m, &w->norm, at, "norm", m->info.hidden, c->eps, c->norm_how);
    bind_head(m, &w->head, head, &w->embed, c->tied, 0);
}

void decoder_scale_embedding(struct model *m)
{
    struct decoder *w = m->impl;
    float root = (float)sqrt((double)m->info.hidden);

    if (!bind_failed(m))
        w->embed.scale = m->opt.dtype == DT_BF16 ? dtype_bf16_to_f32(dtype_f32_to_bf16(root)) : root;
}
