/* gpt.c - decoders with LayerNorm: GPT-2 (GPT2LMHeadModel), GPT-J (GPTJForCausalLM) and OPT (OPTForCausalLM).
 *
 * GPT-2 and OPT have learned positions; their linears have biases (OPT: optional). GPT-2 stores linears as
 * [in, out] (Conv1D). GPT-J has rope on adjacent pairs, and its attention and MLP read the same normed rows.
 * OPT has norms either before or after attention and MLP; if its embedding is smaller than hidden_size,
 * project_in and project_out convert between the sizes. Tensor names may lack a prefix; causal masks in old
 * checkpoints are skipped. References: transformers, models/{gpt2,gptj,opt}/modeling_*.py.
 */
#include <math.h>

#include "ckpt/config.h"
#include "ckpt/weights.h"
#include "model/decoder.h"
#include "model/model.h"
#include "ops/batch.h"

/* ---- common parts ---- */

/* Sets m->info from S, with hidden / heads as the head size and max_len as a fixed limit. */
static void note_sizes(struct model *m, const char *hidden_key, const struct decoder_sizes *s)
{
    if (s->hidden % s->heads != 0 || s->hidden / s->heads > 512)
        bind_refuse(m, ERR_INPUT, "%s %zu cannot be divided into %zu heads of at most 512 dims", hidden_key,
                    s->hidden, s->heads);
    m->info = (struct model_info){.n_layers = s->layers,
                                  .hidden = s->hidden,
                                  .n_heads = s->heads,
                                  .n_kv = s->heads,
                                  .head_dim = s->hidden / s->heads,
                                  .inner = s->inner,
                                  .vocab = s->vocab,
                                  .max_len = s->max_len,
                                  .fixed_positions = true};
}

/* Reads the config keys that GPT-2 and GPT-J share. */
static void read_sizes(struct model *m, struct decoder_config *c, const struct decoder_sizes *of_class)
{
    struct decoder_sizes s = {.hidden = bind_int(m, "n_embd", of_class->hidden, 1, 1 << 20)};

    s.heads = bind_int(m, "n_head", of_class->heads, 1, 4096);
    s.layers = bind_int(m, "n_layer", of_class->layers, 1, MODEL_MAX_LAYERS);
    s.vocab = bind_int(m, "vocab_size", of_class->vocab, 1, INT32_MAX);
    s.max_len = bind_int(m, "n_positions", of_class->max_len, 1, 1 << 24);
    s.inner = bind_int(m, "n_inner", 4 * s.hidden, 1, 1 << 22);
    c->eps = bind_float(m, "layer_norm_epsilon", 1e-5, 0, 1);
    c->tied = bind_bool(m, "tie_word_embeddings", c->tied);
    c->act = bind_act(m, "activation_function", "gelu_new");
    config_ignore(m->config, "n_ctx"); /* the old name of n_positions */
    note_sizes(m, "n_embd", &s);
}

/* The names of a layer's modules, and the variants of the layer. */
struct gpt_config {
    /* Q NULL: the module QKV holds q, k and v. */
    const char *norm_attn, *qkv, *q, *k, *v;
    /* NORM_MLP NULL: attention and MLP read the same norm. */
    const char *out, *norm_mlp;
    const char *up, *down;
    /* Flags of bind_linear() for the linears of attention and of the MLP. */
    unsigned attn_how, mlp_how;
    /* Norms have no weights and biases. */
    bool plain_norms;
    /* Norms come after attention and MLP, and their output is the new residual stream. */
    bool post_norms;
    /* UNSCALED: scores are not divided by sqrt(head size). BY_LAYER: layer l divides them by l + 1. */
    bool unscaled, by_layer;
    /* The model has rope on adjacent pairs instead of learned positions, and a bias in the head (GPT-J). */
    bool pairs;
};

static void open_norm(struct model *m, struct op_norm *w, const char *at, const char *module,
                      const struct decoder_config *c)
{
    const struct gpt_config *g = c->own;

    if (g->plain_norms)
        *w = (struct op_norm){.n = m->info.hidden, .eps = (float)c->eps, .layer = true};
    else
        bind_norm(m, w, at, module, m->info.hidden, c->eps, BIND_LAYER_NORM | BIND_BIAS);
}

