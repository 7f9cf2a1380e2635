/* gpt_oss.c - OpenAI's gpt-oss (GptOssForCausalLM).
 *
 * Llama's layer with biases on q, k, v and o, a learned sink a head that takes part in the softmax and gives
 * nothing, a window in every second layer, and a mixture of experts whose gate and up are clamped and whose
 * router, experts and all have biases: softmax over the chosen logits alone. Experts are stored as bf16
 * [experts, in, out] or as MXFP4 with the rows of gate and up interleaved. Reference: transformers,
 * models/gpt_oss/modeling_gpt_oss.py.
 */
#include <string.h>

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
    o->attn(o, s->a, s->qkv, &w->attn, b, l); /* with sinks */
    o->linear(o, s->r, &w->out, s->a, T);
    o->norm(o, s->h, s->x, s->r, &w->norm_mlp, T); /* stays fp32: the router reads it */
    o->moe(o, s->r, w->moe, s->h, NULL, T);
}

struct gpt_oss_config {
    struct decoder_config base; /* first */
    struct block_moe_sizes moe;
    int64_t window;
    double alpha, limit;
    enum block_kind *kind; /* [L] */
};

/* self_attn.sinks: a logit a head. */
static int open_sinks(struct model *m, struct attn *w, struct err *e)
{
    const struct view *v;
    float *sinks = arena_zalloc(&m->arena, w->n_heads, sizeof(*sinks));
    int rc;

    if (!sinks)
        return err_nomem(e, w->name);
    if ((rc = block_tensor(m, block_name(m, "%s.sinks", w->name), w->n_heads, 0, "sinks", &v, e)) != 0)
        return rc;
    w->sinks = sinks;
    if ((rc = block_vector(m, v, sinks, 1, 0, e)) != 0)
        return rc;
    return block_record(m, v, "sinks", NULL, 0, e);
}

static int open_layer(struct model *m, struct block_layer *w, const char *at, size_t l,
                      const struct decoder_config *c, struct err *e)
{
    const struct gpt_oss_config *own = (const void *)c;
    struct block_moe d = {.module = block_name(m, "%s.mlp.experts", at),
                          .router = block_name(m, "%s.mlp.router", at),
                          .stored = BLOCK_EXPERTS_TURNED,
                          .interleaved = true,
                          .bias = true,
                          .n_experts = (size_t)own->moe.n_experts,
                          .top_k = (size_t)own->moe.top_k,
                          .inner = m->info.inner};
    const char *norm = block_name(m, "%s.post_attention_layernorm", at);
    const char *apart = block_name(m, "%s.mlp.experts.0.gate_proj.weight", at);
    int rc;

    if (apart && weights_has(m->weights, apart)) { /* GGUF stacks gate and up apart */
        d.stored = BLOCK_EXPERTS_APART;
        d.gate = "gate_proj";
        d.up = "up_proj";
        d.down = "down_proj";
    }
    if ((rc = decoder_attention(m, w, at, c, e)) != 0 || (rc = open_sinks(m, &w->attn, e)) != 0 ||
        (rc = block_moe_norm(m, &w->norm_mlp, norm, c->eps, e)) != 0 ||
        (rc = block_moe(m, &w->moe, &d, e)) != 0)
        return rc;
    w->attn.window = own->kind[l] == BLOCK_SLIDING ? (size_t)own->window : 0;
    w->moe->gate = MOE_SOFTMAX_CHOSEN;
    w->moe->act = KERN_SILU;
    w->moe->alpha = (float)own->alpha;
    w->moe->limit = (float)own->limit;
    return 0;
}

