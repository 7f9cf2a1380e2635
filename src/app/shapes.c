/* shapes.c - the table of shapes and the tensor lists of their families. */
#include "app/shapes.h"

#include <stdio.h>
#include <string.h>

/* name, family, layers, hidden, inner, heads, kv, head_dim, vocab, context, theta, eps, tied, llama3, factor,
 * experts, top_k / */
static const struct shape table[] = {
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
    {"qwen2.5-0.5b", "qwen2", 24, 896, 4864, 14, 2, 64, 151936, 32768, 1000000, 1e-6, true, false, 0, 0, 0},
    {"qwen2.5-7b", "qwen2", 28, 3584, 18944, 28, 4, 128, 152064, 32768, 1000000, 1e-6, false, false, 0, 0, 0},
    {"qwen3-0.6b", "qwen3", 28, 1024, 3072, 16, 8, 128, 151936, 40960, 1000000, 1e-6, true, false, 0, 0, 0},
    {"mistral-7b-v0.1", "mistral", 32, 4096, 14336, 32, 8, 128, 32000, 32768, 10000, 1e-5, false, false, 0, 0,
     0},
    {"phi-4-mini", "phi3", 32, 3072, 8192, 24, 8, 128, 200064, 131072, 10000, 1e-5, true, false, 0, 0, 0},
    {"gemma-3-1b", "gemma3", 26, 1152, 6912, 4, 1, 256, 262144, 32768, 1000000, 1e-6, true, false, 0, 0, 0},
    {"gemma-4-e2b", "gemma4", 35, 1536, 6144, 8, 1, 256, 262144, 131072, 1000000, 1e-6, true, false, 0, 0, 0},
    {"opt-1.3b", "opt", 24, 2048, 8192, 32, 32, 64, 50272, 2048, 0, 1e-5, true, false, 0, 0, 0},
    {"gpt-j-6b", "gptj", 28, 4096, 16384, 16, 16, 256, 50400, 2048, 10000, 1e-5, false, false, 0, 0, 0},
    {"mixtral-8x7b", "mixtral", 32, 4096, 14336, 32, 8, 128, 32000, 32768, 1000000, 1e-5, false, false, 0, 8,
     2},
    {"qwen3-30b-a3b", "qwen3_moe", 48, 2048, 768, 32, 4, 128, 151936, 40960, 1000000, 1e-6, false, false, 0,
     128, 8},
    {"gpt-oss-20b", "gpt_oss", 24, 2880, 2880, 64, 8, 64, 201088, 131072, 150000, 1e-5, false, false, 0, 32,
     4},
    {"gpt-oss-120b", "gpt_oss", 36, 2880, 2880, 64, 8, 64, 201088, 131072, 150000, 1e-5, false, false, 0, 128,
     4},
    {"llama-4-scout", "llama4", 48, 5120, 8192, 40, 8, 128, 202048, 10485760, 500000, 1e-5, false, true, 16,
     16, 1},
};

size_t shapes_n(void)
{
    return sizeof(table) / sizeof(table[0]);
}

const struct shape *shapes_at(size_t i)
{
    return &table[i];
}

