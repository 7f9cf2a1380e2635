/* opt.c - OPT (OPTForCausalLM).
 *
 * Learned positions that begin at row 2 of their table, LayerNorm in front of each block or behind it, ReLU,
 * biases everywhere or nowhere; where embeddings are smaller than the model, project_in and project_out stand
 * between. Names come with "model.decoder.", "decoder." or nothing in front. Reference: transformers,
 * models/opt/modeling_opt.py.
 */
#include <math.h>

#include "base/mem.h"
#include "model/block.h"

struct opt {
    struct embed tokens, positions;
    struct linear project_in, project_out; /* zeroed: there are none */
    struct norm norm;                      /* n 0: there is none */
    struct linear head;
    struct block_layer *layer; /* [L] */
    size_t proj;               /* width of the embedding */
    bool before;               /* norms in front of the blocks, not behind */
};

static void layer_before(const struct block_layer *w, size_t l, const struct sink *o, struct work *s,
                         const struct batch *b)
{
    size_t T = b->n_tokens;

    o->tap(o, l, s->x, l ? s->r : NULL, NULL, T);
    o->norm(o, s->h, s->x, l ? s->r : NULL, &w->norm_attn, T); /* x += r; h = layernorm(x)  [T, E] */
    o->linear(o, s->qkv, &w->qkv, s->h, T);                    /*                         [T, 3 E] */
    o->attn(o, s->a, s->qkv, &w->attn, b, l);
    o->linear(o, s->r, &w->out, s->a, T);
    o->norm(o, s->h, s->x, s->r, &w->norm_mlp, T);
    o->mlp(o, s->r, &w->mlp, s->h, T); /* down(relu(up)) */
}

static void layer_behind(const struct block_layer *w, size_t l, const struct sink *o, struct work *s,
                         const struct batch *b)
{
    size_t T = b->n_tokens;

    o->tap(o, l, s->x, NULL, NULL, T);
    o->linear(o, s->qkv, &w->qkv, s->x, T);
    o->attn(o, s->a, s->qkv, &w->attn, b, l);
    o->linear(o, s->r, &w->out, s->a, T);
    o->norm(o, s->x, s->x, s->r, &w->norm_attn, T); /* x = layernorm(x + r) */
    o->round(o, s->h, s->x, w->norm_attn.n, T);
    o->mlp(o, s->r, &w->mlp, s->h, T);
    o->norm(o, s->x, s->x, s->r, &w->norm_mlp, T);
}

/* The end without a final norm, or with project_out. */
static void tail(const struct model *m, const struct sink *o, const struct batch *b, struct work *s)
{
    const struct opt *w = m->impl;
    size_t E = m->info.hidden, n = b->n_wanted;

    if (n == 0)
        return;
    o->rows(o, s->xw, s->x, b->wanted, E, n);
    if (w->before) {
        o->rows(o, s->rw, s->r, b->wanted, E, n);
        if (w->norm.n)
            o->norm(o, s->hw, s->xw, s->rw, &w->norm, n);
        else
            o->add(o, s->xw, s->rw, E, n);
    }
    if (!w->norm.n)
        o->round(o, s->hw, s->xw, E, n);
    o->tap(o, m->info.n_layers, NULL, NULL, s->hw, n);
    if (w->project_out.n) {
        o->linear(o, s->rw, &w->project_out, s->hw, n); /* [wanted, proj] */
        o->round(o, s->hw, s->rw, w->proj, n);
    }
    o->logits(o, b->logits, &w->head, s->hw, n);
}

static void forward(const struct model *m, const struct sink *o, const struct batch *b, struct work *s)
{
    const struct opt *w = m->impl;
    size_t T = b->n_tokens;

    o->begin(o, NULL, 0, b);
    if (w->project_in.n) {
        o->embed(o, s->r, &w->tokens, b->id, false, T); /* [T, proj] */
        o->round(o, s->h, s->r, w->proj, T);
        o->linear(o, s->x, &w->project_in, s->h, T);
    } else {
        o->embed(o, s->x, &w->tokens, b->id, false, T);
    }
    o->embed(o, s->x, &w->positions, b->pos, true, T);
    for (size_t l = 0; l < m->info.n_layers; l++)
        (w->before ? layer_before : layer_behind)(&w->layer[l], l, o, s, b);
    tail(m, o, b, s);
}

struct opt_config {
    bool bias, affine, tied, final_norm;
    enum kern_act act;
};

