/* synthshape.c - the table of shapes and the tensor lists of their families. */
#include "app/synthshape.h"

#include <stdio.h>
#include <string.h>

/* name, family, layers, hidden, inner, heads, kv, head_dim, vocab, context, theta, eps, tied, llama3, factor,
 * experts, top_k / */
static const struct synthshape table[] = {
    {"llama-3.2-1b", "llama", 16, 2048, 8192, 32, 8, 64, 128256, 131072, 500000, 1e-5, true, true, 32, 0, 0},
    {"llama-3.2-3b", "llama", 28, 3072, 8192, 24, 8, 128, 128256, 131072, 500000, 1e-5, true, true, 32, 0, 0},
    {"llama-3.1-8b", "llama", 32, 4096, 14336, 32, 8, 128, 128256, 131072, 500000, 1e-5, false, true, 8, 0,
     0},
    {"llama-3.1-70b", "llama", 80, 8192, 28672, 64, 8, 128, 128256, 131072, 500000, 1e-5, false, true, 8, 0,
     0},
    {"llama-2-7b", "llama", 32, 4096, 11008, 32, 32, 128, 32000, 4096, 10000, 1e-5, false, false, 0, 0, 0},
    {"smollm2-135m", "llama", 30, 576, 1536, 9, 3, 64, 49152, 8192, 100000, 1e-5, true, false, 0, 0, 0},
    {"tinyllama-1.1b", "llama", 22, 2048, 5632, 32, 4, 64, 32000, 2048, 10000, 1e-5, false, false, 0, 0, 0},
    {"gpt2", "gpt2", 12, 768, 3072, 12, 12, 64, 50257, 1024, 0, 1e-5, true, false, 0, 0, 0},
    {"gpt2-medium", "gpt2", 24, 1024, 4096, 16, 16, 64, 50257, 1024, 0, 1e-5, true, false, 0, 0, 0},
    {"gpt2-large", "gpt2", 36, 1280, 5120, 20, 20, 64, 50257, 1024, 0, 1e-5, true, false, 0, 0, 0},
    {"gpt2-xl", "gpt2", 48, 1600, 6400, 25, 25, 64, 50257, 1024, 0, 1e-5, true, false, 0, 0, 0},
    {"mixtral-8x7b", "mixtral", 32, 4096, 14336, 32, 8, 128, 32000, 32768, 1000000, 1e-5, false, false, 0, 8,
     2},
    {"qwen3-30b-a3b", "qwen3_moe", 48, 2048, 768, 32, 4, 128, 151936, 40960, 1000000, 1e-6, false, false, 0,
     128, 8},
    {"gpt-oss-20b", "gpt_oss", 24, 2880, 2880, 64, 8, 64, 201088, 131072, 150000, 1e-5, false, false, 0, 32,
     4},
    {"gpt-oss-120b", "gpt_oss", 36, 2880, 2880, 64, 8, 64, 201088, 131072, 150000, 1e-5, false, false, 0, 128,
     4},
};

size_t synthshape_n(void)
{
    return sizeof(table) / sizeof(table[0]);
}

const struct synthshape *synthshape_at(size_t i)
{
    return &table[i];
}

