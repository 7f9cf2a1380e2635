/* shapes.c - the table of shapes, and for each family of models the fields of its config.json and its
 * tensors.
 *
 * Fields and tensors are arrays of rows, which refer to the sizes of a shape by name (enum size). A function
 * of the family adds the fields of config.json that rows cannot express.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/json/json_pull.h"
#include "base/opt.h"
#include "lab/shapes.h"
#include "model/quant.h"

/* Columns: name, family, layers, hidden, inner, heads, kv, head_dim, vocab, context, theta, eps. */
static const struct shape table[] = {
    {"llama-3.2-1b", "llama", 16, 2048, 8192, 32, 8, 64, 128256, 131072, 500000, 1e-5, .tied = true,
     .llama3 = 32},
    {"llama-3.2-3b", "llama", 28, 3072, 8192, 24, 8, 128, 128256, 131072, 500000, 1e-5, .tied = true,
     .llama3 = 32},
    {"llama-3.1-8b", "llama", 32, 4096, 14336, 32, 8, 128, 128256, 131072, 500000, 1e-5, .tied = false,
     .llama3 = 8},
    {"llama-3.1-70b", "llama", 80, 8192, 28672, 64, 8, 128, 128256, 131072, 500000, 1e-5, .tied = false,
     .llama3 = 8},
    {"llama-2-7b", "llama", 32, 4096, 11008, 32, 32, 128, 32000, 4096, 10000, 1e-5, .tied = false},
    {"smollm2-135m", "llama", 30, 576, 1536, 9, 3, 64, 49152, 8192, 100000, 1e-5, .tied = true},
    {"tinyllama-1.1b", "llama", 22, 2048, 5632, 32, 4, 64, 32000, 2048, 10000, 1e-5, .tied = false},
    {"gpt2", "gpt2", 12, 768, 3072, 12, 12, 64, 50257, 1024, 0, 1e-5, .tied = true},
    {"gpt2-medium", "gpt2", 24, 1024, 4096, 16, 16, 64, 50257, 1024, 0, 1e-5, .tied = true},
    {"gpt2-large", "gpt2", 36, 1280, 5120, 20, 20, 64, 50257, 1024, 0, 1e-5, .tied = true},
    {"gpt2-xl", "gpt2", 48, 1600, 6400, 25, 25, 64, 50257, 1024, 0, 1e-5, .tied = true},
    {"qwen2.5-0.5b", "qwen2", 24, 896, 4864, 14, 2, 64, 151936, 32768, 1000000, 1e-6, .tied = true},
    {"qwen2.5-7b", "qwen2", 28, 3584, 18944, 28, 4, 128, 152064, 32768, 1000000, 1e-6, .tied = false},
    {"qwen3-0.6b", "qwen3", 28, 1024, 3072, 16, 8, 128, 151936, 40960, 1000000, 1e-6, .tied = true},
    {"mistral-7b-v0.1", "mistral", 32, 4096, 14336, 32, 8, 128, 32000, 32768, 10000, 1e-5, .tied = false},
    {"phi-4-mini", "phi3", 32, 3072, 8192, 24, 8, 128, 200064, 131072, 10000, 1e-5, .tied = true},
    {"gemma-3-1b", "gemma3", 26, 1152, 6912, 4, 1, 256, 262144, 32768, 1000000, 1e-6, .tied = true},
    {"gemma-4-e2b", "gemma4", 35, 1536, 6144, 8, 1, 256, 262144, 131072, 1000000, 1e-6, .tied = true},
    {"opt-1.3b", "opt", 24, 2048, 8192, 32, 32, 64, 50272, 2048, 0, 1e-5, .tied = true},
    {"gpt-j-6b", "gptj", 28, 4096, 16384, 16, 16, 256, 50400, 2048, 10000, 1e-5, .tied = false},
    {"mixtral-8x7b", "mixtral", 32, 4096, 14336, 32, 8, 128, 32000, 32768, 1000000, 1e-5, .tied = false,
     .experts = 8, .top_k = 2},
    {"qwen3-30b-a3b", "qwen3_moe", 48, 2048, 768, 32, 4, 128, 151936, 40960, 1000000, 1e-6, .tied = false,
     .experts = 128, .top_k = 8},
    {"gpt-oss-20b", "gpt_oss", 24, 2880, 2880, 64, 8, 64, 201088, 131072, 150000, 1e-5, .tied = false,
     .experts = 32, .top_k = 4},
    {"gpt-oss-120b", "gpt_oss", 36, 2880, 2880, 64, 8, 64, 201088, 131072, 150000, 1e-5, .tied = false,
     .experts = 128, .top_k = 4},
    {"llama-4-scout", "llama4", 48, 5120, 8192, 40, 8, 128, 202048, 10485760, 500000, 1e-5, .tied = false,
     .llama3 = 16, .experts = 16, .top_k = 1},
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

/* ---- sizes ---- */

/* The sizes of a shape, and sizes that are computed from them. */
enum size {
    NONE,       /* 0 */
    L,          /* number of layers */
    E,          /* hidden size */
    I,          /* inner size of the MLP */
    H,          /* number of query heads */
    K,          /* number of KV heads */
    D,          /* head dimension */
    V,          /* vocabulary size */
    C,          /* context length */
    X,          /* number of experts */
    TOP,        /* number of experts of a token */
    Q,          /* H * D */
    KV,         /* K * D */
    QKV,        /* Q + 2 * KV */
    THREE_E,    /* 3 * E: q, k and v in one tensor */
    TWO_I,      /* 2 * I: gate and up in one tensor */
    BLOCKS_E,   /* E / 32: number of MXFP4 groups, each with 32 nibbles and a scale */
    BLOCKS_I,   /* I / 32: number of MXFP4 groups */
    BLOCK,      /* bytes of the nibbles of an MXFP4 group */
    C_PADDED,   /* C + 2: rows of OPT's position embedding, of which two are for padding */
    INPUT,      /* size of Gemma 4's per-layer input of one layer */
    ALL_INPUTS, /* size of Gemma 4's per-layer inputs of all layers */
    ONE,
    THETA, /* THETA and the next two sizes are fields of config.json only */
    EPS,
    TIED,
    N_SIZES
};

/* Gemma 4 E2B: every fifth layer and the last layer have full attention, with heads of GEMMA4_WIDE. The
 * layers from number GEMMA4_STORE on use the KV rows of earlier layers and have an MLP of twice the width. */
enum { GEMMA4_WIDE = 512, GEMMA4_INPUT = 256, GEMMA4_STORE = 15 };

static bool is_gemma4(const struct shape *s)
{
    return strcmp(s->family, "gemma4") == 0;
}

static bool gemma4_sees_all(size_t l, size_t layers)
{
    return l % 5 == 4 || l + 1 == layers;
}

/* Computes the sizes of layer number AT of a model with LAYERS layers. */
static void sizes_of(const struct shape *s, size_t at, size_t layers, size_t size[N_SIZES])
{
    size_t d = is_gemma4(s) && gemma4_sees_all(at, layers) ? GEMMA4_WIDE : s->head_dim;
    size_t inner = is_gemma4(s) && at >= GEMMA4_STORE ? 2 * s->inner : s->inner, q = s->heads * d,
           kv = s->kv * d;
    const size_t all[N_SIZES] = {[L] = layers,
                                 [E] = s->hidden,
                                 [I] = inner,
                                 [H] = s->heads,
                                 [K] = s->kv,
                                 [D] = d,
                                 [V] = s->vocab,
                                 [C] = s->context,
                                 [X] = s->experts,
                                 [TOP] = s->top_k,
                                 [Q] = q,
                                 [KV] = kv,
                                 [QKV] = q + 2 * kv,
                                 [THREE_E] = 3 * s->hidden,
                                 [TWO_I] = 2 * inner,
                                 [BLOCKS_E] = s->hidden / 32,
                                 [BLOCKS_I] = inner / 32,
                                 [BLOCK] = 16,
                                 [C_PADDED] = s->context + 2,
                                 [INPUT] = GEMMA4_INPUT,
                                 [ALL_INPUTS] = layers * GEMMA4_INPUT,
                                 [ONE] = 1};

    memcpy(size, all, sizeof(all));
}

/* ---- fields of config.json with sizes of the shape ---- */

struct field {
    const char *key; /* NULL ends an array */
    enum size size;
};

static const struct field usual[] = {{"num_hidden_layers", L},
                                     {"hidden_size", E},
                                     {"num_attention_heads", H},
                                     {"num_key_value_heads", K},
                                     {"head_dim", D},
                                     {"vocab_size", V},
                                     {"max_position_embeddings", C},
                                     {"rope_theta", THETA},
                                     {"rms_norm_eps", EPS},
                                     {"tie_word_embeddings", TIED},
                                     {0}};
static const struct field gpt[] = {{"n_layer", L},
                                   {"n_embd", E},
                                   {"n_head", H},
                                   {"vocab_size", V},
                                   {"n_positions", C},
                                   {"layer_norm_epsilon", EPS},
                                   {0}};
static const struct field opt[] = {{"num_hidden_layers", L},
                                   {"hidden_size", E},
                                   {"ffn_dim", I},
                                   {"num_attention_heads", H},
                                   {"vocab_size", V},
                                   {"max_position_embeddings", C},
                                   {"word_embed_proj_dim", E},
                                   {0}};
static const struct field dense[] = {{"intermediate_size", I}, {0}};
static const struct field gptj[] = {{"n_inner", I}, {"tie_word_embeddings", TIED}, {0}};
static const struct field mixture[] = {
    {"intermediate_size", I}, {"num_local_experts", X}, {"num_experts_per_tok", TOP}, {0}};
static const struct field qwen3_moe[] = {
    {"moe_intermediate_size", I}, {"num_experts", X}, {"num_experts_per_tok", TOP}, {0}};

/* ---- tensors ---- */

struct row {
    const char *name; /* NULL ends an array */
    enum size shape[4];
    enum shapes_fill fill;
    enum size bias; /* the size of a tensor NAME.bias of zeros beside NAME.weight; NONE: there is no bias */
};

static const struct row embedding[] = {{"model.embed_tokens.weight", .shape = {V, E}}, {0}};
static const struct row ends[] = {
    {"model.norm.weight", .shape = {E}, .fill = SYNTH_ONES}, {"lm_head.weight", .shape = {V, E}}, {0}};
static const struct row attention[] = {{"input_layernorm.weight", .shape = {E}, .fill = SYNTH_ONES},
                                       {"self_attn.q_proj.weight", .shape = {Q, E}},
                                       {"self_attn.k_proj.weight", .shape = {KV, E}},
                                       {"self_attn.v_proj.weight", .shape = {KV, E}},
                                       {"self_attn.o_proj.weight", .shape = {E, Q}},
                                       {"post_attention_layernorm.weight", .shape = {E}, .fill = SYNTH_ONES},
                                       {0}};
static const struct row mlp[] = {{"mlp.gate_proj.weight", .shape = {I, E}},
                                 {"mlp.up_proj.weight", .shape = {I, E}},
                                 {"mlp.down_proj.weight", .shape = {E, I}},
                                 {0}};
static const struct row qkv_biases[] = {{"self_attn.q_proj.bias", .shape = {Q}, .fill = SYNTH_ZEROS},
                                        {"self_attn.k_proj.bias", .shape = {KV}, .fill = SYNTH_ZEROS},
                                        {"self_attn.v_proj.bias", .shape = {KV}, .fill = SYNTH_ZEROS},
                                        {0}};
static const struct row head_norms[] = {{"self_attn.q_norm.weight", .shape = {D}, .fill = SYNTH_ONES},
                                        {"self_attn.k_norm.weight", .shape = {D}, .fill = SYNTH_ONES},
                                        {0}};

static const struct row phi3_layer[] = {{"input_layernorm.weight", .shape = {E}, .fill = SYNTH_ONES},
                                        {"self_attn.qkv_proj.weight", .shape = {QKV, E}},
                                        {"self_attn.o_proj.weight", .shape = {E, Q}},
                                        {"post_attention_layernorm.weight", .shape = {E}, .fill = SYNTH_ONES},
                                        {"mlp.gate_up_proj.weight", .shape = {TWO_I, E}},
                                        {"mlp.down_proj.weight", .shape = {E, I}},
                                        {0}};

/* Gemma's norms multiply by 1 + weight, so their weights are zeros instead of ones. */
static const struct row gemma3_layer[] = {
    {"input_layernorm.weight", .shape = {E}, .fill = SYNTH_ZEROS},
    {"self_attn.q_proj.weight", .shape = {Q, E}},
    {"self_attn.k_proj.weight", .shape = {KV, E}},
    {"self_attn.v_proj.weight", .shape = {KV, E}},
    {"self_attn.o_proj.weight", .shape = {E, Q}},
    {"self_attn.q_norm.weight", .shape = {D}, .fill = SYNTH_ZEROS},
    {"self_attn.k_norm.weight", .shape = {D}, .fill = SYNTH_ZEROS},
    {"post_attention_layernorm.weight", .shape = {E}, .fill = SYNTH_ZEROS},
    {"pre_feedforward_layernorm.weight", .shape = {E}, .fill = SYNTH_ZEROS},
    {"mlp.gate_proj.weight", .shape = {I, E}},
    {"mlp.up_proj.weight", .shape = {I, E}},
    {"mlp.down_proj.weight", .shape = {E, I}},
    {"post_feedforward_layernorm.weight", .shape = {E}, .fill = SYNTH_ZEROS},
    {0}};
static const struct row gemma3_last[] = {{"model.norm.weight", .shape = {E}, .fill = SYNTH_ZEROS}, {0}};

static const struct row gemma4_first[] = {
    {"model.embed_tokens.weight", .shape = {V, E}},
    {"model.embed_tokens_per_layer.weight", .shape = {V, ALL_INPUTS}},
    {"model.per_layer_model_projection.weight", .shape = {ALL_INPUTS, E}},
    {"model.per_layer_projection_norm.weight", .shape = {INPUT}, .fill = SYNTH_ONES},
    {"model.norm.weight", .shape = {E}, .fill = SYNTH_ONES},
    {0}};
static const struct row gemma4_layer[] = {
    {"input_layernorm.weight", .shape = {E}, .fill = SYNTH_ONES},
    {"self_attn.q_proj.weight", .shape = {Q, E}},
    {"self_attn.q_norm.weight", .shape = {D}, .fill = SYNTH_ONES},
    {"self_attn.o_proj.weight", .shape = {E, Q}},
    {"post_attention_layernorm.weight", .shape = {E}, .fill = SYNTH_ONES},
    {"pre_feedforward_layernorm.weight", .shape = {E}, .fill = SYNTH_ONES},
    {"mlp.gate_proj.weight", .shape = {I, E}},
    {"mlp.up_proj.weight", .shape = {I, E}},
    {"mlp.down_proj.weight", .shape = {E, I}},
    {"post_feedforward_layernorm.weight", .shape = {E}, .fill = SYNTH_ONES},
    {"per_layer_input_gate.weight", .shape = {INPUT, E}},
    {"per_layer_projection.weight", .shape = {E, INPUT}},
    {"post_per_layer_input_norm.weight", .shape = {E}, .fill = SYNTH_ONES},
    {"layer_scalar", .shape = {ONE}, .fill = SYNTH_ONES},
    {0}};
/* Additional tensors of the layers that compute KV rows of their own. */
static const struct row gemma4_rows[] = {{"self_attn.k_proj.weight", .shape = {KV, E}},
                                         {"self_attn.k_norm.weight", .shape = {D}, .fill = SYNTH_ONES},
                                         {"self_attn.v_proj.weight", .shape = {KV, E}},
                                         {0}};

static const struct row llama4_mlp[] = {{"feed_forward.router.weight", .shape = {X, E}},
                                        {"feed_forward.experts.gate_up_proj", .shape = {X, E, TWO_I}},
                                        {"feed_forward.experts.down_proj", .shape = {X, I, E}},
                                        {"feed_forward.shared_expert.gate_proj.weight", .shape = {I, E}},
                                        {"feed_forward.shared_expert.up_proj.weight", .shape = {I, E}},
                                        {"feed_forward.shared_expert.down_proj.weight", .shape = {E, I}},
                                        {0}};

static const struct row opt_first[] = {{"model.decoder.embed_tokens.weight", .shape = {V, E}},
                                       {"model.decoder.embed_positions.weight", .shape = {C_PADDED, E}},
                                       {0}};
static const struct row opt_layer[] = {
    {"self_attn_layer_norm.weight", .shape = {E}, .fill = SYNTH_ONES, .bias = E},
    {"self_attn.q_proj.weight", .shape = {E, E}, .bias = E},
    {"self_attn.k_proj.weight", .shape = {E, E}, .bias = E},
    {"self_attn.v_proj.weight", .shape = {E, E}, .bias = E},
    {"self_attn.out_proj.weight", .shape = {E, E}, .bias = E},
    {"final_layer_norm.weight", .shape = {E}, .fill = SYNTH_ONES, .bias = E},
    {"fc1.weight", .shape = {I, E}, .bias = I},
    {"fc2.weight", .shape = {E, I}, .bias = E},
    {0}};
static const struct row opt_last[] = {
    {"model.decoder.final_layer_norm.weight", .shape = {E}, .fill = SYNTH_ONES, .bias = E}, {0}};

static const struct row gpt2_first[] = {
    {"transformer.wte.weight", .shape = {V, E}}, {"transformer.wpe.weight", .shape = {C, E}}, {0}};
static const struct row gpt2_layer[] = {{"ln_1.weight", .shape = {E}, .fill = SYNTH_ONES, .bias = E},
                                        {"attn.c_attn.weight", .shape = {E, THREE_E}, .bias = THREE_E},
                                        {"attn.c_proj.weight", .shape = {E, E}, .bias = E},
                                        {"ln_2.weight", .shape = {E}, .fill = SYNTH_ONES, .bias = E},
                                        {"mlp.c_fc.weight", .shape = {E, I}, .bias = I},
                                        {"mlp.c_proj.weight", .shape = {I, E}, .bias = E},
                                        {0}};
static const struct row gptj_first[] = {{"transformer.wte.weight", .shape = {V, E}}, {0}};
static const struct row gptj_layer[] = {{"ln_1.weight", .shape = {E}, .fill = SYNTH_ONES, .bias = E},
                                        {"attn.q_proj.weight", .shape = {E, E}},
                                        {"attn.k_proj.weight", .shape = {E, E}},
                                        {"attn.v_proj.weight", .shape = {E, E}},
                                        {"attn.out_proj.weight", .shape = {E, E}},
                                        {"mlp.fc_in.weight", .shape = {I, E}, .bias = I},
                                        {"mlp.fc_out.weight", .shape = {E, I}, .bias = E},
                                        {0}};
/* The last tensors of GPT-2 and GPT-J. GPT-2 has a tied head, so give_rows() leaves lm_head out. */
static const struct row gpt_last[] = {
    {"transformer.ln_f.weight", .shape = {E}, .fill = SYNTH_ONES, .bias = E},
    {"lm_head.weight", .shape = {V, E}, .bias = V},
    {0}};

static const struct row mixtral_router[] = {{"block_sparse_moe.gate.weight", .shape = {X, E}}, {0}};
static const struct row mixtral_expert[] = {{"block_sparse_moe.experts.#.w1.weight", .shape = {I, E}},
                                            {"block_sparse_moe.experts.#.w3.weight", .shape = {I, E}},
                                            {"block_sparse_moe.experts.#.w2.weight", .shape = {E, I}},
                                            {0}};
static const struct row qwen3_moe_router[] = {{"mlp.gate.weight", .shape = {X, E}}, {0}};
static const struct row qwen3_moe_expert[] = {{"mlp.experts.#.gate_proj.weight", .shape = {I, E}},
                                              {"mlp.experts.#.up_proj.weight", .shape = {I, E}},
                                              {"mlp.experts.#.down_proj.weight", .shape = {E, I}},
                                              {0}};
static const struct row gpt_oss_layer[] = {
    {"self_attn.o_proj.bias", .shape = {E}, .fill = SYNTH_ZEROS},
    {"self_attn.sinks", .shape = {H}, .fill = SYNTH_ZEROS},
    {"mlp.router.weight", .shape = {X, E}, .bias = X},
    {"mlp.experts.gate_up_proj_blocks", .shape = {X, TWO_I, BLOCKS_E, BLOCK}, .fill = SYNTH_NIBBLES},
    {"mlp.experts.gate_up_proj_scales", .shape = {X, TWO_I, BLOCKS_E}, .fill = SYNTH_SCALES},
    {"mlp.experts.gate_up_proj_bias", .shape = {X, TWO_I}, .fill = SYNTH_ZEROS},
    {"mlp.experts.down_proj_blocks", .shape = {X, E, BLOCKS_I, BLOCK}, .fill = SYNTH_NIBBLES},
    {"mlp.experts.down_proj_scales", .shape = {X, E, BLOCKS_I}, .fill = SYNTH_SCALES},
    {"mlp.experts.down_proj_bias", .shape = {X, E}, .fill = SYNTH_ZEROS},
    {0}};

/* ---- fields of config.json that rows cannot express ---- */

static void complete_llama(json_t *c, const struct shape *s, size_t layers)
{
    (void)layers;
    if (s->llama3)
        json_object_set_new(c, "rope_scaling",
                            json_pack("{s:s,s:f,s:f,s:f,s:i}", "rope_type", "llama3", "factor", s->llama3,
                                      "low_freq_factor", 1.0, "high_freq_factor", 4.0,
                                      "original_max_position_embeddings", 8192));
}

static void complete_llama4(json_t *c, const struct shape *s, size_t layers)
{
    (void)layers;
    json_object_set_new(json_object_get(c, "rope_scaling"), "factor", json_real(s->llama3));
}

/* Adds Phi-4-mini's longrope factors of the 48 pairs of elements that RoPE rotates (three quarters of a
 * head). */
static void complete_phi3(json_t *c, const struct shape *s, size_t layers)
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

    (void)s;
    (void)layers;
    for (size_t i = 0; i < 48; i++) {
        json_array_append_new(longs, json_real(longer[i]));
        json_array_append_new(shorts, json_real(1));
    }
    json_object_set_new(
        c, "rope_scaling",
        json_pack("{s:s,s:o,s:o}", "type", "longrope", "long_factor", longs, "short_factor", shorts));
}