/* layer_types; without it every layer of even number has the window. */
static int read_layers(struct model *m, struct gpt_oss_config *c, struct err *e)
{
    size_t L = m->info.n_layers;
    bool given;
    int rc;

    c->kind = arena_zalloc(&m->arena, L, sizeof(*c->kind));
    if (!c->kind)
        return err_nomem(e, "layer_types");
    for (size_t l = 0; l < L; l++)
        c->kind[l] = l % 2 ? BLOCK_FULL : BLOCK_SLIDING;
    if ((rc = block_layer_types(m, c->kind, &given, e)) != 0)
        return rc;
    for (size_t l = 0; l < L; l++)
        if (c->kind[l] == BLOCK_CHUNKED)
            return err_set(e, ERR_UNSUPPORTED, "%s: chunked_attention is not known in this model",
                           config_path(m->config));
    return 0;
}

/* The experts may be stored as MXFP4, which their tensors' names say; nothing else may be quantised. */
static int read_quant(struct model *m, struct err *e)
{
    struct config *q = config_sub(m->config, "quantization_config");
    const char *method;
    int rc;

    if (!q)
        return 0;
    if ((rc = config_str(q, "quant_method", "", &method, e)) != 0)
        return rc;
    if (strcmp(method, "mxfp4") != 0)
        return err_set(e, ERR_UNSUPPORTED, "%s: quant_method \"%s\" is not known here, expected mxfp4",
                       config_path(m->config), method);
    config_ignore(q, "modules_to_not_convert");
    config_ignore(q, "dequantize");
    return 0;
}

static int open_rope(struct model *m, struct err *e)
{
    struct rope_params by_default = {.type = ROPE_YARN,
                                     .dim = m->info.head_dim,
                                     .theta = 150000,
                                     .factor = 32,
                                     .original = 4096,
                                     .beta_fast = 32,
                                     .beta_slow = 1,
                                     .attention_factor = -1};
    int rc;

    m->info.n_ropes = 1;
    if (config_has(m->config, "rope_parameters") || config_has(m->config, "rope_scaling"))
        return block_rope(m, &(struct block_rope){.head_dim = m->info.head_dim, .theta = 150000},
                          &m->info.rope[0], e);
    if ((rc = config_float(m->config, "rope_theta", by_default.theta, 1e-3, 1e15, &by_default.theta, e)) != 0)
        return rc;
    return rope_open(&m->info.rope[0], &by_default, e);
}

static int gpt_oss_open(struct model *m, struct err *e)
{
    static const char *const experts[2] = {"num_local_experts", "num_experts"};
    struct gpt_oss_config c = {.base = {.hidden = 2880,
                                        .inner = 2880,
                                        .layers = 36,
                                        .heads = 64,
                                        .kv_heads = 8,
                                        .head_dim = 64,
                                        .vocab = 201088,
                                        .max_len = 131072,
                                        .eps = 1e-5,
                                        .out_wide = true},
                               .moe = {128, 4}};
    int rc;

    if ((rc = decoder_read(m, &c.base, e)) != 0 || (rc = block_window(m, 128, &c.window, e)) != 0 ||
        (rc = block_moe_sizes(m, &c.moe, experts, "num_experts_per_tok", e)) != 0 ||
        (rc = config_float(m->config, "swiglu_alpha", 1.702, 1e-3, 1e3, &c.alpha, e)) != 0 ||
        (rc = config_float(m->config, "swiglu_limit", 7, 1e-3, 1e6, &c.limit, e)) != 0 ||
        (rc = config_bool(m->config, "attention_bias", true, &c.base.qkv_bias, e)) != 0 ||
        (rc = read_layers(m, &c, e)) != 0 || (rc = read_quant(m, e)) != 0 || (rc = open_rope(m, e)) != 0)
        return rc;
    c.base.out_bias = c.base.qkv_bias;
    config_ignore(m->config, "experts_per_token"); /* older names of keys that stand beside them */
    config_ignore(m->config, "initial_context_length");
    return decoder_open(m, &c.base, open_layer, e);
}

const struct model_arch gpt_oss_arch = {.class_name = "GptOssForCausalLM",
                                        .model_type = "gpt_oss",
                                        .open = gpt_oss_open,
                                        .forward = decoder_forward,
                                        .layer = layer_forward,
                                        .close = decoder_close};
