/* synthshape.c - the table of shapes and the tensor lists of their families. */
#include "app/synthshape.h"

#include <stdio.h>
#include <string.h>

/* name, family, layers, hidden, inner, heads, kv, head_dim, vocab, context, theta, eps, tied, llama3, factor */
static const struct synthshape table[] = {
    {"llama-3.2-1b", "llama", 16, 2048, 8192, 32, 8, 64, 128256, 131072, 500000, 1e-5, true, true, 32},
    {"llama-3.2-3b", "llama", 28, 3072, 8192, 24, 8, 128, 128256, 131072, 500000, 1e-5, true, true, 32},
    {"llama-3.1-8b", "llama", 32, 4096, 14336, 32, 8, 128, 128256, 131072, 500000, 1e-5, false, true, 8},
    {"llama-3.1-70b", "llama", 80, 8192, 28672, 64, 8, 128, 128256, 131072, 500000, 1e-5, false, true, 8},
    {"llama-2-7b", "llama", 32, 4096, 11008, 32, 32, 128, 32000, 4096, 10000, 1e-5, false, false, 0},
    {"smollm2-135m", "llama", 30, 576, 1536, 9, 3, 64, 49152, 8192, 100000, 1e-5, true, false, 0},
    {"tinyllama-1.1b", "llama", 22, 2048, 5632, 32, 4, 64, 32000, 2048, 10000, 1e-5, false, false, 0},
    {"gpt2", "gpt2", 12, 768, 3072, 12, 12, 64, 50257, 1024, 0, 1e-5, true, false, 0},
    {"gpt2-medium", "gpt2", 24, 1024, 4096, 16, 16, 64, 50257, 1024, 0, 1e-5, true, false, 0},
    {"gpt2-large", "gpt2", 36, 1280, 5120, 20, 20, 64, 50257, 1024, 0, 1e-5, true, false, 0},
    {"gpt2-xl", "gpt2", 48, 1600, 6400, 25, 25, 64, 50257, 1024, 0, 1e-5, true, false, 0},
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

json_t *synthshape_config(const struct synthshape *s, size_t layers, const char *dtype)
{
    json_t *c = strcmp(s->family, "gpt2") == 0 ? gpt2_config(s, layers) : llama_config(s, layers);

    if (c) {
        json_object_set_new(c, "torch_dtype", json_string(dtype));
        json_object_set_new(c, "bos_token_id", json_integer(256));
        json_object_set_new(c, "eos_token_id", json_integer(257));
    }
    return c;
}

/* ---- tensors ---- */

struct tensor {
    const char *name; /* behind the layer's prefix */
    size_t rows, cols;
    enum synthshape_fill fill;
};

static int list(const char *prefix, const struct tensor *t, size_t n, synthshape_fn *fn, void *ctx)
{
    char name[160];
    int rc = 0;

    for (size_t i = 0; i < n && rc == 0; i++) {
        snprintf(name, sizeof(name), "%s%s", prefix, t[i].name);
        rc = fn(ctx, name, t[i].rows, t[i].cols, t[i].fill);
    }
    return rc;
}

static int llama_tensors(const struct synthshape *s, size_t layers, synthshape_fn *fn, void *ctx)
{
    size_t E = s->hidden, q = s->heads * s->head_dim, kv = s->kv * s->head_dim;
    const struct tensor layer[] = {
        {"input_layernorm.weight", E, 0, SYNTH_ONES},
        {"self_attn.q_proj.weight", q, E, SYNTH_RANDOM},
        {"self_attn.k_proj.weight", kv, E, SYNTH_RANDOM},
        {"self_attn.v_proj.weight", kv, E, SYNTH_RANDOM},
        {"self_attn.o_proj.weight", E, q, SYNTH_RANDOM},
        {"post_attention_layernorm.weight", E, 0, SYNTH_ONES},
        {"mlp.gate_proj.weight", s->inner, E, SYNTH_RANDOM},
        {"mlp.up_proj.weight", s->inner, E, SYNTH_RANDOM},
        {"mlp.down_proj.weight", E, s->inner, SYNTH_RANDOM},
    };
    const struct tensor first[] = {{"model.embed_tokens.weight", s->vocab, E, SYNTH_RANDOM}};
    const struct tensor last[] = {{"model.norm.weight", E, 0, SYNTH_ONES},
                                  {"lm_head.weight", s->vocab, E, SYNTH_RANDOM}};
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
    const struct tensor layer[] = {
        {"ln_1.weight", E, 0, SYNTH_ONES},
        {"ln_1.bias", E, 0, SYNTH_ZEROS},
        {"attn.c_attn.weight", E, 3 * E, SYNTH_RANDOM},
        {"attn.c_attn.bias", 3 * E, 0, SYNTH_ZEROS},
        {"attn.c_proj.weight", E, E, SYNTH_RANDOM},
        {"attn.c_proj.bias", E, 0, SYNTH_ZEROS},
        {"ln_2.weight", E, 0, SYNTH_ONES},
        {"ln_2.bias", E, 0, SYNTH_ZEROS},
        {"mlp.c_fc.weight", E, s->inner, SYNTH_RANDOM},
        {"mlp.c_fc.bias", s->inner, 0, SYNTH_ZEROS},
        {"mlp.c_proj.weight", s->inner, E, SYNTH_RANDOM},
        {"mlp.c_proj.bias", E, 0, SYNTH_ZEROS},
    };
    const struct tensor first[] = {{"transformer.wte.weight", s->vocab, E, SYNTH_RANDOM},
                                   {"transformer.wpe.weight", s->context, E, SYNTH_RANDOM}};
    const struct tensor last[] = {{"transformer.ln_f.weight", E, 0, SYNTH_ONES},
                                  {"transformer.ln_f.bias", E, 0, SYNTH_ZEROS}};
    char prefix[64];
    int rc = list("", first, 2, fn, ctx);

    for (size_t l = 0; l < layers && rc == 0; l++) {
        snprintf(prefix, sizeof(prefix), "transformer.h.%zu.", l);
        rc = list(prefix, layer, sizeof(layer) / sizeof(layer[0]), fn, ctx);
    }
    return rc ? rc : list("", last, 2, fn, ctx);
}

int synthshape_tensors(const struct synthshape *s, size_t layers, synthshape_fn *fn, void *ctx)
{
    return strcmp(s->family, "gpt2") == 0 ? gpt2_tensors(s, layers, fn, ctx)
                                          : llama_tensors(s, layers, fn, ctx);
}