static void complete_gemma4(json_t *c, const struct shape *s, size_t layers)
{
    json_t *types = json_array();

    for (size_t l = 0; l < layers; l++)
        json_array_append_new(
            types, json_string(gemma4_sees_all(l, layers) ? "full_attention" : "sliding_attention"));
    json_object_set_new(c, "layer_types", types);
    json_object_set_new(c, "head_dim",
                        json_integer((json_int_t)s->head_dim)); /* head size of layers with a window */
    json_object_set_new(c, "global_head_dim", json_integer(GEMMA4_WIDE));
    json_object_set_new(c, "hidden_size_per_layer_input", json_integer(GEMMA4_INPUT));
    json_object_set_new(c, "vocab_size_per_layer_input", json_integer((json_int_t)s->vocab));
    json_object_set_new(c, "num_kv_shared_layers",
                        json_integer((json_int_t)(layers > GEMMA4_STORE ? layers - GEMMA4_STORE : 0)));
    /* Without rope_theta, RoPE has Gemma 4's defaults: theta 1e6 (full attention) and 1e4 (window). */
    json_object_del(c, "rope_theta");
}

/* ---- families ---- */

static const struct family {
    const char *name, *class_name, *model_type;
    const char *prefix;               /* names of a layer's tensors begin with PREFIX.NUMBER */
    const struct field *fields, *own; /* fields of config.json; `own` may be NULL */
    const char *same; /* JSON object of the fields that are equal in all shapes of the family */
    const struct row *first, *layer, *layer2, *layer3, *last;
    const struct row *expert; /* tensors of one expert; # in their names is replaced by its number */
    void (*complete)(json_t *config, const struct shape *s, size_t layers);
} families[] = {
    {"llama", "LlamaForCausalLM", "llama", "model.layers", usual, dense,
     "{\"hidden_act\":\"silu\",\"attention_bias\":false,\"mlp_bias\":false}", .first = embedding,
     .layer = attention, .layer2 = mlp, .last = ends, .complete = complete_llama},
    {"mistral", "MistralForCausalLM", "mistral", "model.layers", usual, dense,
     "{\"hidden_act\":\"silu\",\"sliding_window\":4096}", .first = embedding, .layer = attention,
     .layer2 = mlp, .last = ends},
    {"qwen2", "Qwen2ForCausalLM", "qwen2", "model.layers", usual, dense,
     "{\"hidden_act\":\"silu\",\"use_sliding_window\":false,\"sliding_window\":null}", .first = embedding,
     .layer = attention, .layer2 = mlp, .layer3 = qkv_biases, .last = ends},
    {"qwen3", "Qwen3ForCausalLM", "qwen3", "model.layers", usual, dense,
     "{\"hidden_act\":\"silu\",\"attention_bias\":false,\"use_sliding_window\":false,\"sliding_window\":null}",
     .first = embedding, .layer = attention, .layer2 = mlp, .layer3 = head_norms, .last = ends},
    {"phi3", "Phi3ForCausalLM", "phi3", "model.layers", usual, dense,
     "{\"hidden_act\":\"silu\",\"sliding_window\":262144,\"partial_rotary_factor\":0.75,"
     "\"original_max_position_embeddings\":4096}",
     .first = embedding, .layer = phi3_layer, .last = ends, .complete = complete_phi3},
    {"gemma3", "Gemma3ForCausalLM", "gemma3_text", "model.layers", usual, dense,
     "{\"hidden_activation\":\"gelu_pytorch_tanh\",\"query_pre_attn_scalar\":256,\"rope_local_base_freq\":10000.0,"
     "\"rope_scaling\":null,\"sliding_window\":512,\"sliding_window_pattern\":6,\"attention_bias\":false,"
     "\"attn_logit_softcapping\":null,\"final_logit_softcapping\":null}",
     .first = embedding, .layer = gemma3_layer, .last = gemma3_last},
    {"gemma4", "Gemma4ForCausalLM", "gemma4_text", "model.layers", usual, dense,
     "{\"hidden_activation\":\"gelu_pytorch_tanh\",\"sliding_window\":512,\"use_double_wide_mlp\":true,"
     "\"final_logit_softcapping\":30.0,\"attention_bias\":false,\"enable_moe_block\":false}",
     .first = gemma4_first, .layer = gemma4_layer, .layer2 = gemma4_rows, .complete = complete_gemma4},
    {"llama4", "Llama4ForCausalLM", "llama4_text", "model.layers", usual, mixture,
     "{\"hidden_act\":\"silu\",\"intermediate_size_mlp\":16384,\"interleave_moe_layer_step\":1,"
     "\"no_rope_layer_interval\":4,\"use_qk_norm\":true,\"attention_chunk_size\":8192,"
     "\"attn_temperature_tuning\":true,\"floor_scale\":8192,\"attn_scale\":0.1,\"attention_bias\":false,"
     "\"rope_scaling\":{\"rope_type\":\"llama3\",\"low_freq_factor\":1.0,\"high_freq_factor\":1.0,"
     "\"original_max_position_embeddings\":8192}}",
     .first = embedding, .layer = attention, .layer2 = llama4_mlp, .last = ends, .complete = complete_llama4},
    {"mixtral", "MixtralForCausalLM", "mixtral", "model.layers", usual, mixture,
     "{\"hidden_act\":\"silu\",\"sliding_window\":null}", .first = embedding, .layer = attention,
     .layer2 = mixtral_router, .expert = mixtral_expert, .last = ends},
    {"qwen3_moe", "Qwen3MoeForCausalLM", "qwen3_moe", "model.layers", usual, qwen3_moe,
     "{\"hidden_act\":\"silu\",\"norm_topk_prob\":true,\"sliding_window\":null}", .first = embedding,
     .layer = attention, .layer2 = head_norms, .layer3 = qwen3_moe_router, .expert = qwen3_moe_expert,
     .last = ends},
    {"gpt_oss", "GptOssForCausalLM", "gpt_oss", "model.layers", usual, mixture,
     "{\"hidden_act\":\"silu\",\"sliding_window\":128,\"swiglu_limit\":7.0,"
     "\"quantization_config\":{\"quant_method\":\"mxfp4\"},\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":32.0,"
     "\"beta_fast\":32.0,\"beta_slow\":1.0,\"truncate\":false,\"original_max_position_embeddings\":4096}}",
     .first = embedding, .layer = attention, .layer2 = qkv_biases, .layer3 = gpt_oss_layer, .last = ends},
    {"gpt2", "GPT2LMHeadModel", "gpt2", "transformer.h", gpt, NULL, "{\"activation_function\":\"gelu_new\"}",
     .first = gpt2_first, .layer = gpt2_layer, .last = gpt_last},
    {"gptj", "GPTJForCausalLM", "gptj", "transformer.h", gpt, gptj,
     "{\"rotary_dim\":64,\"activation_function\":\"gelu_new\"}", .first = gptj_first, .layer = gptj_layer,
     .last = gpt_last},
    {"opt", "OPTForCausalLM", "opt", "model.decoder.layers", opt, NULL,
     "{\"do_layer_norm_before\":true,\"activation_function\":\"relu\"}", .first = opt_first,
     .layer = opt_layer, .last = opt_last},
};

