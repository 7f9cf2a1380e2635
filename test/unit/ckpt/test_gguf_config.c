/* test_gguf_config.c - how metadata of a GGUF file become a config.json, and tensors get Hugging Face's
 * names; unknown parts are refused. golden/test_gguf.c checks the numbers, and this file checks the rules. */
#include "ckpthelp.h"

#include <jansson.h>
#include <math.h>

#include "base/buf.h"
#include "base/mem.h"
#include "ckpt/gguf/gguf.h"
#include "ckpt/gguf/set.h"
#include "ggufwrite.h"

enum { HIDDEN = 16, HEADS = 2, HALF = 4 };

/* Writes the keys that every architecture has, with N layers. */
static void put_layers(struct ggufwrite *w, const char *arch, uint32_t n)
{
    const struct {
        const char *key;
        uint32_t v;
    } keys[] = {{"block_count", n},
                {"context_length", 4096},
                {"embedding_length", HIDDEN},
                {"feed_forward_length", 32},
                {"attention.head_count", HEADS}};
    char key[80];

    ggufwrite_init(w);
    ggufwrite_str(w, "general.architecture", arch);
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        snprintf(key, sizeof(key), "%s.%s", arch, keys[i].key);
        ggufwrite_u32(w, key, keys[i].v);
    }
    ggufwrite_f32_tensor(w, "token_embd.weight", (const size_t[]){5, HIDDEN, 0}, NULL);
}

static void put_common(struct ggufwrite *w, const char *arch)
{
    put_layers(w, arch, 1);
}

struct opened {
    struct gguf_set s;
    struct buf b;
};

/* Opens the file of W and frees W. */
static void open_file(struct opened *o, struct ggufwrite *w)
{
    struct err e;

    buf_init(&o->b, MEM_CKPT);
    ggufwrite_finish(w, &o->b);
    ggufwrite_fini(w);
    if (gguf_set_open_bytes(&o->s, o->b.data, o->b.len, "m.gguf", &e) != 0)
        fail_msg("%s", e.msg);
}

static void close_file(struct opened *o)
{
    gguf_set_close(&o->s);
    buf_fini(&o->b);
}

/* Parses a text, which must be JSON without duplicate keys. */
static json_t *parse(const struct buf *text)
{
    json_t *o = json_loadb(text->data, text->len, JSON_REJECT_DUPLICATES, NULL);

    if (!o)
        fail_msg("no JSON: %s", text->data);
    return o;
}

/* Returns the config of W, and frees W. NULL: it was refused with *e. */
static json_t *config_of(struct ggufwrite *w, struct err *e)
{
    const struct gguf_arch *a;
    struct opened o;
    struct buf text;
    json_t *c = NULL;

    open_file(&o, w);
    buf_init(&text, MEM_CKPT);
    e->msg[0] = 0;
    if ((e->code = gguf_arch_of(&a, &o.s, e)) == 0 && (e->code = gguf_config(&text, &o.s, a, e)) == 0)
        c = parse(&text);
    buf_fini(&text);
    close_file(&o);
    return c;
}

static void config_refused(struct ggufwrite *w, int code, const char *word, const char *other)
{
    struct err e;
    json_t *c = config_of(w, &e);

    assert_null(c);
    help_refused(e.code, code, &e, "m.gguf", word, other, NULL);
}

static double number(const json_t *c, const char *key)
{
    const json_t *v = json_object_get(c, key);

    if (!json_is_number(v))
        fail_msg("%s is no number", key);
    return json_number_value(v);
}

static json_t *good(struct ggufwrite *w)
{
    struct err e;
    json_t *c = config_of(w, &e);

    if (!c)
        fail_msg("%s", e.msg);
    return c;
}