static void open_layer(struct model *m, struct decoder_layer *w, const char *at, size_t l,
                       const struct decoder_config *c)
{
    const struct gpt_config *g = c->own;
    size_t E = m->info.hidden, I = m->info.inner;
    struct bind_linear qkv = {.name = g->qkv,
                              .kind = OP_QKV,
                              .part = {{g->q ? g->q : g->qkv, g->q ? E : 3 * E}, {g->k, E}, {g->v, E}},
                              .k = E,
                              .how = g->attn_how};
    struct bind_linear out = {.kind = OP_OUT, .part = {{g->out, E}}, .k = E, .how = g->attn_how};
    struct bind_linear up = {.kind = OP_MLP, .part = {{g->up, I}}, .k = E, .how = g->mlp_how};
    struct bind_linear down = {.kind = OP_MLP, .part = {{g->down, E}}, .k = I, .how = g->mlp_how};
    double scale = g->unscaled ? 1.0 : 1.0 / sqrt((double)m->info.head_dim);

    w->attn = decoder_attn(m);
    w->attn.rope = g->pairs ? 0 : -1;
    w->attn.pairs = g->pairs ? ROPE_PAIRS_NEXT : ROPE_PAIRS_HALF;
    w->attn.scale = (float)(g->by_layer ? scale / (double)(l + 1) : scale);
    w->mlp = (struct op_mlp){.act = c->act};
    open_norm(m, &w->norm_attn, at, g->norm_attn, c);
    bind_linear(m, &w->qkv, at, &qkv);
    bind_linear(m, &w->out, at, &out);
    if (g->norm_mlp)
        open_norm(m, &w->norm_mlp, at, g->norm_mlp, c);
    bind_linear(m, &w->mlp.up, at, &up);
    bind_linear(m, &w->mlp.down, at, &down);
}

/* Opens GPT-2 and GPT-J: embeddings, layers, final norm and head. */
static void open_gpt(struct model *m, const struct decoder_config *c, decoder_layer_fn *forward)
{
    const char *at = weights_has(m->weights, "wte.weight") ? "" : "transformer.";
    const struct gpt_config *g = c->own;
    struct decoder *w = decoder_new(m, forward);

    if (!w)
        return;
    weights_skip(m->weights, "*.attn.bias");
    weights_skip(m->weights, "*.attn.masked_bias");
    bind_embed(m, &w->embed, at, "wte", m->info.vocab, m->info.hidden);
    if (!g->pairs)
        bind_embed(m, &w->positions, at, "wpe", m->info.max_len, m->info.hidden);
    decoder_open_layers(m, bind_name(m, "%sh.", at), c, open_layer);
    open_norm(m, &w->norm, at, "ln_f", c);
    bind_head(m, &w->head, "lm_head", &w->embed, c->tied, g->pairs ? BIND_BIAS : 0);
}

/* ---- GPT-2 ---- */

void gpt_open_gpt2(struct model *m)
{
    static const struct decoder_sizes sizes = {
        .hidden = 768, .heads = 12, .layers = 12, .vocab = 50257, .max_len = 1024};
    struct gpt_config g = {.norm_attn = "ln_1",
                           .qkv = "attn.c_attn",
                           .out = "attn.c_proj",
                           .norm_mlp = "ln_2",
                           .up = "mlp.c_fc",
                           .down = "mlp.c_proj",
                           .attn_how = BIND_BIAS | BIND_TRANSPOSED,
                           .mlp_how = BIND_BIAS | BIND_TRANSPOSED};
    struct decoder_config c = {.own = &g, .tied = true};

    read_sizes(m, &c, &sizes);
    g.unscaled = !bind_bool(m, "scale_attn_weights", true);
    g.by_layer = bind_bool(m, "scale_attn_by_inverse_layer_idx", false);
    if (m->quantised) /* stored matrices would have to be transposed */
        bind_refuse(m, ERR_UNSUPPORTED, "quantization_config is not supported for model_type gpt2");
    if (bind_bool(m, "add_cross_attention", false))
        bind_refuse(m, ERR_UNSUPPORTED, "add_cross_attention is not supported");
    config_ignore(m->config, "reorder_and_upcast_attn"); /* affects only the precision of fp16 training */
    open_gpt(m, &c, llama_layer);
}

/* ---- GPT-J ---- */

/* Computes a layer of GPT-J, in which attention and MLP read the same normed rows. */
static void gptj_layer(const struct decoder_layer *w, size_t l, const struct op_sink *o, struct model_work *s,
                       const struct batch *b)
{
    const float *last = l ? s->r : NULL;
    size_t T = b->n_tokens, E = w->norm_attn.n;

    o->tap(o, l, s->x, last, NULL, T);
    o->norm(o, s->h, s->x, last, &w->norm_attn, T); /* x += r; h = layernorm(x)             [T, E] */
    o->linear(o, s->qkv, &w->qkv, s->h, T);         /*                                    [T, 3 E] */
    o->rope(o, s->qkv, &w->attn, T);
    o->attn(o, s->a, s->qkv, &w->attn, b, l);
    o->linear(o, s->r, &w->out, s->a, T); /*                                          [T, E] */
    o->mlp(o, s->r2, &w->mlp, s->h, T);   /* the MLP reads the same normed rows as attention */
    o->add(o, s->r, s->r2, E, T);
}