static const struct family *family_of(const struct shape *s)
{
    const struct family *f = families;

    while (strcmp(f->name, s->family) != 0)
        f++;
    return f;
}

static json_t *field_value(const struct shape *s, enum size size, const size_t *sizes)
{
    switch (size) {
    case THETA: return json_real(s->theta);
    case EPS: return json_real(s->eps);
    case TIED: return json_boolean(s->tied);
    default: return json_integer((json_int_t)sizes[size]);
    }
}

static bool add_fields(json_t *c, const struct shape *s, const struct field *fields, const size_t *sizes)
{
    bool good = true;

    for (const struct field *f = fields; f->key && good; f++)
        good = json_object_set_new(c, f->key, field_value(s, f->size, sizes)) == 0;
    return good;
}

json_t *shapes_config(const struct shape *s, size_t layers, const char *dtype)
{
    const struct family *f = family_of(s);
    json_t *c = json_pack("{s:[s],s:s}", "architectures", f->class_name, "model_type", f->model_type), *same;
    size_t sizes[N_SIZES];
    bool good = json_pull_load(&same, f->same, strlen(f->same), "", NULL) == 0 && c;

    sizes_of(s, 0, layers, sizes);
    good = good && add_fields(c, s, f->fields, sizes) && (!f->own || add_fields(c, s, f->own, sizes)) &&
           json_object_update(c, same) == 0;
    json_decref(same);
    if (!good) {
        json_decref(c);
        return NULL;
    }
    if (f->complete)
        f->complete(c, s, layers);
    json_object_set_new(c, "torch_dtype", json_string(dtype));
    json_object_set_new(c, "bos_token_id", json_integer(256));
    json_object_set_new(c, "eos_token_id", json_integer(257));
    return c;
}