static void llama_keys_become_those_of_a_config(void **state)
{
    struct ggufwrite w;
    json_t *c;

    put_common(&w, "llama");
    ggufwrite_u32(&w, "llama.attention.head_count_kv", 1);
    ggufwrite_f32(&w, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    ggufwrite_f32(&w, "llama.rope.freq_base", 5e5f);
    ggufwrite_u32(&w, "llama.rope.dimension_count", 8);
    ggufwrite_u32(&w, "llama.vocab_size", 5);
    c = good(&w);
    assert_string_equal(json_string_value(json_array_get(json_object_get(c, "architectures"), 0)),
                        "LlamaForCausalLM");
    assert_true(number(c, "hidden_size") == HIDDEN && number(c, "num_attention_heads") == HEADS);
    assert_true(number(c, "num_key_value_heads") == 1 && number(c, "head_dim") == 8);
    assert_true(number(c, "vocab_size") == 5 && number(c, "max_position_embeddings") == 4096);
    assert_true(number(c, "rms_norm_eps") == (double)1e-5f && number(c, "rope_theta") == 5e5);
    assert_true(json_is_true(json_object_get(c, "tie_word_embeddings")));
    assert_true(json_is_false(json_object_get(c, "attention_bias")));
    assert_null(json_object_get(c, "rope_scaling"));
    json_decref(c);
}

static void an_output_matrix_unties_the_head(void **state)
{
    struct ggufwrite w;
    json_t *c;

    put_common(&w, "qwen2");
    ggufwrite_f32_tensor(&w, "output.weight", (const size_t[]){5, HIDDEN, 0}, NULL);
    c = good(&w);
    assert_true(json_is_false(json_object_get(c, "tie_word_embeddings")));
    json_decref(c);
}

/* Returns the factor by which llama3 divides frequency I of 2 HALF dims, computed from its definition. */
static float llama3(int i, double factor, double low, double high, double original)
{
    double length = 2 * M_PI * pow(10000, i / (double)HALF),
           smooth = (original / length - low) / (high - low);

    return (float)(length < original / high  ? 1
                   : length > original / low ? factor
                                             : 1 / ((1 - smooth) / factor + smooth));
}

static void put_factors(struct ggufwrite *w, double factor, double low, double high, double original)
{
    float f[HALF];

    put_common(w, "llama");
    for (int i = 0; i < HALF; i++)
        f[i] = llama3(i, factor, low, high, original);
    ggufwrite_f32_tensor(w, "rope_freqs.weight", (const size_t[]){HALF, 0}, f);
}

static void the_usual_llama3_factors_are_recognised(void **state)
{
    struct ggufwrite w;
    json_t *c, *r;

    put_factors(&w, 8, 1, 4, 1024);
    c = good(&w);
    r = json_object_get(c, "rope_scaling");
    assert_string_equal(json_string_value(json_object_get(r, "rope_type")), "llama3");
    assert_true(number(r, "factor") == 8 && number(r, "original_max_position_embeddings") == 1024);
    assert_true(number(r, "low_freq_factor") == 1 && number(r, "high_freq_factor") == 4);
    json_decref(c);
}

static void other_factors_are_kept_as_a_list(void **state)
{
    struct ggufwrite w;
    json_t *c, *r;

    put_factors(&w, 8, 2, 5, 2000);
    c = good(&w);
    r = json_object_get(c, "rope_scaling");
    assert_string_equal(json_string_value(json_object_get(r, "rope_type")), "longrope");
    assert_true(number(r, "attention_factor") == 1);
    assert_true(json_equal(json_object_get(r, "short_factor"), json_object_get(r, "long_factor")));
    assert_true((float)json_number_value(json_array_get(json_object_get(r, "long_factor"), 2)) ==
                llama3(2, 8, 2, 5, 2000));
    json_decref(c);
}

static void rope_scalings_carry_over(void **state)
{
    struct ggufwrite w;
    json_t *c, *r;

    put_common(&w, "qwen2");
    ggufwrite_str(&w, "qwen2.rope.scaling.type", "yarn");
    ggufwrite_f32(&w, "qwen2.rope.scaling.factor", 4);
    ggufwrite_u32(&w, "qwen2.rope.scaling.original_context_length", 1024);
    c = good(&w);
    r = json_object_get(c, "rope_scaling");
    assert_string_equal(json_string_value(json_object_get(r, "rope_type")), "yarn");
    assert_true(number(r, "factor") == 4 && number(r, "original_max_position_embeddings") == 1024);
    assert_null(json_object_get(r, "truncate"));
    assert_null(json_object_get(r, "attention_factor"));
    json_decref(c);
    put_common(&w, "qwen2"); /* The number in the file multiplies the number that follows from the length. */
    ggufwrite_str(&w, "qwen2.rope.scaling.type", "yarn");
    ggufwrite_f32(&w, "qwen2.rope.scaling.factor", 4);
    ggufwrite_f32(&w, "qwen2.rope.scaling.attn_factor", 0.5F);
    c = good(&w);
    assert_float_equal(number(json_object_get(c, "rope_scaling"), "attention_factor"),
                       0.5 * (0.1 * log(4) + 1), 1e-6);
    json_decref(c);
    put_common(&w, "llama");
    ggufwrite_str(&w, "llama.rope.scaling.type", "linear");
    ggufwrite_f32(&w, "llama.rope.scaling.factor", 2);
    c = good(&w);
    assert_true(number(json_object_get(c, "rope_scaling"), "factor") == 2);
    json_decref(c);
    put_common(&w, "llama");
    ggufwrite_str(&w, "llama.rope.scaling.type", "spiral");
    config_refused(&w, ERR_UNSUPPORTED, "llama.rope.scaling.type", "spiral");
    put_common(&w, "llama");
    ggufwrite_u32(&w, "llama.rope.dimension_count", 4);
    config_refused(&w, ERR_UNSUPPORTED, "llama.rope.dimension_count", "4, expected 8");
    put_common(&w, "llama");
    ggufwrite_f32_tensor(&w, "rope_freqs.weight", (const size_t[]){3, 0}, NULL);
    config_refused(&w, ERR_INPUT, "rope_freqs.weight", "[3]");
    put_common(&w, "phi3");
    ggufwrite_f32_tensor(&w, "rope_factors_long.weight", (const size_t[]){HALF, 0}, NULL);
    config_refused(&w, ERR_INPUT, "rope_factors_long.weight", "above 0");
}

/* Phi-3 has two lists, and a factor that may also be smaller than 1. */
static void longrope_has_another_factor_or_length(void **state)
{
    static const float small[HALF] = {1, 1.25F, 1.5F, 2}, large[HALF] = {1, 4, 8, 16};

    for (int given = 0; given < 2; given++) {
        struct ggufwrite w;
        json_t *c, *r;

        put_common(&w, "phi3");
        ggufwrite_u32(&w, "phi3.rope.scaling.original_context_length", 1000);
        if (given)
            ggufwrite_f32(&w, "phi3.rope.scaling.attn_factor", 0.5F);
        ggufwrite_f32_tensor(&w, "rope_factors_short.weight", (const size_t[]){HALF, 0}, small);
        ggufwrite_f32_tensor(&w, "rope_factors_long.weight", (const size_t[]){HALF, 0}, large);
        c = good(&w);
        r = json_object_get(c, "rope_scaling");
        assert_string_equal(json_string_value(json_object_get(r, "rope_type")), "longrope");
        assert_true(number(c, "original_max_position_embeddings") == 1000);
        assert_int_equal(json_object_get(r, "attention_factor") != NULL, given);
        assert_true(!given || number(r, "attention_factor") == 0.5);
        for (size_t i = 0; i < HALF; i++) {
            assert_true(json_number_value(json_array_get(json_object_get(r, "short_factor"), i)) ==
                        (double)small[i]);
            assert_true(json_number_value(json_array_get(json_object_get(r, "long_factor"), i)) ==
                        (double)large[i]);
        }
        json_decref(c);
    }
}

static void yarn_has_other_borders(void **state)
{
    for (int given = 0; given < 2; given++) {
        struct ggufwrite w;
        json_t *c, *r;

        put_common(&w, "qwen2");
        ggufwrite_str(&w, "qwen2.rope.scaling.type", "yarn");
        ggufwrite_f32(&w, "qwen2.rope.scaling.factor", 4);
        if (given) {
            ggufwrite_f32(&w, "qwen2.rope.scaling.yarn_beta_fast", 16);
            ggufwrite_f32(&w, "qwen2.rope.scaling.yarn_beta_slow", 2);
        }
        c = good(&w);
        r = json_object_get(c, "rope_scaling");
        assert_true(number(r, "beta_fast") == (given ? 16 : 32));
        assert_true(number(r, "beta_slow") == (given ? 2 : 1));
        assert_true(number(r, "original_max_position_embeddings") == 4096); /* the context length */
        json_decref(c);
    }
}

/* Gemma 3 scales queries by the head size. Its 27B model (62 layers) scales them by the hidden size divided
 * by the number of heads. */
static void gemmas_queries_windows_or_frequencies_are_others(void **state)
{
    static const uint32_t layers[] = {1, 48, 62};

    for (size_t i = 0; i < 3; i++) {
        struct ggufwrite w;
        json_t *c;

        put_layers(&w, "gemma3", layers[i]);
        ggufwrite_u32(&w, "gemma3.attention.key_length", 4);
        ggufwrite_u32(&w, "gemma3.attention.value_length", 4);
        ggufwrite_u32(&w, "gemma3.attention.sliding_window", 512);
        if (i) {
            ggufwrite_u32(&w, "gemma3.attention.sliding_window_pattern", 3);
            ggufwrite_f32(&w, "gemma3.rope.freq_base_swa", 5000);
        }
        c = good(&w);
        assert_true(number(c, "query_pre_attn_scalar") == (layers[i] == 62 ? HIDDEN / HEADS : 4));
        assert_true(number(c, "sliding_window") == 512);
        assert_true(number(c, "sliding_window_pattern") == (i ? 3 : 6));
        assert_true(number(c, "rope_local_base_freq") == (i ? 5000 : 10000));
        json_decref(c);
    }
}

static void part_of_a_head_turns_in_phi3(void **state)
{
    struct ggufwrite w;
    json_t *c;

    put_common(&w, "phi3");
    ggufwrite_u32(&w, "phi3.attention.key_length", 10);
    ggufwrite_u32(&w, "phi3.attention.value_length", 10);
    ggufwrite_u32(&w, "phi3.rope.dimension_count", 6);
    c = good(&w);
    assert_int_equal((int)(10 * number(c, "partial_rotary_factor")), 6);
    json_decref(c);
}

static void what_is_missing_or_unknown_is_named(void **state)
{
    struct ggufwrite w;

    put_common(&w, "mamba");
    config_refused(&w, ERR_UNSUPPORTED, "general.architecture", "mamba");
    ggufwrite_init(&w);
    config_refused(&w, ERR_INPUT, "general.architecture", "missing");
    ggufwrite_init(&w);
    ggufwrite_str(&w, "general.architecture", "llama");
    config_refused(&w, ERR_INPUT, "llama.block_count", "missing");
    put_common(&w, "llama");
    ggufwrite_f32(&w, "llama.attention.scale", 0.5f);
    config_refused(&w, ERR_UNSUPPORTED, "llama.attention.scale", "may change");
    put_common(&w, "llama");
    ggufwrite_str(&w, "general.type", "adapter");
    config_refused(&w, ERR_UNSUPPORTED, "general.type", "adapter");
    put_common(&w, "qwen2");
    ggufwrite_u32(&w, "qwen2.expert_count", 4);
    config_refused(&w, ERR_UNSUPPORTED, "qwen2.expert_count", "4");
    put_common(&w, "gemma3");
    config_refused(&w, ERR_INPUT, "gemma3.attention.sliding_window", "missing");
    put_common(&w, "llama");
    ggufwrite_u32(&w, "llama.attention.value_length", 4);
    config_refused(&w, ERR_UNSUPPORTED, "value_length is 4", "expected 8");
}

static void neutral_keys_pass(void **state)
{
    struct ggufwrite w;
    json_t *c;

    put_common(&w, "llama");
    ggufwrite_f32(&w, "llama.expert_weights_scale", 0);
    ggufwrite_f32(&w, "llama.logit_scale", 1);
    ggufwrite_bool(&w, "llama.attention.causal", 1);
    ggufwrite_str(&w, "llama.tensor_data_layout", "Meta AI original pth");
    json_decref(good(&w));
    put_common(&w, "llama");
    ggufwrite_bool(&w, "llama.attention.causal", 0);
    c = good(&w);
    assert_true(json_is_false(json_object_get(c, "is_causal")));
    json_decref(c);
    put_common(&w, "phi3");
    ggufwrite_bool(&w, "phi3.attention.causal", 0);
    config_refused(&w, ERR_UNSUPPORTED, "phi3.attention.causal", "may change");
}

/* ---- names ---- */

static const struct view *named(const struct opened *o, const char *name)
{
    const struct view *v = tensor_file_get(&o->s.file[0], name, strlen(name));

    if (!v)
        fail_msg("there is no %s", name);
    return v;
}

static int fill(struct opened *o, struct ggufwrite *w, struct err *e)
{
    const struct gguf_arch *a;
    int rc;

    open_file(o, w);
    rc = gguf_arch_of(&a, &o->s, e);
    return rc ? rc : gguf_names_fill(&o->s, a, e);
}

static void must_fill(struct opened *o, struct ggufwrite *w)
{
    struct err e;

    if (fill(o, w, &e) != 0)
        fail_msg("%s", e.msg);
}

static void rows_of_llamas_q_and_k_go_back_to_halves(void **state)
{
    struct ggufwrite w;
    struct opened o;
    float row[HIDDEN];

    put_common(&w, "llama");
    ggufwrite_f32_tensor(&w, "blk.0.attn_q.weight", (const size_t[]){16, HIDDEN, 0}, NULL);
    ggufwrite_f32_tensor(&w, "blk.0.attn_k.bias", (const size_t[]){16, 0}, NULL);
    ggufwrite_f32_tensor(&w, "blk.0.attn_v.weight", (const size_t[]){16, HIDDEN, 0}, NULL);
    ggufwrite_f32_tensor(&w, "blk.0.strange.weight", (const size_t[]){1, 0}, NULL);
    must_fill(&o, &w);
    view_row_f32(named(&o, "model.layers.0.self_attn.q_proj.weight"), 9, row);
    assert_true(row[0] == 0.01f * (10 * HIDDEN)); /* Row 1 of head 1 is the second of its even rows. */
    view_row_f32(named(&o, "model.layers.0.self_attn.k_proj.bias"), 0, row);
    assert_true(row[1] == 0.01f * 2 && row[4] == 0.01f * 1);
    view_row_f32(named(&o, "model.layers.0.self_attn.v_proj.weight"), 9, row);
    assert_true(row[0] == 0.01f * (9 * HIDDEN));
    named(&o, "blk.0.strange.weight"); /* An unknown tensor keeps its name. */
    close_file(&o);
}

static void qwens_rows_stay_where_they_are(void **state)
{
    struct ggufwrite w;
    struct opened o;
    float row[HIDDEN];

    put_common(&w, "qwen2");
    ggufwrite_f32_tensor(&w, "blk.0.attn_q.weight", (const size_t[]){16, HIDDEN, 0}, NULL);
    must_fill(&o, &w);
    view_row_f32(named(&o, "model.layers.0.self_attn.q_proj.weight"), 1, row);
    assert_true(row[0] == 0.01f * HIDDEN);
    close_file(&o);
}

static void gpt2_turns_matrices_and_gemma_lessens_norms(void **state)
{
    static const float norm[HIDDEN] = {1.5f, 1, 0.25f};
    const struct view *v;
    struct ggufwrite w;
    struct opened o;
    float row[3 * HIDDEN];

    put_common(&w, "gpt2");
    ggufwrite_f32_tensor(&w, "blk.0.attn_qkv.weight", (const size_t[]){48, HIDDEN, 0}, NULL);
    ggufwrite_f32_tensor(&w, "blk.0.attn_qkv.bias", (const size_t[]){48, 0}, NULL);
    must_fill(&o, &w);
    v = named(&o, "transformer.h.0.attn.c_attn.weight");
    assert_true(v->shape[0] == HIDDEN && v->shape[1] == 48);
    view_row_f32(v, 1, row);
    assert_true(row[2] == 0.01f * (2 * HIDDEN + 1));
    assert_int_equal(named(&o, "transformer.h.0.attn.c_attn.bias")->n_dims, 1);
    close_file(&o);
    put_common(&w, "gemma3");
    ggufwrite_f32_tensor(&w, "blk.0.ffn_norm.weight", (const size_t[]){HIDDEN, 0}, norm);
    must_fill(&o, &w);
    view_row_f32(named(&o, "model.layers.0.pre_feedforward_layernorm.weight"), 0, row);
    assert_true(row[0] == 0.5f && row[1] == 0 && row[2] == -0.75f);
    close_file(&o);
}

static void put_experts(struct ggufwrite *w, const char *arch)
{
    char key[80];

    put_common(w, arch);
    snprintf(key, sizeof(key), "%s.expert_count", arch);
    ggufwrite_u32(w, key, 3);
}

static void stacked_experts_become_one_tensor_each(void **state)
{
    const struct view *v;
    struct ggufwrite w;
    struct opened o;
    float row[4];

    put_experts(&w, "llama");
    ggufwrite_f32_tensor(&w, "blk.0.ffn_up_exps.weight", (const size_t[]){3, 2, 4, 0}, NULL);
    must_fill(&o, &w);
    v = named(&o, "model.layers.0.block_sparse_moe.experts.2.w3.weight");
    assert_true(v->n_dims == 2 && v->shape[0] == 2 && v->shape[1] == 4);
    view_row_f32(v, 1, row);
    assert_true(row[3] == 0.01f * 23);
    close_file(&o);
    put_experts(&w, "gpt-oss");
    ggufwrite_f32_tensor(&w, "blk.0.ffn_gate_exps.bias", (const size_t[]){3, 4, 0}, NULL);
    ggufwrite_f32_tensor(&w, "blk.0.attn_sinks.weight", (const size_t[]){2, 0}, NULL);
    must_fill(&o, &w);
    view_row_f32(named(&o, "model.layers.0.mlp.experts.1.gate_proj.bias"), 0, row);
    assert_true(row[0] == 0.01f * 4);
    named(&o, "model.layers.0.self_attn.sinks");
    close_file(&o);
}

static void layouts_that_cannot_be_are_refused(void **state)
{
    struct ggufwrite w;
    struct opened o;
    struct err e;

    put_common(&w, "llama");
    ggufwrite_f32_tensor(&w, "blk.0.attn_q.weight", (const size_t[]){6, HIDDEN, 0}, NULL);
    help_refused(fill(&o, &w, &e), ERR_INPUT, &e, "m.gguf", "attn_q.weight", "[6, 16]", NULL);
    close_file(&o);
    put_experts(&w, "llama");
    ggufwrite_f32_tensor(&w, "blk.0.ffn_up_exps.weight", (const size_t[]){4, 2, 4, 0}, NULL);
    help_refused(fill(&o, &w, &e), ERR_INPUT, &e, "ffn_up_exps.weight", "[4, 2, 4]", "expert_count", NULL);
    close_file(&o);
    put_common(&w, "gemma3");
    ggufwrite_f32_tensor(&w, "output_norm.weight", (const size_t[]){2, 8, 0}, NULL);
    help_refused(fill(&o, &w, &e), ERR_INPUT, &e, "output_norm.weight", "one dimension", NULL);
    close_file(&o);
}

/* ---- generation and templates ---- */

static void put_tokens(struct ggufwrite *w)
{
    static const char *const tokens[] = {"a", "b", "<s>", "<|im_end|>", "</s>", "<|eot_id|>"};
    static const int32_t types[] = {1, 1, 3, 3, 1, 3};

    put_common(w, "llama");
    ggufwrite_str(w, "tokenizer.ggml.model", "gpt2");
    ggufwrite_str(w, "tokenizer.ggml.pre", "gpt-2");
    ggufwrite_strs(w, "tokenizer.ggml.tokens", tokens, 6);
    ggufwrite_i32s(w, "tokenizer.ggml.token_type", types, 6);
    ggufwrite_u32(w, "tokenizer.ggml.bos_token_id", 2);
    ggufwrite_u32(w, "tokenizer.ggml.eos_token_id", 3);
}

static void every_special_token_that_ends_a_turn_ends_generation(void **state)
{
    struct ggufwrite w;
    struct opened o;
    struct buf text = {.tag = MEM_CKPT};
    struct err e;
    json_t *g, *eos;

    put_tokens(&w);
    ggufwrite_f32(&w, "general.sampling.temp", 0.5f);
    ggufwrite_u32(&w, "general.sampling.top_k", 20);
    open_file(&o, &w);
    assert_int_equal(gguf_generation(&text, &o.s, &e), 0);
    g = parse(&text);
    eos = json_object_get(g, "eos_token_id");
    assert_int_equal(json_array_size(eos), 2); /* </s> is an ordinary token in this model. */
    assert_int_equal(json_integer_value(json_array_get(eos, 0)), 3);
    assert_int_equal(json_integer_value(json_array_get(eos, 1)), 5);
    assert_true(number(g, "bos_token_id") == 2 && number(g, "temperature") == 0.5 &&
                number(g, "top_k") == 20);
    assert_true(json_is_true(json_object_get(g, "do_sample")));
    json_decref(g);
    buf_fini(&text);
    close_file(&o);
}

/* Returns the generation config of a file with the sampling defaults KEY [n], whose values are V. */
static json_t *generation_of(const char *const *key, const float *v, size_t n)
{
    struct buf text = {.tag = MEM_CKPT};
    struct ggufwrite w;
    struct opened o;
    struct err e;
    json_t *g;

    put_tokens(&w);
    for (size_t i = 0; i < n; i++) {
        char name[64];

        snprintf(name, sizeof(name), "general.sampling.%s", key[i]);
        if (strcmp(key[i], "sequence") == 0)
            ggufwrite_str(&w, name, "top_k;temperature");
        else
            ggufwrite_f32(&w, name, v[i]);
    }
    open_file(&o, &w);
    help_listen();
    assert_int_equal(gguf_generation(&text, &o.s, &e), 0);
    g = parse(&text);
    buf_fini(&text);
    close_file(&o);
    return g;
}

static void sampling_defaults_of_llama_cpp_become_a_generation_config(void **state)
{
    static const char *const keys[] = {"top_k",           "top_p",         "min_p",
                                       "xtc_probability", "xtc_threshold", "penalty_repeat"},
                             *const fields[] = {"top_k",           "top_p",         "min_p",
                                                "xtc_probability", "xtc_threshold", "repetition_penalty"};
    static const float v[] = {20, 0.5f, 0.25f, 0.75f, 0.125f, 1.5f}, neutral[] = {0, 1, 0, 0, 0.125f, 1.5f};
    static const char *const hot[] = {"temp"}, *const off[] = {"penalty_repeat", "penalty_last_n"};
    json_t *g = generation_of(keys, v, 6);

    for (size_t i = 0; i < 6; i++)
        assert_true(number(g, fields[i]) == v[i]);
    assert_string_equal(help_said(), "");
    json_decref(g);
    /* Without a temperature, a value that has an effect on drawing asks for drawing. */
    for (size_t i = 0; i < 6; i++) {
        g = generation_of(&keys[i], &v[i], 1);
        assert_int_equal(json_is_true(json_object_get(g, "do_sample")), i < 4);
        json_decref(g);
        g = generation_of(&keys[i], &neutral[i], 1);
        assert_null(json_object_get(g, "do_sample"));
        json_decref(g);
    }
    g = generation_of(hot, (const float[]){0}, 1);
    assert_true(json_is_false(json_object_get(g, "do_sample")));
    json_decref(g);
    g = generation_of((const char *const[]){"temp", "top_k"}, (const float[]){0, 20}, 2);
    assert_true(json_is_false(json_object_get(g, "do_sample")));
    json_decref(g);
    g = generation_of(off, (const float[]){1.5f, 0}, 2); /* no last token is penalized */
    assert_null(json_object_get(g, "repetition_penalty"));
    json_decref(g);
    g = generation_of(off, (const float[]){1.5f, -1}, 2);
    assert_true(number(g, "repetition_penalty") == 1.5);
    assert_string_equal(help_said(), "");
    json_decref(g);
}

static void sampling_defaults_without_an_effect_are_named(void **state)
{
    static const char *const keys[] = {"mirostat", "sequence", "penalty_last_n"};
    static const float v[] = {2, 0, 64}, off[] = {0, 0, -1};

    for (size_t i = 0; i < 3; i++) {
        char key[64];
        const char *said;

        json_decref(generation_of(&keys[i], &v[i], 1));
        said = help_said();
        snprintf(key, sizeof(key), ": general.sampling.%s is ignored", keys[i]);
        assert_non_null(strstr(said, key));
        assert_ptr_equal(strchr(said, '\n') + 1, said + strlen(said));
        if (i == 1)
            continue;
        json_decref(generation_of(&keys[i], &off[i], 1));
        assert_string_equal(help_said(), "");
    }
}

static void suppressed_tokens_are_listed(void **state)
{
    static const int32_t ids[] = {5, -1, 2};
    struct buf text = {.tag = MEM_CKPT};
    struct ggufwrite w;
    struct opened o;
    struct err e;
    json_t *g, *list;

    put_tokens(&w);
    ggufwrite_i32s(&w, "tokenizer.ggml.suppress_tokens", ids, 3);
    open_file(&o, &w);
    assert_int_equal(gguf_generation(&text, &o.s, &e), 0);
    g = parse(&text);
    list = json_object_get(g, "suppress_tokens");
    assert_int_equal(json_array_size(list), 3);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(json_integer_value(json_array_get(list, i)), ids[i]);
    json_decref(g);
    buf_fini(&text);
    close_file(&o);
    put_tokens(&w);
    ggufwrite_f32s(&w, "tokenizer.ggml.suppress_tokens", (const float[]){1}, 1);
    open_file(&o, &w);
    assert_int_equal(gguf_generation(&text, &o.s, &e), ERR_INPUT);
    assert_non_null(strstr(e.msg, "tokenizer.ggml.suppress_tokens"));
    buf_fini(&text);
    close_file(&o);
}

static void templates_and_tokens_make_a_tokenizer_config(void **state)
{
    static const char *const names[] = {"default", "tool_use",
                                        "tool_use"}; /* The first template of a name is used. */
    struct ggufwrite w;
    struct opened o;
    struct buf text = {.tag = MEM_CKPT};
    struct err e;
    json_t *c, *t;

    put_tokens(&w);
    ggufwrite_str(&w, "tokenizer.chat_template", "plain");
    ggufwrite_strs(&w, "tokenizer.chat_templates", names, 3);
    ggufwrite_str(&w, "tokenizer.chat_template.tool_use", "with tools");
    ggufwrite_str(&w, "tokenizer.chat_template.default", "another");
    ggufwrite_bool(&w, "tokenizer.ggml.add_bos_token", 1);
    open_file(&o, &w);
    assert_int_equal(gguf_tokenizer_config(&text, &o.s, &e), 0);
    c = parse(&text);
    t = json_object_get(c, "chat_template");
    assert_string_equal(json_string_value(json_object_get(t, "default")), "plain");
    assert_string_equal(json_string_value(json_object_get(t, "tool_use")), "with tools");
    assert_string_equal(json_string_value(json_object_get(c, "bos_token")), "<s>");
    assert_string_equal(json_string_value(json_object_get(c, "eos_token")), "<|im_end|>");
    assert_true(json_is_true(json_object_get(c, "add_bos_token")));
    json_decref(c);
    buf_fini(&text);
    close_file(&o);
}

static int make_both(void *arg, struct err *e)
{
    struct gguf_set *s = arg;
    struct buf a = {.tag = MEM_CKPT}, b = {.tag = MEM_CKPT};
    int rc = gguf_tokenizer_config(&a, s, e);

    if (rc == 0)
        rc = gguf_generation(&b, s, e);
    buf_fini(&a);
    buf_fini(&b);
    return rc;
}

static void every_allocation_may_fail(void **state)
{
    struct ggufwrite w;
    struct opened o;

    /* The program sets the same functions, so that allocations of jansson fail as well. */
    json_set_alloc_funcs(mem_lib_alloc, mem_free);
    put_tokens(&w);
    ggufwrite_str(&w, "tokenizer.chat_template", "plain");
    open_file(&o, &w);
    help_every_allocation(make_both, &o.s);
    close_file(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama_keys_become_those_of_a_config),
        cmocka_unit_test(an_output_matrix_unties_the_head),
        cmocka_unit_test(the_usual_llama3_factors_are_recognised),
        cmocka_unit_test(other_factors_are_kept_as_a_list),
        cmocka_unit_test(rope_scalings_carry_over),
        cmocka_unit_test(longrope_has_another_factor_or_length),
        cmocka_unit_test(yarn_has_other_borders),
        cmocka_unit_test(gemmas_queries_windows_or_frequencies_are_others),
        cmocka_unit_test(part_of_a_head_turns_in_phi3),
        cmocka_unit_test(what_is_missing_or_unknown_is_named),
        cmocka_unit_test(neutral_keys_pass),
        cmocka_unit_test(rows_of_llamas_q_and_k_go_back_to_halves),
        cmocka_unit_test(qwens_rows_stay_where_they_are),
        cmocka_unit_test(gpt2_turns_matrices_and_gemma_lessens_norms),
        cmocka_unit_test(stacked_experts_become_one_tensor_each),
        cmocka_unit_test(layouts_that_cannot_be_are_refused),
        cmocka_unit_test(every_special_token_that_ends_a_turn_ends_generation),
        cmocka_unit_test(sampling_defaults_of_llama_cpp_become_a_generation_config),
        cmocka_unit_test(sampling_defaults_without_an_effect_are_named),
        cmocka_unit_test(suppressed_tokens_are_listed),
        cmocka_unit_test(templates_and_tokens_make_a_tokenizer_config),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests_name("ckpt/gguf_config", tests, NULL, NULL);
}