static int read_sizes(struct model *m, struct opt *w, struct err *e)
{
    struct model_info *i = &m->info;
    int64_t hidden, heads, layers, vocab, len, inner, proj;
    int rc;

    if ((rc = config_int(m->config, "hidden_size", 768, 1, 1 << 20, &hidden, e)) != 0 ||
        (rc = config_int(m->config, "num_attention_heads", 12, 1, 4096, &heads, e)) != 0 ||
        (rc = config_int(m->config, "num_hidden_layers", 12, 1, MODEL_MAX_LAYERS, &layers, e)) != 0 ||
        (rc = config_int(m->config, "vocab_size", 50272, 1, INT32_MAX, &vocab, e)) != 0 ||
        (rc = config_int(m->config, "max_position_embeddings", 2048, 1, 1 << 24, &len, e)) != 0 ||
        (rc = config_int(m->config, "ffn_dim", 3072, 1, 1 << 22, &inner, e)) != 0 ||
        (rc = config_int(m->config, "word_embed_proj_dim", hidden, 1, 1 << 20, &proj, e)) != 0)
        return rc;
    if (proj > hidden)
        return err_set(e, ERR_UNSUPPORTED, "%s: word_embed_proj_dim %lld is larger than hidden_size %lld",
                       config_path(m->config), (long long)proj, (long long)hidden);
    if (hidden % heads != 0 || hidden / heads > 512)
        return err_set(e, ERR_INPUT, "%s: hidden_size %lld does not give %lld heads of at most 512 dims",
                       config_path(m->config), (long long)hidden, (long long)heads);
    w->proj = (size_t)proj;
    *i = (struct model_info){.n_layers = (size_t)layers,
                             .hidden = (size_t)hidden,
                             .n_heads = (size_t)heads,
                             .n_kv = (size_t)heads,
                             .head_dim = (size_t)(hidden / heads),
                             .inner = (size_t)inner,
                             .vocab = (size_t)vocab,
                             .max_len = (size_t)len,
                             .fixed_positions = true};
    return 0;
}

static int read_config(struct model *m, struct opt *w, struct opt_config *c, struct err *e)
{
    bool removed;
    int rc;

    if ((rc = read_sizes(m, w, e)) != 0 ||
        (rc = config_bool(m->config, "do_layer_norm_before", true, &w->before, e)) != 0 ||
        (rc = config_bool(m->config, "_remove_final_layer_norm", false, &removed, e)) != 0 ||
        (rc = config_bool(m->config, "enable_bias", true, &c->bias, e)) != 0 ||
        (rc = config_bool(m->config, "layer_norm_elementwise_affine", true, &c->affine, e)) != 0 ||
        (rc = config_bool(m->config, "tie_word_embeddings", true, &c->tied, e)) != 0)
        return rc;
    c->final_norm = w->before && !removed;
    return block_act(m, "activation_function", "relu", &c->act, e);
}

/* LayerNorm, or one without weight where the config says so. */
static int open_norm(struct model *m, struct norm *w, const char *name, const struct opt_config *c,
                     struct err *e)
{
    if (!name)
        return err_nomem(e, "a tensor name");
    *w = (struct norm){.name = name, .n = m->info.hidden, .eps = 1e-5f, .layer = true};
    return c->affine ? block_norm(m, w, name, m->info.hidden, 1e-5, true, true, 0, e) : 0;
}