const struct synthshape *synthshape_of_name(const char *name)
{
    for (size_t i = 0; i < synthshape_n(); i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}

/* ---- configs ---- */

static json_t *llama_config(const struct synthshape *s, size_t layers)
{
    json_t *c = json_pack(
        "{s:[s],s:s,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:f,s:f,s:b,s:s,s:b,s:b}", "architectures",
        "LlamaForCausalLM", "model_type", "llama", "num_hidden_layers", (json_int_t)layers, "hidden_size",
        (json_int_t)s->hidden, "intermediate_size", (json_int_t)s->inner, "num_attention_heads",
        (json_int_t)s->heads, "num_key_value_heads", (json_int_t)s->kv, "head_dim", (json_int_t)s->head_dim,
        "vocab_size", (json_int_t)s->vocab, "max_position_embeddings", (json_int_t)s->context, "rope_theta",
        s->theta, "rms_norm_eps", s->eps, "tie_word_embeddings", (int)s->tied, "hidden_act", "silu",
        "attention_bias", 0, "mlp_bias", 0);

    if (c && s->llama3)
        json_object_set_new(c, "rope_scaling",
                            json_pack("{s:s,s:f,s:f,s:f,s:i}", "rope_type", "llama3", "factor",
                                      s->llama3_factor, "low_freq_factor", 1.0, "high_freq_factor", 4.0,
                                      "original_max_position_embeddings", 8192));
    return c;
}

static json_t *gpt2_config(const struct synthshape *s, size_t layers)
{
    return json_pack("{s:[s],s:s,s:I,s:I,s:I,s:I,s:I,s:s,s:f}", "architectures", "GPT2LMHeadModel",
                     "model_type", "gpt2", "n_layer", (json_int_t)layers, "n_embd", (json_int_t)s->hidden,
                     "n_head", (json_int_t)s->heads, "vocab_size", (json_int_t)s->vocab, "n_positions",
                     (json_int_t)s->context, "activation_function", "gelu_new", "layer_norm_epsilon", s->eps);
}

/* What the mixtures have in common. */
static json_t *mixture_config(const struct synthshape *s, size_t layers, const char *class_name)
{
    return json_pack("{s:[s],s:s,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:f,s:f,s:b,s:s,s:I}", "architectures",
                     class_name, "model_type", s->family, "num_hidden_layers", (json_int_t)layers,
                     "hidden_size", (json_int_t)s->hidden, "num_attention_heads", (json_int_t)s->heads,
                     "num_key_value_heads", (json_int_t)s->kv, "head_dim", (json_int_t)s->head_dim,
                     "vocab_size", (json_int_t)s->vocab, "max_position_embeddings", (json_int_t)s->context,
                     "rope_theta", s->theta, "rms_norm_eps", s->eps, "tie_word_embeddings", (int)s->tied,
                     "hidden_act", "silu", "num_experts_per_tok", (json_int_t)s->top_k);
}

static json_t *mixtral_config(const struct synthshape *s, size_t layers)
{
    json_t *c = mixture_config(s, layers, "MixtralForCausalLM");

    if (c) {
        json_object_set_new(c, "intermediate_size", json_integer((json_int_t)s->inner));
        json_object_set_new(c, "num_local_experts", json_integer((json_int_t)s->experts));
        json_object_set_new(c, "sliding_window", json_null());
    }
    return c;
}

static json_t *qwen3_moe_config(const struct synthshape *s, size_t layers)
{
    json_t *c = mixture_config(s, layers, "Qwen3MoeForCausalLM");

    if (c) {
        json_object_set_new(c, "moe_intermediate_size", json_integer((json_int_t)s->inner));
        json_object_set_new(c, "num_experts", json_integer((json_int_t)s->experts));
        json_object_set_new(c, "norm_topk_prob", json_true());
        json_object_set_new(c, "sliding_window", json_null());
    }
    return c;
}

static json_t *gpt_oss_config(const struct synthshape *s, size_t layers)
{
    json_t *c = mixture_config(s, layers, "GptOssForCausalLM");

    if (c) {
        json_object_set_new(c, "intermediate_size", json_integer((json_int_t)s->inner));
        json_object_set_new(c, "num_local_experts", json_integer((json_int_t)s->experts));
        json_object_set_new(c, "sliding_window", json_integer(128));
        json_object_set_new(c, "swiglu_limit", json_real(7));
        json_object_set_new(c, "quantization_config", json_pack("{s:s}", "quant_method", "mxfp4"));
        json_object_set_new(c, "rope_scaling",
                            json_pack("{s:s,s:f,s:f,s:f,s:b,s:i}", "rope_type", "yarn", "factor", 32.0,
                                      "beta_fast", 32.0, "beta_slow", 1.0, "truncate", 0,
                                      "original_max_position_embeddings", 4096));
    }
    return c;
}

/* ---- tensors ---- */

/* Names of T stand behind PREFIX. */
static int list(const char *prefix, const struct synthshape_tensor *t, size_t n, synthshape_fn *fn, void *ctx)
{
    char name[160];
    int rc = 0;

    for (size_t i = 0; i < n && rc == 0; i++) {
        struct synthshape_tensor named = t[i];

        snprintf(name, sizeof(name), "%s%s", prefix, t[i].name);
        named.name = name;
        rc = fn(ctx, &named);
    }
    return rc;
}

static int llama_tensors(const struct synthshape *s, size_t layers, synthshape_fn *fn, void *ctx)
{
    size_t E = s->hidden, q = s->heads * s->head_dim, kv = s->kv * s->head_dim;
    const struct synthshape_tensor layer[] = {
        {"input_layernorm.weight", {E}, SYNTH_ONES},
        {"self_attn.q_proj.weight", {q, E}, SYNTH_RANDOM},
        {"self_attn.k_proj.weight", {kv, E}, SYNTH_RANDOM},
        {"self_attn.v_proj.weight", {kv, E}, SYNTH_RANDOM},
        {"self_attn.o_proj.weight", {E, q}, SYNTH_RANDOM},
        {"post_attention_layernorm.weight", {E}, SYNTH_ONES},
        {"mlp.gate_proj.weight", {s->inner, E}, SYNTH_RANDOM},
        {"mlp.up_proj.weight", {s->inner, E}, SYNTH_RANDOM},
        {"mlp.down_proj.weight", {E, s->inner}, SYNTH_RANDOM},
    };
    const struct synthshape_tensor first[] = {{"model.embed_tokens.weight", {s->vocab, E}, SYNTH_RANDOM}};
    const struct synthshape_tensor last[] = {{"model.norm.weight", {E}, SYNTH_ONES},
                                             {"lm_head.weight", {s->vocab, E}, SYNTH_RANDOM}};
    char prefix[64];
    int rc = list("", first, 1, fn, ctx);

    for (size_t l = 0; l < layers && rc == 0; l++) {
        snprintf(prefix, sizeof(prefix), "model.layers.%zu.", l);
        rc = list(prefix, layer, sizeof(layer) / sizeof(layer[0]), fn, ctx);
    }
    return rc ? rc : list("", last, s->tied ? 1 : 2, fn, ctx);
}

static int gpt2_tensors(const struct synthshape *s, size_t layers, synthshape_fn *fn, void *ctx)
{
    size_t E = s->hidden;
    const struct synthshape_tensor layer[] = {
        {"ln_1.weight", {E}, SYNTH_ONES},
        {"ln_1.bias", {E}, SYNTH_ZEROS},
        {"attn.c_attn.weight", {E, 3 * E}, SYNTH_RANDOM},
        {"attn.c_attn.bias", {3 * E}, SYNTH_ZEROS},
        {"attn.c_proj.weight", {E, E}, SYNTH_RANDOM},
        {"attn.c_proj.bias", {E}, SYNTH_ZEROS},
        {"ln_2.weight", {E}, SYNTH_ONES},
        {"ln_2.bias", {E}, SYNTH_ZEROS},
        {"mlp.c_fc.weight", {E, s->inner}, SYNTH_RANDOM},
        {"mlp.c_fc.bias", {s->inner}, SYNTH_ZEROS},
        {"mlp.c_proj.weight", {s->inner, E}, SYNTH_RANDOM},
        {"mlp.c_proj.bias", {E}, SYNTH_ZEROS},
    };
    const struct synthshape_tensor first[] = {{"transformer.wte.weight", {s->vocab, E}, SYNTH_RANDOM},
                                              {"transformer.wpe.weight", {s->context, E}, SYNTH_RANDOM}};
    const struct synthshape_tensor last[] = {{"transformer.ln_f.weight", {E}, SYNTH_ONES},
                                             {"transformer.ln_f.bias", {E}, SYNTH_ZEROS}};
    char prefix[64];
    int rc = list("", first, 2, fn, ctx);

    for (size_t l = 0; l < layers && rc == 0; l++) {
        snprintf(prefix, sizeof(prefix), "transformer.h.%zu.", l);
        rc = list(prefix, layer, sizeof(layer) / sizeof(layer[0]), fn, ctx);
    }
    return rc ? rc : list("", last, 2, fn, ctx);
}

/* Attention, norms and ends of the mixtures; EXPERTS lists what a layer has instead of an MLP. */
typedef int experts_fn(const struct synthshape *s, const char *prefix, synthshape_fn *fn, void *ctx);

static int mixture_tensors(const struct synthshape *s, size_t layers, experts_fn *experts, bool bias,
                           bool norms, synthshape_fn *fn, void *ctx)
{
    size_t E = s->hidden, q = s->heads * s->head_dim, kv = s->kv * s->head_dim;
    const struct synthshape_tensor layer[] = {{"input_layernorm.weight", {E}, SYNTH_ONES},
                                              {"self_attn.q_proj.weight", {q, E}, SYNTH_RANDOM},
                                              {"self_attn.k_proj.weight", {kv, E}, SYNTH_RANDOM},
                                              {"self_attn.v_proj.weight", {kv, E}, SYNTH_RANDOM},
                                              {"self_attn.o_proj.weight", {E, q}, SYNTH_RANDOM},
                                              {"post_attention_layernorm.weight", {E}, SYNTH_ONES}};
    const struct synthshape_tensor biases[] = {{"self_attn.q_proj.bias", {q}, SYNTH_ZEROS},
                                               {"self_attn.k_proj.bias", {kv}, SYNTH_ZEROS},
                                               {"self_attn.v_proj.bias", {kv}, SYNTH_ZEROS},
                                               {"self_attn.o_proj.bias", {E}, SYNTH_ZEROS},
                                               {"self_attn.sinks", {s->heads}, SYNTH_ZEROS}};
    const struct synthshape_tensor head_norms[] = {{"self_attn.q_norm.weight", {s->head_dim}, SYNTH_ONES},
                                                   {"self_attn.k_norm.weight", {s->head_dim}, SYNTH_ONES}};
    const struct synthshape_tensor first[] = {{"model.embed_tokens.weight", {s->vocab, E}, SYNTH_RANDOM}};
    const struct synthshape_tensor last[] = {{"model.norm.weight", {E}, SYNTH_ONES},
                                             {"lm_head.weight", {s->vocab, E}, SYNTH_RANDOM}};
    char prefix[64];
    int rc = list("", first, 1, fn, ctx);

    for (size_t l = 0; l < layers && rc == 0; l++) {
        snprintf(prefix, sizeof(prefix), "model.layers.%zu.", l);
        rc = list(prefix, layer, 6, fn, ctx);
        rc = rc ? rc : list(prefix, biases, bias ? 5 : 0, fn, ctx);
        rc = rc ? rc : list(prefix, head_norms, norms ? 2 : 0, fn, ctx);
        rc = rc ? rc : experts(s, prefix, fn, ctx);
    }
    return rc ? rc : list("", last, 2, fn, ctx);
}

/* MODULE.gate and, for each expert, its three matrices of these names: [I, E], [I, E], [E, I]. */
static int experts_apart(const struct synthshape *s, const char *module, const char *const names[3],
                         synthshape_fn *fn, void *ctx)
{
    size_t E = s->hidden, I = s->inner;
    const struct synthshape_tensor gate[] = {{"gate.weight", {s->experts, E}, SYNTH_RANDOM}};
    const struct synthshape_tensor expert[] = {
        {names[0], {I, E}, SYNTH_RANDOM}, {names[1], {I, E}, SYNTH_RANDOM}, {names[2], {E, I}, SYNTH_RANDOM}};
    char prefix[128];
    int rc = list(module, gate, 1, fn, ctx);

    for (size_t x = 0; x < s->experts && rc == 0; x++) {
        snprintf(prefix, sizeof(prefix), "%sexperts.%zu.", module, x);
        rc = list(prefix, expert, 3, fn, ctx);
    }
    return rc;
}

static int mixtral_experts(const struct synthshape *s, const char *prefix, synthshape_fn *fn, void *ctx)
{
    static const char *const names[3] = {"w1.weight", "w3.weight", "w2.weight"};
    char module[96];

    snprintf(module, sizeof(module), "%sblock_sparse_moe.", prefix);
    return experts_apart(s, module, names, fn, ctx);
}

static int qwen3_moe_experts(const struct synthshape *s, const char *prefix, synthshape_fn *fn, void *ctx)
{
    static const char *const names[3] = {"gate_proj.weight", "up_proj.weight", "down_proj.weight"};
    char module[96];

    snprintf(module, sizeof(module), "%smlp.", prefix);
    return experts_apart(s, module, names, fn, ctx);
}

static int gpt_oss_experts(const struct synthshape *s, const char *prefix, synthshape_fn *fn, void *ctx)
{
    size_t X = s->experts, E = s->hidden, I = s->inner;
    const struct synthshape_tensor t[] = {
        {"mlp.router.weight", {X, E}, SYNTH_RANDOM},
        {"mlp.router.bias", {X}, SYNTH_ZEROS},
        {"mlp.experts.gate_up_proj_blocks", {X, 2 * I, E / 32, 16}, SYNTH_NIBBLES},
        {"mlp.experts.gate_up_proj_scales", {X, 2 * I, E / 32}, SYNTH_SCALES},
        {"mlp.experts.gate_up_proj_bias", {X, 2 * I}, SYNTH_ZEROS},
        {"mlp.experts.down_proj_blocks", {X, E, I / 32, 16}, SYNTH_NIBBLES},
        {"mlp.experts.down_proj_scales", {X, E, I / 32}, SYNTH_SCALES},
        {"mlp.experts.down_proj_bias", {X, E}, SYNTH_ZEROS},
    };

    return list(prefix, t, sizeof(t) / sizeof(t[0]), fn, ctx);
}

static int mixtral_tensors(const struct synthshape *s, size_t layers, synthshape_fn *fn, void *ctx)
{
    return mixture_tensors(s, layers, mixtral_experts, false, false, fn, ctx);
}

static int qwen3_moe_tensors(const struct synthshape *s, size_t layers, synthshape_fn *fn, void *ctx)
{
    return mixture_tensors(s, layers, qwen3_moe_experts, false, true, fn, ctx);
}

static int gpt_oss_tensors(const struct synthshape *s, size_t layers, synthshape_fn *fn, void *ctx)
{
    return mixture_tensors(s, layers, gpt_oss_experts, true, false, fn, ctx);
}

/* ---- families ---- */

static const struct {
    const char *name;
    json_t *(*config)(const struct synthshape *s, size_t layers);
    int (*tensors)(const struct synthshape *s, size_t layers, synthshape_fn *fn, void *ctx);
} families[] = {{"llama", llama_config, llama_tensors},
                {"gpt2", gpt2_config, gpt2_tensors},
                {"mixtral", mixtral_config, mixtral_tensors},
                {"qwen3_moe", qwen3_moe_config, qwen3_moe_tensors},
                {"gpt_oss", gpt_oss_config, gpt_oss_tensors}};

static size_t family_of(const struct synthshape *s)
{
    size_t i = 0;

    while (strcmp(families[i].name, s->family) != 0)
        i++;
    return i;
}

int synthshape_tensors(const struct synthshape *s, size_t layers, synthshape_fn *fn, void *ctx)
{
    return families[family_of(s)].tensors(s, layers, fn, ctx);
}

json_t *synthshape_config(const struct synthshape *s, size_t layers, const char *dtype)
{
    json_t *c = families[family_of(s)].config(s, layers);

    if (c) {
        json_object_set_new(c, "torch_dtype", json_string(dtype));
        json_object_set_new(c, "bos_token_id", json_integer(256));
        json_object_set_new(c, "eos_token_id", json_integer(257));
    }
    return c;
}