void gpt_open_gptj(struct model *m)
{
    static const struct decoder_sizes sizes = {
        .hidden = 4096, .heads = 16, .layers = 28, .vocab = 50400, .max_len = 2048};
    static const struct gpt_config g = {.norm_attn = "ln_1",
                                        .qkv = "attn.qkv_proj",
                                        .q = "attn.q_proj",
                                        .k = "attn.k_proj",
                                        .v = "attn.v_proj",
                                        .out = "attn.out_proj",
                                        .up = "mlp.fc_in",
                                        .down = "mlp.fc_out",
                                        .mlp_how = BIND_BIAS,
                                        .pairs = true};
    struct decoder_config c = {.own = &g};
    struct rope_params rope = {.type = ROPE_DEFAULT, .theta = 10000, .attention_factor = -1};

    read_sizes(m, &c, &sizes);
    rope.dim =
        bind_int(m, "rotary_dim", config_given(m->config, "rotary_dim") ? m->info.head_dim : 64, 2, 512);
    if (rope.dim % 2 != 0 || rope.dim > m->info.head_dim)
        bind_refuse(m, ERR_INPUT, "rotary_dim is %zu, expected an even number of at most %zu, the head size",
                    rope.dim, m->info.head_dim);
    config_ignore(m->config, "rotary"); /* always true */
    config_ignore(m->config, "scale_attn_weights");
    bind_rope_of(m, &rope);
    open_gpt(m, &c, gptj_layer);
}

/* ---- OPT ---- */

struct opt {
    /* Linears between embedding size and hidden_size. Zeroed: the sizes are equal. */
    struct linear project_in, project_out;
    size_t proj;     /* width of the embedding */
    bool post_norms; /* norms come after attention and MLP */
};

/* Computes a layer with norms after attention and MLP. */
static void opt_post_norm_layer(const struct decoder_layer *w, size_t l, const struct op_sink *o,
                                struct model_work *s, const struct batch *b)
{
    size_t T = b->n_tokens;

    o->tap(o, l, s->x, NULL, NULL, T);
    o->linear(o, s->qkv, &w->qkv, s->x, T);
    o->attn(o, s->a, s->qkv, &w->attn, b, l);
    o->linear(o, s->r, &w->out, s->a, T);
    o->norm(o, s->x, s->x, s->r, &w->norm_attn, T); /* x = layernorm(x + r) */
    o->mlp(o, s->r, &w->mlp, s->x, T);
    o->norm(o, s->x, s->x, s->r, &w->norm_mlp, T);
}

/* Ends a forward pass of OPT, which may lack a final norm and may have project_out. */
static void opt_tail(const struct model *m, const struct op_sink *o, const struct batch *b,
                     struct model_work *s)
{
    const struct decoder *w = m->impl;
    const struct opt *opt = w->more;
    size_t E = m->info.hidden, n = b->n_wanted;
    float *h = w->norm.n ? s->xw : s->hw;

    if (n == 0)
        return;
    o->rows(o, h, s->x, b->wanted, E, n);
    if (!opt->post_norms) {
        o->rows(o, s->rw, s->r, b->wanted, E, n);
        if (w->norm.n)
            o->norm(o, s->hw, h, s->rw, &w->norm, n);
        else
            o->add(o, h, s->rw, E, n);
    }
    o->tap(o, m->info.n_layers, NULL, NULL, s->hw, n);
    if (b->hidden_only)
        return;
    if (opt->project_out.n)
        o->linear(o, s->rw, &opt->project_out, s->hw, n); /* [wanted, proj] */
    if (!m->info.headless)
        o->logits(o, b->logits, &w->head, opt->project_out.n ? s->rw : s->hw, n);
}

static void opt_forward(const struct model *m, const struct op_sink *o, const struct batch *b,
                        struct model_work *s)
{
    const struct decoder *w = m->impl;
    const struct opt *opt = w->more;
    size_t T = b->n_tokens;

    o->begin(o, NULL, 0, b);
    if (opt->project_in.n) {
        o->embed(o, s->r, &w->embed, b->id, false, T); /* [T, proj] */
        o->linear(o, s->x, &opt->project_in, s->r, T);
    } else {
        o->embed(o, s->x, &w->embed, b->id, false, T);
    }
    o->embed(o, s->x, &w->positions, b->pos, true, T);
    for (size_t l = 0; l < m->info.n_layers; l++)
        w->layer_forward(&w->layer[l], l, o, s, b);
}