/* The state of a walk through the tensors of a shape. */
struct walk {
    const struct shape *s;
    size_t sizes[N_SIZES];
    shapes_fn *fn;
    void *ctx;
};

/* Writes PREFIX and NAME to out[size], with # in NAME replaced by NUMBER. */
static void name_tensor(char *out, size_t size, const char *prefix, const char *name, size_t number)
{
    int n = (int)strcspn(name, "#");

    if (name[n])
        snprintf(out, size, "%s%.*s%zu%s", prefix, n, name, number, name + n + 1);
    else
        snprintf(out, size, "%s%s", prefix, name);
}

/* Calls the walk's function for the tensors of ROWS, with PREFIX before their names. NUMBER is the number of
 * the expert. A tied language model head is left out. */
static int give_rows(const struct walk *w, const char *prefix, const struct row *rows, size_t number)
{
    char name[192];
    int rc = 0;

    for (const struct row *r = rows; r && r->name && rc == 0; r++) {
        struct shapes_tensor t = {.name = name, .fill = r->fill},
                             bias = {name, {w->sizes[r->bias]}, SYNTH_ZEROS};

        if (w->s->tied && strncmp(r->name, "lm_head", 7) == 0)
            continue;
        name_tensor(name, sizeof(name), prefix, r->name, number);
        for (int d = 0; d < 4; d++)
            t.shape[d] = w->sizes[r->shape[d]];
        rc = w->fn(w->ctx, &t);
        if (rc == 0 && r->bias) {
            strcpy(strrchr(name, '.'), ".bias");
            rc = w->fn(w->ctx, &bias);
        }
    }
    return rc;
}

static int give_layer(struct walk *w, const struct family *f, size_t l, size_t layers)
{
    char prefix[64];
    int rc;

    sizes_of(w->s, l, layers, w->sizes);
    snprintf(prefix, sizeof(prefix), "%s.%zu.", f->prefix, l);
    if ((rc = give_rows(w, prefix, f->layer, 0)) == 0 && (f->layer2 != gemma4_rows || l < GEMMA4_STORE))
        rc = give_rows(w, prefix, f->layer2, 0);
    rc = rc ? rc : give_rows(w, prefix, f->layer3, 0);
    for (size_t x = 0; f->expert && x < w->s->experts && rc == 0; x++)
        rc = give_rows(w, prefix, f->expert, x);
    return rc;
}

int shapes_tensors(const struct shape *s, size_t layers, shapes_fn *fn, void *ctx)
{
    const struct family *f = family_of(s);
    struct walk w = {.s = s, .fn = fn, .ctx = ctx};
    int rc;

    sizes_of(s, 0, layers, w.sizes);
    rc = give_rows(&w, "", f->first, 0);
    for (size_t l = 0; l < layers && rc == 0; l++)
        rc = give_layer(&w, f, l, layers);
    return rc ? rc : give_rows(&w, "", f->last, 0);
}
