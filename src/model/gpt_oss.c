/* gpt_oss.c - OpenAI's gpt-oss (GptOssForCausalLM).
 *
 * The model uses Llama's layer with biases on q, k, v and o. Each head has a learned sink logit, which takes
 * part in the softmax but has no value row. Every second layer has a window. The mixture of experts clamps
 * gate and up, has biases in router and experts, and takes the softmax over the chosen logits only. Experts
 * are stored as bf16 [experts, in, out] or as MXFP4, with the rows of gate and up interleaved. Reference:
 * transformers, models/gpt_oss/modeling_gpt_oss.py.
 */
#include <string.h>

#include "ckpt/config.h"
#include "ckpt/weights.h"
#include "model/decoder.h"
#include "model/model.h"

/* Opens a layer. Its experts may be stored apart, as in GGUF files. */
static void open_layer(struct model *m, struct decoder_layer *w, const char *at, size_t l,
                       const struct decoder_config *c)
{
    const char *apart = bind_name(m, "%smlp.experts.0.gate_proj.weight", at);
    struct decoder_config own = *c;

    if (apart && weights_has(m->weights, apart))
        own.moe.stored = BIND_EXPERTS_APART;
    decoder_open_layer(m, w, at, l, &own);
}

/* Reads layer_types; by default every layer with an even index has the window. */
static const size_t *read_windows(struct model *m)
{
    size_t L = m->info.n_layers, rows = bind_window(m, 128);
    enum bind_layer_kind *kind = bind_array(m, L, sizeof(*kind), "layer_types");

    for (size_t l = 0; l < L && kind; l++)
        kind[l] = l % 2 ? BIND_FULL : BIND_SLIDING;
    return decoder_windows(m, rows, kind, BIND_CHUNKED);
}

/* Checks that quantization_config is MXFP4 or missing. Tensor names show which experts are MXFP4. */
static void read_quant(struct model *m)
{
    struct config *q = config_sub(m->config, "quantization_config");
    const char *method;

    if (!q || m->rc || (m->rc = config_str(q, "quant_method", "", &method, m->e)) != 0)
        return;
    if (strcmp(method, "mxfp4") != 0)
        bind_refuse(m, ERR_UNSUPPORTED, "quant_method is \"%s\", expected mxfp4", method);
    config_ignore(q, "modules_to_not_convert");
    config_ignore(q, "dequantize");
}

static void open_rope(struct model *m)
{
    struct rope_params by_default = {.type = ROPE_YARN,
                                     .dim = m->info.head_dim,
                                     .factor = 32,
                                     .original = 4096,
                                     .beta_fast = 32,
                                     .beta_slow = 1,
                                     .attention_factor = -1};

    if (config_has(m->config, "rope_parameters") || config_has(m->config, "rope_scaling")) {
        bind_rope(m, &(struct bind_rope){.theta = 150000});
        return;
    }
    by_default.theta = bind_float(m, "rope_theta", 150000, 1e-3, 1e15);
    bind_rope_of(m, &by_default);
}

void gpt_oss_open(struct model *m)
{
    static const struct decoder_sizes sizes = {2880, 2880, 36, 64, 8, 64, 201088, 131072, 1e-5};
    static const char *const experts[2] = {"num_local_experts", "num_experts"};
    struct decoder_config c = {.sinks = true,
                               .moe = {.module = "mlp.experts",
                                       .router = "mlp.router",
                                       .stored = BIND_EXPERTS_TRANSPOSED,
                                       .gate = "gate_proj",
                                       .up = "up_proj",
                                       .down = "down_proj",
                                       .interleaved = true,
                                       .bias = true,
                                       .n_experts = 128,
                                       .top_k = 4,
                                       .like = {.gate = MOE_SOFTMAX_CHOSEN, .act = KERN_SILU}}};

    decoder_read(m, &c, &sizes);
    c.window = read_windows(m);
    bind_moe_sizes(m, &c.moe, experts, "num_experts_per_tok");
    c.moe.inner = m->info.inner;
    c.moe.like.alpha = (float)bind_float(m, "swiglu_alpha", 1.702, 1e-3, 1e3);
    c.moe.like.limit = (float)bind_float(m, "swiglu_limit", 7, 1e-3, 1e6);
    c.qkv_bias = c.out_bias = bind_bool(m, "attention_bias", true);
    read_quant(m);
    open_rope(m);
    config_ignore(m->config, "experts_per_token"); /* older names of keys that the config also has */
    config_ignore(m->config, "initial_context_length");
    decoder_open(m, &c, open_layer, llama_layer);
}