static void opt_close(struct model *m)
{
    struct opt *opt = ((struct decoder *)m->impl)->more;

    if (opt) {
        linear_close(&opt->project_in);
        linear_close(&opt->project_out);
    }
    decoder_close(m);
}

/* Reads the sizes of OPT. Returns the width of the embedding. */
static size_t read_opt_sizes(struct model *m)
{
    struct decoder_sizes s = {.hidden = bind_int(m, "hidden_size", 768, 1, 1 << 20)};
    size_t proj;

    s.heads = bind_int(m, "num_attention_heads", 12, 1, 4096);
    s.layers = bind_int(m, "num_hidden_layers", 12, 1, MODEL_MAX_LAYERS);
    s.vocab = bind_int(m, "vocab_size", 50272, 1, INT32_MAX);
    s.max_len = bind_int(m, "max_position_embeddings", 2048, 1, 1 << 24);
    s.inner = bind_int(m, "ffn_dim", 3072, 1, 1 << 22);
    proj = bind_int(m, "word_embed_proj_dim", s.hidden, 1, 1 << 20);
    if (proj > s.hidden)
        bind_refuse(m, ERR_UNSUPPORTED, "word_embed_proj_dim %zu is larger than hidden_size %zu", proj,
                    s.hidden);
    note_sizes(m, "hidden_size", &s);
    return proj;
}

/* Opens the embeddings, projections, final norm and head. */
static void open_opt_ends(struct model *m, struct decoder *w, const char *at, const struct decoder_config *c,
                          bool final_norm)
{
    struct opt *opt = w->more;
    size_t E = m->info.hidden, P = opt->proj;
    struct bind_linear in = {.kind = OP_OUT, .part = {{"project_in", E}}, .k = P};
    struct bind_linear out = {.kind = OP_OUT, .part = {{"project_out", P}}, .k = E};

    bind_embed(m, &w->embed, at, "embed_tokens", m->info.vocab, P);
    bind_embed(m, &w->positions, at, "embed_positions", m->info.max_len + 2, E);
    w->positions.offset = 2;
    if (P != E) {
        bind_linear(m, &opt->project_in, at, &in);
        bind_linear(m, &opt->project_out, at, &out);
    }
    if (final_norm)
        open_norm(m, &w->norm, at, "final_layer_norm", c);
    bind_head(m, &w->head, "lm_head", &w->embed, c->tied, 0);
}

static const char *find_opt_prefix(const struct model *m)
{
    if (weights_has(m->weights, "decoder.embed_tokens.weight"))
        return "decoder.";
    return weights_has(m->weights, "embed_tokens.weight") ? "" : "model.decoder.";
}

void gpt_open_opt(struct model *m)
{
    struct gpt_config g = {.norm_attn = "self_attn_layer_norm",
                           .qkv = "self_attn.qkv_proj",
                           .q = "self_attn.q_proj",
                           .k = "self_attn.k_proj",
                           .v = "self_attn.v_proj",
                           .out = "self_attn.out_proj",
                           .norm_mlp = "final_layer_norm",
                           .up = "fc1",
                           .down = "fc2"};
    struct decoder_config c = {.own = &g, .eps = 1e-5};
    size_t proj = read_opt_sizes(m);
    const char *at = find_opt_prefix(m);
    struct decoder *w;
    struct opt *opt;
    bool removed;

    g.post_norms = !bind_bool(m, "do_layer_norm_before", true);
    removed = bind_bool(m, "_remove_final_layer_norm", false);
    g.attn_how = g.mlp_how = bind_bool(m, "enable_bias", true) ? BIND_BIAS : 0;
    g.plain_norms = !bind_bool(m, "layer_norm_elementwise_affine", true);
    c.tied = bind_bool(m, "tie_word_embeddings", true);
    c.act = bind_act(m, "activation_function", "relu");
    w = decoder_new(m, g.post_norms ? opt_post_norm_layer : llama_layer);
    opt = bind_array(m, 1, sizeof(*opt), "the model");
    if (!w || !opt)
        return;
    *opt = (struct opt){.proj = proj, .post_norms = g.post_norms};
    w->more = opt;
    m->forward = opt_forward;
    m->tail = opt_tail;
    m->close = opt_close;
    open_opt_ends(m, w, at, &c, !g.post_norms && !removed);
    decoder_open_layers(m, bind_name(m, "%slayers.", at), &c, open_layer);
}