static int open_layer(struct model *m, struct block_layer *w, const char *prefix, size_t l,
                      const struct opt_config *c, bool before, struct err *e)
{
    const struct model_info *i = &m->info;
    const char *at = block_name(m, "%slayers.%zu", prefix, l);
    size_t E = i->hidden;
    int rc;

    if (!at)
        return err_nomem(e, "a tensor name");
    const char *out_proj = block_name(m, "%s.self_attn.out_proj", at), *fc1 = block_name(m, "%s.fc1", at),
               *fc2 = block_name(m, "%s.fc2", at);
    struct block_linear qkv = {.name = block_name(m, "%s.self_attn.qkv_proj", at),
                               .kind = OP_QKV,
                               .part = {{block_name(m, "%s.self_attn.q_proj", at), E},
                                        {block_name(m, "%s.self_attn.k_proj", at), E},
                                        {block_name(m, "%s.self_attn.v_proj", at), E}},
                               .n_parts = 3,
                               .k = E,
                               .bias = c->bias,
                               .wide = true};
    struct block_linear out = {
        .name = out_proj, .kind = OP_OUT, .part = {{out_proj, E}}, .n_parts = 1, .k = E, .bias = c->bias};
    struct block_linear up = {
        .name = fc1, .kind = OP_MLP, .part = {{fc1, i->inner}}, .n_parts = 1, .k = E, .bias = c->bias};
    struct block_linear down = {
        .name = fc2, .kind = OP_MLP, .part = {{fc2, E}}, .n_parts = 1, .k = i->inner, .bias = c->bias};

    w->attn = (struct attn){.name = block_name(m, "%s.self_attn", at),
                            .n_heads = i->n_heads,
                            .n_kv = i->n_kv,
                            .d = i->head_dim,
                            .dp = (i->head_dim + 15) / 16 * 16,
                            .rope = -1,
                            .scale = (float)(1.0 / sqrt((double)i->head_dim))};
    w->mlp = (struct mlp){.name = at, .inner = i->inner, .act = c->act};
    if ((rc = open_norm(m, &w->norm_attn, block_name(m, "%s.self_attn_layer_norm", at), c, e)) != 0 ||
        (rc = block_linear(m, &w->qkv, &qkv, e)) != 0 || (rc = block_linear(m, &w->out, &out, e)) != 0 ||
        (rc = open_norm(m, &w->norm_mlp, block_name(m, "%s.final_layer_norm", at), c, e)) != 0 ||
        (rc = block_linear(m, &w->mlp.up, &up, e)) != 0)
        return rc;
    w->norm_attn.wide = true; /* behind: it goes to the residual stream */
    w->norm_mlp.wide = !before;
    return block_linear(m, &w->mlp.down, &down, e);
}

static void opt_close(struct model *m)
{
    struct opt *w = m->impl;

    block_norm_close(&w->norm);
    linear_close(&w->head);
    linear_close(&w->project_in);
    linear_close(&w->project_out);
    block_layers_close(w->layer, m->info.n_layers);
    mem_free(w);
    m->impl = NULL;
}

/* Everything but the layers. */
static int open_ends(struct model *m, struct opt *w, const char *prefix, const struct opt_config *c,
                     struct err *e)
{
    const struct model_info *i = &m->info;
    const char *in = block_name(m, "%sproject_in", prefix), *out = block_name(m, "%sproject_out", prefix);
    struct block_linear project_in = {
        .name = in, .kind = OP_OUT, .part = {{in, i->hidden}}, .n_parts = 1, .k = w->proj};
    struct block_linear project_out = {
        .name = out, .kind = OP_OUT, .part = {{out, w->proj}}, .n_parts = 1, .k = i->hidden};
    int rc;

    if ((rc = block_embed(m, &w->tokens, block_name(m, "%sembed_tokens", prefix), i->vocab, w->proj, e)) !=
            0 ||
        (rc = block_embed(m, &w->positions, block_name(m, "%sembed_positions", prefix), i->max_len + 2,
                          i->hidden, e)) != 0)
        return rc;
    w->positions.offset = 2;
    if (w->proj != i->hidden && ((rc = block_linear(m, &w->project_in, &project_in, e)) != 0 ||
                                 (rc = block_linear(m, &w->project_out, &project_out, e)) != 0))
        return rc;
    if (c->final_norm &&
        (rc = open_norm(m, &w->norm, block_name(m, "%sfinal_layer_norm", prefix), c, e)) != 0)
        return rc;
    return block_head(m, &w->head, "lm_head", &w->tokens, c->tied, false, e);
}

static const char *find_prefix(const struct model *m)
{
    if (weights_has(m->weights, "decoder.embed_tokens.weight"))
        return "decoder.";
    return weights_has(m->weights, "embed_tokens.weight") ? "" : "model.decoder.";
}

static int opt_open(struct model *m, struct err *e)
{
    const char *prefix = find_prefix(m);
    struct opt *w = m->impl = mem_zalloc(1, sizeof(*w), MEM_MODEL);
    struct opt_config c;
    int rc;

    if (!w)
        return err_nomem(e, "the model");
    if ((rc = read_config(m, w, &c, e)) != 0 || (rc = open_ends(m, w, prefix, &c, e)) != 0)
        return rc;
    w->layer = mem_zalloc(m->info.n_layers, sizeof(*w->layer), MEM_MODEL);
    if (!w->layer)
        return err_nomem(e, "the model's layers");
    for (size_t l = 0; l < m->info.n_layers; l++) {
        if ((rc = open_layer(m, &w->layer[l], prefix, l, &c, w->before, e)) != 0 ||
            (rc = block_loaded(m, l + 1, e)) != 0)
            return rc;
    }
    return 0;
}

const struct model_arch opt_arch = {.class_name = "OPTForCausalLM",
                                    .model_type = "opt",
                                    .open = opt_open,
                                    .forward = forward,
                                    .close = opt_close};