const struct shape *shapes_of_name(const char *name)
{
    for (size_t i = 0; i < shapes_n(); i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}

/* ---- configs ---- */

static json_t *llama_config(const struct shape *s, size_t layers)
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

static json_t *gpt2_config(const struct shape *s, size_t layers)
{
    return json_pack("{s:[s],s:s,s:I,s:I,s:I,s:I,s:I,s:s,s:f}", "architectures", "GPT2LMHeadModel",
                     "model_type", "gpt2", "n_layer", (json_int_t)layers, "n_embd", (json_int_t)s->hidden,
                     "n_head", (json_int_t)s->heads, "vocab_size", (json_int_t)s->vocab, "n_positions",
                     (json_int_t)s->context, "activation_function", "gelu_new", "layer_norm_epsilon", s->eps);
}

/* What the dense families have in common. */
static json_t *dense_config(const struct shape *s, size_t layers, const char *class_name, const char *type)
{
    return json_pack("{s:[s],s:s,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:f,s:f,s:b}", "architectures", class_name,
                     "model_type", type, "num_hidden_layers", (json_int_t)layers, "hidden_size",
                     (json_int_t)s->hidden, "intermediate_size", (json_int_t)s->inner, "num_attention_heads",
                     (json_int_t)s->heads, "num_key_value_heads", (json_int_t)s->kv, "head_dim",
                     (json_int_t)s->head_dim, "vocab_size", (json_int_t)s->vocab, "max_position_embeddings",
                     (json_int_t)s->context, "rope_theta", s->theta, "rms_norm_eps", s->eps,
                     "tie_word_embeddings", (int)s->tied);
}

/* C gets the members of MORE, which is dropped. */
static json_t *with(json_t *c, json_t *more)
{
    bool good = c && more && json_object_update(c, more) == 0;

    json_decref(more);
    if (!good)
        json_decref(c);
    return good ? c : NULL;
}

static json_t *mistral_config(const struct shape *s, size_t layers)
{
    return with(dense_config(s, layers, "MistralForCausalLM", "mistral"),
                json_pack("{s:s,s:i}", "hidden_act", "silu", "sliding_window", 4096));
}

static json_t *qwen2_config(const struct shape *s, size_t layers)
{
    return with(dense_config(s, layers, "Qwen2ForCausalLM", "qwen2"),
                json_pack("{s:s,s:b,s:n}", "hidden_act", "silu", "use_sliding_window", 0, "sliding_window"));
}

static json_t *qwen3_config(const struct shape *s, size_t layers)
{
    return with(dense_config(s, layers, "Qwen3ForCausalLM", "qwen3"),
                json_pack("{s:s,s:b,s:b,s:n}", "hidden_act", "silu", "attention_bias", 0,
                          "use_sliding_window", 0, "sliding_window"));
}

/* Phi-4-mini's, for the 48 pairs of the three quarters of a head that turn. */
static json_t *phi3_config(const struct shape *s, size_t layers)
{
    static const double longer[48] = {
        1,           1.118320672, 1.250641126, 1.398617824, 1.564103225, 1.74916897,  1.956131817,
        2.187582649, 2.446418898, 2.735880826, 3.059592084, 3.421605075, 3.826451687, 4.279200023,
        4.785517845, 5.351743533, 5.984965424, 6.693110555, 7.485043894, 8.370679318, 9.36110372,
        10.4687158,  11.70738129, 13.09260651, 14.64173252, 16.37415215, 18.31155283, 20.47818807,
        22.90118105, 25.61086418, 28.64115884, 32.03,       32.1,        32.13,       32.23,
        32.6,        32.61,       32.64,       32.66,       32.7,        32.71,       32.93,
        32.97,       33.28,       33.49,       33.5,        44.16,       47.77};
    json_t *longs = json_array(), *shorts = json_array();

    for (size_t i = 0; i < 48; i++) {
        json_array_append_new(longs, json_real(longer[i]));
        json_array_append_new(shorts, json_real(1));
    }
    return with(dense_config(s, layers, "Phi3ForCausalLM", "phi3"),
                json_pack("{s:s,s:i,s:f,s:i,s:{s:s,s:o,s:o}}", "hidden_act", "silu", "sliding_window", 262144,
                          "partial_rotary_factor", 0.75, "original_max_position_embeddings", 4096,
                          "rope_scaling", "type", "longrope", "long_factor", longs, "short_factor", shorts));
}

static json_t *gemma3_config(const struct shape *s, size_t layers)
{
    return with(dense_config(s, layers, "Gemma3ForCausalLM", "gemma3_text"),
                json_pack("{s:s,s:i,s:f,s:n,s:i,s:i,s:b,s:n,s:n}", "hidden_activation", "gelu_pytorch_tanh",
                          "query_pre_attn_scalar", 256, "rope_local_base_freq", 10000.0, "rope_scaling",
                          "sliding_window", 512, "sliding_window_pattern", 6, "attention_bias", 0,
                          "attn_logit_softcapping", "final_logit_softcapping"));
}

/* Gemma 4 E2B: every fifth layer and the last see all; those behind the fifteenth use the rows of others and
 * have an MLP twice as wide. */
enum { GEMMA4_WIDE = 512, GEMMA4_INPUT = 256, GEMMA4_STORE = 15 };

static bool gemma4_sees_all(size_t l, size_t layers)
{
    return l % 5 == 4 || l + 1 == layers;
}

static json_t *gemma4_config(const struct shape *s, size_t layers)
{
    json_t *c, *types = json_array();

    for (size_t l = 0; l < layers; l++)
        json_array_append_new(
            types, json_string(gemma4_sees_all(l, layers) ? "full_attention" : "sliding_attention"));
    c = with(dense_config(s, layers, "Gemma4ForCausalLM", "gemma4_text"),
             json_pack("{s:s,s:i,s:I,s:i,s:I,s:i,s:b,s:f,s:b,s:b,s:o}", "hidden_activation",
                       "gelu_pytorch_tanh", "global_head_dim", GEMMA4_WIDE, "num_kv_shared_layers",
                       (json_int_t)(layers > GEMMA4_STORE ? layers - GEMMA4_STORE : 0),
                       "hidden_size_per_layer_input", GEMMA4_INPUT, "vocab_size_per_layer_input",
                       (json_int_t)s->vocab, "sliding_window", 512, "use_double_wide_mlp", 1,
                       "final_logit_softcapping", 30.0, "attention_bias", 0, "enable_moe_block", 0,
                       "layer_types", types));
    json_object_del(
        c, "rope_theta"); /* what Gemma 4 has without a word: 1e6 and 1e4, a quarter of the wide heads */
    return c;
}

static json_t *llama4_config(const struct shape *s, size_t layers)
{
    return with(dense_config(s, layers, "Llama4ForCausalLM", "llama4_text"),
                json_pack("{s:s,s:i,s:I,s:I,s:i,s:i,s:b,s:i,s:b,s:i,s:f,s:b,s:{s:s,s:f,s:f,s:f,s:i}}",
                          "hidden_act", "silu", "intermediate_size_mlp", 16384, "num_local_experts",
                          (json_int_t)s->experts, "num_experts_per_tok", (json_int_t)s->top_k,
                          "interleave_moe_layer_step", 1, "no_rope_layer_interval", 4, "use_qk_norm", 1,
                          "attention_chunk_size", 8192, "attn_temperature_tuning", 1, "floor_scale", 8192,
                          "attn_scale", 0.1, "attention_bias", 0, "rope_scaling", "rope_type", "llama3",
                          "factor", s->llama3_factor, "low_freq_factor", 1.0, "high_freq_factor", 1.0,
                          "original_max_position_embeddings", 8192));
}

static json_t *opt_config(const struct shape *s, size_t layers)
{
    return json_pack("{s:[s],s:s,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:b,s:s}", "architectures", "OPTForCausalLM",
                     "model_type", "opt", "num_hidden_layers", (json_int_t)layers, "hidden_size",
                     (json_int_t)s->hidden, "ffn_dim", (json_int_t)s->inner, "num_attention_heads",
                     (json_int_t)s->heads, "vocab_size", (json_int_t)s->vocab, "max_position_embeddings",
                     (json_int_t)s->context, "word_embed_proj_dim", (json_int_t)s->hidden,
                     "do_layer_norm_before", 1, "activation_function", "relu");
}

static json_t *gptj_config(const struct shape *s, size_t layers)
{
    return json_pack("{s:[s],s:s,s:I,s:I,s:I,s:I,s:I,s:I,s:i,s:s,s:f,s:b}", "architectures",
                     "GPTJForCausalLM", "model_type", "gptj", "n_layer", (json_int_t)layers, "n_embd",
                     (json_int_t)s->hidden, "n_inner", (json_int_t)s->inner, "n_head", (json_int_t)s->heads,
                     "vocab_size", (json_int_t)s->vocab, "n_positions", (json_int_t)s->context, "rotary_dim",
                     64, "activation_function", "gelu_new", "layer_norm_epsilon", s->eps,
                     "tie_word_embeddings", (int)s->tied);
}

/* What the mixtures have in common. */
static json_t *mixture_config(const struct shape *s, size_t layers, const char *class_name)
{
    return json_pack("{s:[s],s:s,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:f,s:f,s:b,s:s,s:I}", "architectures",
                     class_name, "model_type", s->family, "num_hidden_layers", (json_int_t)layers,
                     "hidden_size", (json_int_t)s->hidden, "num_attention_heads", (json_int_t)s->heads,
                     "num_key_value_heads", (json_int_t)s->kv, "head_dim", (json_int_t)s->head_dim,
                     "vocab_size", (json_int_t)s->vocab, "max_position_embeddings", (json_int_t)s->context,
                     "rope_theta", s->theta, "rms_norm_eps", s->eps, "tie_word_embeddings", (int)s->tied,
                     "hidden_act", "silu", "num_experts_per_tok", (json_int_t)s->top_k);
}

static json_t *mixtral_config(const struct shape *s, size_t layers)
{
    json_t *c = mixture_config(s, layers, "MixtralForCausalLM");

    if (c) {
        json_object_set_new(c, "intermediate_size", json_integer((json_int_t)s->inner));
        json_object_set_new(c, "num_local_experts", json_integer((json_int_t)s->experts));
        json_object_set_new(c, "sliding_window", json_null());
    }
    return c;
}

static json_t *qwen3_moe_config(const struct shape *s, size_t layers)
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

static json_t *gpt_oss_config(const struct shape *s, size_t layers)
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
static int list(const char *prefix, const struct shapes_tensor *t, size_t n, shapes_fn *fn, void *ctx)
{
    char name[160];
    int rc = 0;

    for (size_t i = 0; i < n && rc == 0; i++) {
        struct shapes_tensor named = t[i];

        snprintf(name, sizeof(name), "%s%s", prefix, t[i].name);
        named.name = name;
        rc = fn(ctx, &named);
    }
    return rc;
}

/* Layers of T, then what stands behind them. */
struct part {
    const struct shapes_tensor *t;
    size_t n;
};

#define PART(t) ((struct part){t, sizeof(t) / sizeof((t)[0])})

static int stack(const char *layer_prefix, size_t layers, struct part first, struct part layer,
                 struct part last, shapes_fn *fn, void *ctx)
{
    char prefix[64];
    int rc = list("", first.t, first.n, fn, ctx);

    for (size_t l = 0; l < layers && rc == 0; l++) {
        snprintf(prefix, sizeof(prefix), "%s.%zu.", layer_prefix, l);
        rc = list(prefix, layer.t, layer.n, fn, ctx);
    }
    return rc ? rc : list("", last.t, last.n, fn, ctx);
}

/* Llama and its kin: MORE stands in each layer too. */
static int dense_tensors(const struct shape *s, size_t layers, struct part more, shapes_fn *fn, void *ctx)
{
    size_t E = s->hidden, q = s->heads * s->head_dim, kv = s->kv * s->head_dim, n = 9;
    struct shapes_tensor layer[16] = {
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
    const struct shapes_tensor first[] = {{"model.embed_tokens.weight", {s->vocab, E}, SYNTH_RANDOM}};
    const struct shapes_tensor last[] = {{"model.norm.weight", {E}, SYNTH_ONES},
                                         {"lm_head.weight", {s->vocab, E}, SYNTH_RANDOM}};

    for (size_t i = 0; i < more.n; i++)
        layer[n++] = more.t[i];
    return stack("model.layers", layers, PART(first), (struct part){layer, n},
                 (struct part){last, s->tied ? 1 : 2}, fn, ctx);
}

static int llama_tensors(const struct shape *s, size_t layers, shapes_fn *fn, void *ctx)
{
    return dense_tensors(s, layers, (struct part){NULL, 0}, fn, ctx);
}

static int qwen2_tensors(const struct shape *s, size_t layers, shapes_fn *fn, void *ctx)
{
    const struct shapes_tensor biases[] = {
        {"self_attn.q_proj.bias", {s->heads * s->head_dim}, SYNTH_ZEROS},
        {"self_attn.k_proj.bias", {s->kv * s->head_dim}, SYNTH_ZEROS},
        {"self_attn.v_proj.bias", {s->kv * s->head_dim}, SYNTH_ZEROS},
    };

    return dense_tensors(s, layers, PART(biases), fn, ctx);
}

static int qwen3_tensors(const struct shape *s, size_t layers, shapes_fn *fn, void *ctx)
{
    const struct shapes_tensor norms[] = {{"self_attn.q_norm.weight", {s->head_dim}, SYNTH_ONES},
                                          {"self_attn.k_norm.weight", {s->head_dim}, SYNTH_ONES}};

    return dense_tensors(s, layers, PART(norms), fn, ctx);
}

/* Gemma's norms multiply by 1 + weight, so that zeros are what ones are elsewhere. */
static int gemma3_tensors(const struct shape *s, size_t layers, shapes_fn *fn, void *ctx)
{
    size_t E = s->hidden, q = s->heads * s->head_dim, kv = s->kv * s->head_dim;
    const struct shapes_tensor layer[] = {
        {"input_layernorm.weight", {E}, SYNTH_ZEROS},
        {"self_attn.q_proj.weight", {q, E}, SYNTH_RANDOM},
        {"self_attn.k_proj.weight", {kv, E}, SYNTH_RANDOM},
        {"self_attn.v_proj.weight", {kv, E}, SYNTH_RANDOM},
        {"self_attn.o_proj.weight", {E, q}, SYNTH_RANDOM},
        {"self_attn.q_norm.weight", {s->head_dim}, SYNTH_ZEROS},
        {"self_attn.k_norm.weight", {s->head_dim}, SYNTH_ZEROS},
        {"post_attention_layernorm.weight", {E}, SYNTH_ZEROS},
        {"pre_feedforward_layernorm.weight", {E}, SYNTH_ZEROS},
        {"mlp.gate_proj.weight", {s->inner, E}, SYNTH_RANDOM},
        {"mlp.up_proj.weight", {s->inner, E}, SYNTH_RANDOM},
        {"mlp.down_proj.weight", {E, s->inner}, SYNTH_RANDOM},
        {"post_feedforward_layernorm.weight", {E}, SYNTH_ZEROS},
    };
    const struct shapes_tensor first[] = {{"model.embed_tokens.weight", {s->vocab, E}, SYNTH_RANDOM}};
    const struct shapes_tensor last[] = {{"model.norm.weight", {E}, SYNTH_ZEROS}};

    return stack("model.layers", layers, PART(first), PART(layer), PART(last), fn, ctx);
}

static int gemma4_layer(const struct shape *s, size_t l, size_t layers, shapes_fn *fn, void *ctx)
{
    size_t E = s->hidden, P = GEMMA4_INPUT, D = gemma4_sees_all(l, layers) ? GEMMA4_WIDE : s->head_dim;
    bool stores = l < GEMMA4_STORE;
    size_t I = stores ? s->inner : 2 * s->inner;
    const struct shapes_tensor layer[] = {
        {"input_layernorm.weight", {E}, SYNTH_ONES},
        {"self_attn.q_proj.weight", {s->heads * D, E}, SYNTH_RANDOM},
        {"self_attn.q_norm.weight", {D}, SYNTH_ONES},
        {"self_attn.o_proj.weight", {E, s->heads * D}, SYNTH_RANDOM},
        {"post_attention_layernorm.weight", {E}, SYNTH_ONES},
        {"pre_feedforward_layernorm.weight", {E}, SYNTH_ONES},
        {"mlp.gate_proj.weight", {I, E}, SYNTH_RANDOM},
        {"mlp.up_proj.weight", {I, E}, SYNTH_RANDOM},
        {"mlp.down_proj.weight", {E, I}, SYNTH_RANDOM},
        {"post_feedforward_layernorm.weight", {E}, SYNTH_ONES},
        {"per_layer_input_gate.weight", {P, E}, SYNTH_RANDOM},
        {"per_layer_projection.weight", {E, P}, SYNTH_RANDOM},
        {"post_per_layer_input_norm.weight", {E}, SYNTH_ONES},
        {"layer_scalar", {1}, SYNTH_ONES},
    };
    const struct shapes_tensor rows[] = {{"self_attn.k_proj.weight", {s->kv * D, E}, SYNTH_RANDOM},
                                         {"self_attn.k_norm.weight", {D}, SYNTH_ONES},
                                         {"self_attn.v_proj.weight", {s->kv * D, E}, SYNTH_RANDOM}};
    char prefix[64];
    int rc;

    snprintf(prefix, sizeof(prefix), "model.layers.%zu.", l);
    rc = list(prefix, layer, sizeof(layer) / sizeof(layer[0]), fn, ctx);
    return rc || !stores ? rc : list(prefix, rows, 3, fn, ctx);
}

static int gemma4_tensors(const struct shape *s, size_t layers, shapes_fn *fn, void *ctx)
{
    size_t E = s->hidden, all = layers * GEMMA4_INPUT;
    const struct shapes_tensor ends[] = {
        {"model.embed_tokens.weight", {s->vocab, E}, SYNTH_RANDOM},
        {"model.embed_tokens_per_layer.weight", {s->vocab, all}, SYNTH_RANDOM},
        {"model.per_layer_model_projection.weight", {all, E}, SYNTH_RANDOM},
        {"model.per_layer_projection_norm.weight", {GEMMA4_INPUT}, SYNTH_ONES},
        {"model.norm.weight", {E}, SYNTH_ONES},
    };
    int rc = list("", ends, sizeof(ends) / sizeof(ends[0]), fn, ctx);

    for (size_t l = 0; l < layers && rc == 0; l++)
        rc = gemma4_layer(s, l, layers, fn, ctx);
    return rc;
}

static int phi3_tensors(const struct shape *s, size_t layers, shapes_fn *fn, void *ctx)
{
    size_t E = s->hidden, q = s->heads * s->head_dim, kv = s->kv * s->head_dim;
    const struct shapes_tensor layer[] = {
        {"input_layernorm.weight", {E}, SYNTH_ONES},
        {"self_attn.qkv_proj.weight", {q + 2 * kv, E}, SYNTH_RANDOM},
        {"self_attn.o_proj.weight", {E, q}, SYNTH_RANDOM},
        {"post_attention_layernorm.weight", {E}, SYNTH_ONES},
        {"mlp.gate_up_proj.weight", {2 * s->inner, E}, SYNTH_RANDOM},
        {"mlp.down_proj.weight", {E, s->inner}, SYNTH_RANDOM},
    };
    const struct shapes_tensor first[] = {{"model.embed_tokens.weight", {s->vocab, E}, SYNTH_RANDOM}};
    const struct shapes_tensor last[] = {{"model.norm.weight", {E}, SYNTH_ONES}};

    return stack("model.layers", layers, PART(first), PART(layer), PART(last), fn, ctx);
}

static int llama4_tensors(const struct shape *s, size_t layers, shapes_fn *fn, void *ctx)
{
    size_t E = s->hidden, I = s->inner, q = s->heads * s->head_dim, kv = s->kv * s->head_dim;
    const struct shapes_tensor layer[] = {
        {"input_layernorm.weight", {E}, SYNTH_ONES},
        {"self_attn.q_proj.weight", {q, E}, SYNTH_RANDOM},
        {"self_attn.k_proj.weight", {kv, E}, SYNTH_RANDOM},
        {"self_attn.v_proj.weight", {kv, E}, SYNTH_RANDOM},
        {"self_attn.o_proj.weight", {E, q}, SYNTH_RANDOM},
        {"post_attention_layernorm.weight", {E}, SYNTH_ONES},
        {"feed_forward.router.weight", {s->experts, E}, SYNTH_RANDOM},
        {"feed_forward.experts.gate_up_proj", {s->experts, E, 2 * I}, SYNTH_RANDOM},
        {"feed_forward.experts.down_proj", {s->experts, I, E}, SYNTH_RANDOM},
        {"feed_forward.shared_expert.gate_proj.weight", {I, E}, SYNTH_RANDOM},
        {"feed_forward.shared_expert.up_proj.weight", {I, E}, SYNTH_RANDOM},
        {"feed_forward.shared_expert.down_proj.weight", {E, I}, SYNTH_RANDOM},
    };
    const struct shapes_tensor first[] = {{"model.embed_tokens.weight", {s->vocab, E}, SYNTH_RANDOM}};
    const struct shapes_tensor last[] = {{"model.norm.weight", {E}, SYNTH_ONES},
                                         {"lm_head.weight", {s->vocab, E}, SYNTH_RANDOM}};

    return stack("model.layers", layers, PART(first), PART(layer), PART(last), fn, ctx);
}

static int opt_tensors(const struct shape *s, size_t layers, shapes_fn *fn, void *ctx)
{
    size_t E = s->hidden, I = s->inner;
    const struct shapes_tensor layer[] = {
        {"self_attn_layer_norm.weight", {E}, SYNTH_ONES},
        {"self_attn_layer_norm.bias", {E}, SYNTH_ZEROS},
        {"self_attn.q_proj.weight", {E, E}, SYNTH_RANDOM},
        {"self_attn.q_proj.bias", {E}, SYNTH_ZEROS},
        {"self_attn.k_proj.weight", {E, E}, SYNTH_RANDOM},
        {"self_attn.k_proj.bias", {E}, SYNTH_ZEROS},
        {"self_attn.v_proj.weight", {E, E}, SYNTH_RANDOM},
        {"self_attn.v_proj.bias", {E}, SYNTH_ZEROS},
        {"self_attn.out_proj.weight", {E, E}, SYNTH_RANDOM},
        {"self_attn.out_proj.bias", {E}, SYNTH_ZEROS},
        {"final_layer_norm.weight", {E}, SYNTH_ONES},
        {"final_layer_norm.bias", {E}, SYNTH_ZEROS},
        {"fc1.weight", {I, E}, SYNTH_RANDOM},
        {"fc1.bias", {I}, SYNTH_ZEROS},
        {"fc2.weight", {E, I}, SYNTH_RANDOM},
        {"fc2.bias", {E}, SYNTH_ZEROS},
    };
    const struct shapes_tensor first[] = {{"model.decoder.embed_tokens.weight", {s->vocab, E}, SYNTH_RANDOM},
                                          {"model.decoder.embed_positions.weight",
                                           {s->context + 2, E},
                                           SYNTH_RANDOM}}; /* two rows are padding's */
    const struct shapes_tensor last[] = {{"model.decoder.final_layer_norm.weight", {E}, SYNTH_ONES},
                                         {"model.decoder.final_layer_norm.bias", {E}, SYNTH_ZEROS}};

    return stack("model.decoder.layers", layers, PART(first), PART(layer), PART(last), fn, ctx);
}

static int gptj_tensors(const struct shape *s, size_t layers, shapes_fn *fn, void *ctx)
{
    size_t E = s->hidden, I = s->inner;
    const struct shapes_tensor layer[] = {
        {"ln_1.weight", {E}, SYNTH_ONES},
        {"ln_1.bias", {E}, SYNTH_ZEROS},
        {"attn.q_proj.weight", {E, E}, SYNTH_RANDOM},
        {"attn.k_proj.weight", {E, E}, SYNTH_RANDOM},
        {"attn.v_proj.weight", {E, E}, SYNTH_RANDOM},
        {"attn.out_proj.weight", {E, E}, SYNTH_RANDOM},
        {"mlp.fc_in.weight", {I, E}, SYNTH_RANDOM},
        {"mlp.fc_in.bias", {I}, SYNTH_ZEROS},
        {"mlp.fc_out.weight", {E, I}, SYNTH_RANDOM},
        {"mlp.fc_out.bias", {E}, SYNTH_ZEROS},
    };
    const struct shapes_tensor first[] = {{"transformer.wte.weight", {s->vocab, E}, SYNTH_RANDOM}};
    const struct shapes_tensor last[] = {{"transformer.ln_f.weight", {E}, SYNTH_ONES},
                                         {"transformer.ln_f.bias", {E}, SYNTH_ZEROS},
                                         {"lm_head.weight", {s->vocab, E}, SYNTH_RANDOM},
                                         {"lm_head.bias", {s->vocab}, SYNTH_ZEROS}};

    return stack("transformer.h", layers, PART(first), PART(layer), PART(last), fn, ctx);
}

static int gpt2_tensors(const struct shape *s, size_t layers, shapes_fn *fn, void *ctx)
{
    size_t E = s->hidden;
    const struct shapes_tensor layer[] = {
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
    const struct shapes_tensor first[] = {{"transformer.wte.weight", {s->vocab, E}, SYNTH_RANDOM},
                                          {"transformer.wpe.weight", {s->context, E}, SYNTH_RANDOM}};
    const struct shapes_tensor last[] = {{"transformer.ln_f.weight", {E}, SYNTH_ONES},
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
typedef int experts_fn(const struct shape *s, const char *prefix, shapes_fn *fn, void *ctx);

static int mixture_tensors(const struct shape *s, size_t layers, experts_fn *experts, bool bias, bool norms,
                           shapes_fn *fn, void *ctx)
{
    size_t E = s->hidden, q = s->heads * s->head_dim, kv = s->kv * s->head_dim;
    const struct shapes_tensor layer[] = {{"input_layernorm.weight", {E}, SYNTH_ONES},
                                          {"self_attn.q_proj.weight", {q, E}, SYNTH_RANDOM},
                                          {"self_attn.k_proj.weight", {kv, E}, SYNTH_RANDOM},
                                          {"self_attn.v_proj.weight", {kv, E}, SYNTH_RANDOM},
                                          {"self_attn.o_proj.weight", {E, q}, SYNTH_RANDOM},
                                          {"post_attention_layernorm.weight", {E}, SYNTH_ONES}};
    const struct shapes_tensor biases[] = {{"self_attn.q_proj.bias", {q}, SYNTH_ZEROS},
                                           {"self_attn.k_proj.bias", {kv}, SYNTH_ZEROS},
                                           {"self_attn.v_proj.bias", {kv}, SYNTH_ZEROS},
                                           {"self_attn.o_proj.bias", {E}, SYNTH_ZEROS},
                                           {"self_attn.sinks", {s->heads}, SYNTH_ZEROS}};
    const struct shapes_tensor head_norms[] = {{"self_attn.q_norm.weight", {s->head_dim}, SYNTH_ONES},
                                               {"self_attn.k_norm.weight", {s->head_dim}, SYNTH_ONES}};
    const struct shapes_tensor first[] = {{"model.embed_tokens.weight", {s->vocab, E}, SYNTH_RANDOM}};
    const struct shapes_tensor last[] = {{"model.norm.weight", {E}, SYNTH_ONES},
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
static int experts_apart(const struct shape *s, const char *module, const char *const names[3], shapes_fn *fn,
                         void *ctx)
{
    size_t E = s->hidden, I = s->inner;
    const struct shapes_tensor gate[] = {{"gate.weight", {s->experts, E}, SYNTH_RANDOM}};
    const struct shapes_tensor expert[] = {
        {names[0], {I, E}, SYNTH_RANDOM}, {names[1], {I, E}, SYNTH_RANDOM}, {names[2], {E, I}, SYNTH_RANDOM}};
    char prefix[128];
    int rc = list(module, gate, 1, fn, ctx);

    for (size_t x = 0; x < s->experts && rc == 0; x++) {
        snprintf(prefix, sizeof(prefix), "%sexperts.%zu.", module, x);
        rc = list(prefix, expert, 3, fn, ctx);
    }
    return rc;
}

static int mixtral_experts(const struct shape *s, const char *prefix, shapes_fn *fn, void *ctx)
{
    static const char *const names[3] = {"w1.weight", "w3.weight", "w2.weight"};
    char module[96];

    snprintf(module, sizeof(module), "%sblock_sparse_moe.", prefix);
    return experts_apart(s, module, names, fn, ctx);
}

static int qwen3_moe_experts(const struct shape *s, const char *prefix, shapes_fn *fn, void *ctx)
{
    static const char *const names[3] = {"gate_proj.weight", "up_proj.weight", "down_proj.weight"};
    char module[96];

    snprintf(module, sizeof(module), "%smlp.", prefix);
    return experts_apart(s, module, names, fn, ctx);
}

static int gpt_oss_experts(const struct shape *s, const char *prefix, shapes_fn *fn, void *ctx)
{
    size_t X = s->experts, E = s->hidden, I = s->inner;
    const struct shapes_tensor t[] = {
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

static int mixtral_tensors(const struct shape *s, size_t layers, shapes_fn *fn, void *ctx)
{
    return mixture_tensors(s, layers, mixtral_experts, false, false, fn, ctx);
}

static int qwen3_moe_tensors(const struct shape *s, size_t layers, shapes_fn *fn, void *ctx)
{
    return mixture_tensors(s, layers, qwen3_moe_experts, false, true, fn, ctx);
}

static int gpt_oss_tensors(const struct shape *s, size_t layers, shapes_fn *fn, void *ctx)
{
    return mixture_tensors(s, layers, gpt_oss_experts, true, false, fn, ctx);
}

/* ---- families ---- */

static const struct {
    const char *name;
    json_t *(*config)(const struct shape *s, size_t layers);
    int (*tensors)(const struct shape *s, size_t layers, shapes_fn *fn, void *ctx);
} families[] = {{"llama", llama_config, llama_tensors},
                {"gpt2", gpt2_config, gpt2_tensors},
                {"opt", opt_config, opt_tensors},
                {"gptj", gptj_config, gptj_tensors},
                {"mistral", mistral_config, llama_tensors},
                {"qwen2", qwen2_config, qwen2_tensors},
                {"qwen3", qwen3_config, qwen3_tensors},
                {"phi3", phi3_config, phi3_tensors},
                {"gemma3", gemma3_config, gemma3_tensors},
                {"gemma4", gemma4_config, gemma4_tensors},
                {"llama4", llama4_config, llama4_tensors},
                {"mixtral", mixtral_config, mixtral_tensors},
                {"qwen3_moe", qwen3_moe_config, qwen3_moe_tensors},
                {"gpt_oss", gpt_oss_config, gpt_oss_tensors}};

static size_t family_of(const struct shape *s)
{
    size_t i = 0;

    while (strcmp(families[i].name, s->family) != 0)
        i++;
    return i;
}

int shapes_tensors(const struct shape *s, size_t layers, shapes_fn *fn, void *ctx)
{
    return families[family_of(s)].tensors(s, layers, fn, ctx);
}

json_t *shapes_config(const struct shape *s, size_t layers, const char *dtype)
{
    json_t *c = families[family_of(s)].config(s, layers);

    if (c) {
        json_object_set_new(c, "torch_dtype", json_string(dtype));
        json_object_set_new(c, "bos_token_id", json_integer(256));
        json_object_set_new(c, "eos_token_id", json_integer(257));
    }
    return c;
}
