/* test_config.c - config.json: strict reading, the errors of the getters, and the classes of keys that were
 * not read. */
#include "ckpthelp.h"

#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "ckpt/config.h"

static int open_text(struct config **c, const char *text, struct err *e)
{
    return config_open_text(c, text, strlen(text), "dir/config.json", e);
}

/* Opens a text that must be valid. */
static struct config *must_open(const char *text)
{
    struct config *c;
    struct err e;

    if (open_text(&c, text, &e) != 0)
        fail_msg("%s", e.msg);
    return c;
}

static void broken_json_is_refused_with_the_file_named(void **state)
{
    static const struct {
        const char *text, *word;
    } c[] = {
        {"", "empty"},
        {"  ", "ends where a value"},
        {"[1]", "one JSON object"},
        {"7", "one JSON object"},
        {"null", "one JSON object"},
        {"{", "ends inside an object"},
        {"{\"a\":1", "ends inside an object"},
        {"{\"a\":1}}", "text follows"},
        {"{\"a\":1} //", "text follows"},
        {"{\"a\":1,}", "cannot begin with"},
        {"{\"a\":01}", "not a JSON number"},
        {"{\"a\":Infinit}", "cannot begin with"},
        {"{'a':1}", "cannot begin with"},
        {"{\"a\":1,\"a\":2}", "key a appears twice"},
        {"{\"b\":{\"a\":1,\"a\":2}}", "key b.a appears twice"},
        {"{\"a\\u0000\":1}", "NUL"},
        {"{\"a\":\"\xc3\"}", "not UTF-8"},
        {"{\"a\":\"\\ud800\"}", "not allowed in a string"},
        {"\xef\xbb\xbf{}", "cannot begin with byte 0xef"},
    };
    struct config *config;
    struct err e;

    for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
        help_refused(open_text(&config, c[i].text, &e), ERR_INPUT, &e, "dir/config.json", c[i].word, NULL);
        assert_null(config);
    }
}

static void deep_and_large_files_are_refused(void **state)
{
    size_t n = 17 << 20;
    char *text = mem_alloc(n, MEM_BASE);
    struct config *c;
    struct err e;

    assert_non_null(text);
    memset(text, '[', n);
    memcpy(text, "{\"a\":", 5);
    help_refused(config_open_text(&c, text, 200000, "config.json", &e), ERR_INPUT, &e, "nested deeper", NULL);
    help_refused(config_open_text(&c, text, n, "config.json", &e), ERR_INPUT, &e, "at most", NULL);
    for (size_t i = 0; i < 1000; i++)
        memcpy(text + 5 * i, "{\"a\":", 5);
    help_refused(config_open_text(&c, text, 5000, "config.json", &e), ERR_INPUT, &e, "nested deeper", NULL);
    mem_free(text);
}

static void integers_are_checked_for_type_and_range(void **state)
{
    struct config *c = must_open(
        "{\"n\":32,\"neg\":-1,\"f\":1.5,\"whole\":8192.0,\"exp\":1e3,\"huge\":1e300,\"s\":\"16\",\"t\":true,"
        "\"null\":null,\"list\":[1],\"over\":9223372036854775808,\"big\":9007199254740993.0,"
        "\"sub\":{\"n\":0}}");
    static const char *const bad[] = {"f", "huge", "s", "t", "list", "over", "big", "sub"};
    int64_t v;
    struct err e;

    assert_int_equal(config_int(c, "n", 7, 1, 100, &v, &e), 0);
    assert_int_equal(v, 32);
    assert_int_equal(config_int(c, "missing", 7, 1, 5, &v, &e), 0);
    assert_int_equal(v, 7);
    assert_int_equal(config_int(c, "null", 7, 1, 5, &v, &e), 0);
    assert_int_equal(v, 7);
    assert_int_equal(config_int(c, "whole", 0, 1, 1 << 20, &v, &e), 0);
    assert_int_equal(v, 8192);
    assert_int_equal(config_need_int(c, "exp", 1, 1 << 20, &v, &e), 0);
    assert_int_equal(v, 1000);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        help_refused(config_int(c, bad[i], 0, 1, 1 << 20, &v, &e), ERR_INPUT, &e, "dir/config.json: ", bad[i],
                     "expected an integer from 1 to 1048576", NULL);
    help_refused(config_int(c, "neg", 0, 1, 100, &v, &e), ERR_INPUT, &e, "neg is -1,", NULL);
    help_refused(config_int(c, "n", 0, 1, 31, &v, &e), ERR_INPUT, &e, "n is 32,", NULL);
    help_refused(config_int(c, "n", 0, 33, 100, &v, &e), ERR_INPUT, &e, "n is 32,", NULL);
    help_refused(config_need_int(c, "missing", 1, 100, &v, &e), ERR_INPUT, &e,
                 "dir/config.json: missing is missing", NULL);
    help_refused(config_need_int(c, "null", 1, 100, &v, &e), ERR_INPUT, &e, "null is missing", NULL);
    help_refused(config_need_int(config_sub(c, "sub"), "n", 1, 100, &v, &e), ERR_INPUT, &e, "sub.n is 0,",
                 NULL);
    help_refused(config_need_int(config_sub(c, "sub"), "m", 1, 100, &v, &e), ERR_INPUT, &e,
                 "sub.m is missing", NULL);
    config_close(c);
}

static void numbers_booleans_and_strings_are_checked(void **state)
{
    struct config *c =
        must_open("{\"f\":1e-05,\"i\":3,\"s\":\"a\\u00e9\\n\",\"nul\":\"a\\u0000b\",\"t\":true,\"n\":null,"
                  "\"big\":1e999,"
                  "\"long\":\"0123456789012345678901234567890123456789012345678901234567890123456789\"}");
    const char *s;
    double f;
    bool b;
    struct err e;

    assert_int_equal(config_float(c, "f", 0, 0, 1, &f, &e), 0);
    assert_true(f == 1e-05);
    assert_int_equal(config_float(c, "i", 0, 0, 10, &f, &e), 0);
    assert_true(f == 3);
    assert_int_equal(config_float(c, "none", 2.5, 0, 1, &f, &e), 0);
    assert_true(f == 2.5);
    help_refused(config_float(c, "i", 0, 0, 2, &f, &e), ERR_INPUT, &e,
                 "i is 3, expected a number from 0 to 2", NULL);
    help_refused(config_float(c, "s", 0, 0, 2, &f, &e), ERR_INPUT, &e, "s is the string \"a", NULL);
    help_refused(config_float(c, "big", 0, 0, 1e300, &f, &e), ERR_INPUT, &e, "big is 1e999", NULL);
    assert_int_equal(config_bool(c, "t", false, &b, &e), 0);
    assert_true(b);
    help_refused(config_bool(c, "i", false, &b, &e), ERR_INPUT, &e,
                 "i is 3, expected a boolean, true or false", NULL);
    assert_int_equal(config_str(c, "s", "x", &s, &e), 0);
    assert_string_equal(s, "a\xc3\xa9\n");
    assert_int_equal(config_str(c, "none", "x", &s, &e), 0);
    assert_string_equal(s, "x");
    help_refused(config_str(c, "i", "x", &s, &e), ERR_INPUT, &e, "i is 3, expected a string", NULL);
    help_refused(config_str(c, "nul", "x", &s, &e), ERR_INPUT, &e, "nul is ", NULL);
    help_refused(config_bool(c, "long", false, &b, &e), ERR_INPUT, &e, "long is the string \"0123456789",
                 "..., expected a boolean", NULL);
    assert_string_equal(config_path(c), "dir/config.json");
    config_close(c);
}

static void lists_are_checked_element_by_element(void **state)
{
    struct config *c =
        must_open("{\"f\":[1, 2.5, -3e2],\"mixed\":[1,\"a\"],\"empty\":[ ],\"one\":5,\"ints\":[5,6],"
                  "\"strs\":[\"x\",\"\\u0079\"],"
                  "\"nested\":[[1]],\"null\":[null],\"word\":\"x\"}");
    const char *s[3];
    int64_t v[3];
    double f[3];
    size_t n;
    struct err e;

    assert_int_equal(config_floats(c, "f", f, 3, &n, &e), 0);
    assert_true(n == 3 && f[0] == 1 && f[1] == 2.5 && f[2] == -300);
    help_refused(config_floats(c, "f", f, 2, &n, &e), ERR_INPUT, &e, "f is [1, 2.5, -3e2]",
                 "at most 2 values", NULL);
    help_refused(config_floats(c, "mixed", f, 3, &n, &e), ERR_INPUT, &e,
                 "mixed[1] is the string \"a\", expected a number", NULL);
    help_refused(config_floats(c, "one", f, 3, &n, &e), ERR_INPUT, &e, "list of numbers", NULL);
    help_refused(config_floats(c, "null", f, 3, &n, &e), ERR_INPUT, &e, "null[0] is null, expected a number",
                 NULL);
    assert_int_equal(config_floats(c, "none", f, 3, &n, &e), 0);
    assert_int_equal(n, 0);
    assert_int_equal(config_floats(c, "empty", f, 0, &n, &e), 0);
    assert_int_equal(n, 0);
    assert_int_equal(config_ints_or_int(c, "one", v, 3, &n, &e), 0);
    assert_true(n == 1 && v[0] == 5);
    assert_int_equal(config_ints_or_int(c, "ints", v, 2, &n, &e), 0);
    assert_true(n == 2 && v[1] == 6);
    help_refused(config_ints_or_int(c, "ints", v, 1, &n, &e), ERR_INPUT, &e, "at most 1 values", NULL);
    help_refused(config_ints_or_int(c, "f", v, 3, &n, &e), ERR_INPUT, &e, "f[1] is 2.5, expected an integer",
                 NULL);
    help_refused(config_ints_or_int(c, "nested", v, 3, &n, &e), ERR_INPUT, &e,
                 "nested[0] is [1], expected an integer", NULL);
    help_refused(config_ints_or_int(c, "word", v, 3, &n, &e), ERR_INPUT, &e,
                 "word is the string \"x\", expected an integer or a list of integers", NULL);
    assert_int_equal(config_strs(c, "strs", s, 3, &n, &e), 0);
    assert_int_equal(n, 2);
    assert_string_equal(s[1], "y");
    help_refused(config_strs(c, "mixed", s, 3, &n, &e), ERR_INPUT, &e, "mixed[0] is 1, expected a string",
                 NULL);
    help_refused(config_strs(c, "strs", s, 1, &n, &e), ERR_INPUT, &e, "at most 1 values", NULL);
    config_close(c);
}

/* Returns the result of config_finish() for a text of which no key was read. */
static int finish(const char *text, struct err *e)
{
    struct config *c = must_open(text);
    int rc = config_finish(c, e);

    config_close(c);
    return rc;
}

static void bookkeeping_and_neutral_values_pass(void **state)
{
    static const char *const good[] = {
        "{}",
        "{\"architectures\":[\"X\"],\"model_type\":\"x\",\"transformers_version\":\"4.44.0\","
        "\"torch_dtype\":\"bfloat16\",\"dtype\":1}",
        "{\"attention_dropout\":0.1,\"resid_pdrop\":0.1,\"layerdrop\":0.1,\"initializer_range\":0.02}",
        "{\"bos_token_id\":1,\"eos_token_id\":[1,2],\"boi_token_index\":5,\"output_attentions\":true,"
        "\"use_cache\":true}",
        "{\"id2label\":{\"0\":\"a\"},\"task_specific_params\":{\"x\":{\"max_length\":50}},"
        "\"auto_map\":{\"a\":\"b\"},\"temperature\":0.7}",
        "{\"unsloth_fixed\":true,\"_attn_implementation_autoset\":true,\"pretraining_tp\":1,"
        "\"full_attn_mod\":1,\"interpolate_factor\":1.0}",
        "{\"some_scale\":null,\"some_bias\":false,\"some_layers\":[ ],\"some_heads\":{},"
        "\"some_norm\":\"\",\"strange\":null}",
        "{\"quantization_config\":null,\"summary_first_dropout\":0.1,\"summary_type\":\"cls_index\"}",
    };
    struct err e;

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        if (finish(good[i], &e) != 0)
            fail_msg("%s: %s", good[i], e.msg);
}

static void a_key_that_looks_like_maths_is_an_error(void **state)
{
    static const char *const name[] = {
        "embedding_multiplier",
        "logit_scale",
        "attn_logit_softcapping",
        "sliding_window",
        "rope_theta",
        "rotary_pct",
        "qk_norm",
        "num_experts",
        "moe_layer_freq",
        "alibi",
        "clip_qkv",
        "attention_bias",
        "hidden_act",
        "num_hidden_layers",
        "n_head",
        "max_position_embeddings",
        "residual_multiplier",
        "mup_width",
        "use_parallel_residual",
        "tie_word_embeddings",
        "head_dim",
        "shared_expert_intermediate_size",
        "layer_types",
        "kv_lora_rank",
        "query_pre_attn_scalar",
        "d_ff",
        "logits_scaling",
        "first_k_dense_replace_layers",
        "is_encoder_decoder",
        "vision_config",
        "rms_norm_eps",
        "max_window_layers",
        "n_inner",
        "mlp_only_layers",
        "decoder_sparse_step",
        "scale_attn_by_inverse_layer_idx",
        "partial_rotary_factor",
        "swiglu_limit",
    };
    char text[128];
    struct err e;

    for (size_t i = 0; i < sizeof(name) / sizeof(name[0]); i++) {
        snprintf(text, sizeof(text), "{\"%s\": 2}", name[i]);
        help_refused(finish(text, &e), ERR_UNSUPPORTED, &e, "dir/config.json", name[i],
                     "may change what this model computes", NULL);
        snprintf(text, sizeof(text), "{\"%s\": true}", name[i]);
        help_refused(finish(text, &e), ERR_UNSUPPORTED, &e, name[i], NULL);
    }
    help_refused(finish("{\"a_scale\":1,\"b_scale\":1}", &e), ERR_UNSUPPORTED, &e, "a_scale, b_scale", NULL);
    help_refused(finish("{\"interpolate_factor\":2}", &e), ERR_UNSUPPORTED, &e, "interpolate_factor", NULL);
    help_refused(finish("{\"some_scale\":0}", &e), ERR_UNSUPPORTED, &e, "some_scale", NULL);
}

/* These keys have the values that models compute with by default. */
static void false_and_null_of_such_a_key_are_an_error(void **state)
{
    static const char *const name[] = {
        "is_causal",      "causal",  "use_rope", "rotary", "scale_attn_weights",
        "norm_topk_prob", "use_glu", "pre_norm", "gated"};
    static const char *const off[] = {"false", "null", "0", "\"\"", "[]", "{}"};
    char text[128];
    struct err e;

    for (size_t i = 0; i < sizeof(name) / sizeof(name[0]); i++) {
        for (size_t k = 0; k < sizeof(off) / sizeof(off[0]); k++) {
            snprintf(text, sizeof(text), "{\"%s\": %s}", name[i], off[k]);
            help_refused(finish(text, &e), ERR_UNSUPPORTED, &e, "dir/config.json", name[i],
                         "may change what this model computes", NULL);
        }
        snprintf(text, sizeof(text), "{\"%s\": true}", name[i]);
        assert_int_equal(finish(text, &e), 0);
    }
}

static void null_is_false(void **state)
{
    struct config *c = must_open("{\"n\":null}");
    struct err e;
    bool b = true;

    assert_int_equal(config_bool(c, "n", false, &b, &e), 0);
    assert_false(b);
    help_refused(config_bool(c, "n", true, &b, &e), ERR_INPUT, &e,
                 "n is null, expected a boolean, true or false", NULL);
    assert_int_equal(config_bool(c, "none", true, &b, &e), 0);
    assert_true(b);
    config_close(c);
}

static void what_was_asked_for_passes(void **state)
{
    struct config *c = must_open(
        "{\"a_scale\":2,\"b_scale\":[1],\"c_scale\":\"x\",\"d_scale\":3.5,\"e_bias\":true,"
        "\"f_layers\":[\"x\"],"
        "\"g_heads\":4,\"h_norm\":1,\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":2},\"k_norm\":1}");
    struct config *rope;
    const char *s[2];
    int64_t i[2];
    double f[2];
    size_t n;
    bool b;
    struct err e;

    help_refused(config_finish(c, &e), ERR_UNSUPPORTED, &e, "a_scale", "rope_scaling", "k_norm", NULL);
    config_int(c, "a_scale", 0, 0, 9, i, &e);
    config_floats(c, "b_scale", f, 2, &n, &e);
    config_str(c, "c_scale", "", s, &e);
    config_float(c, "d_scale", 0, 0, 9, f, &e);
    config_bool(c, "e_bias", false, &b, &e);
    config_strs(c, "f_layers", s, 2, &n, &e);
    config_ints_or_int(c, "g_heads", i, 2, &n, &e);
    config_ignore(c, "h_norm");
    config_ignore(c, "not there");
    assert_true(config_has(c, "k_norm"));
    assert_false(config_has(c, "l_norm"));
    help_refused(config_finish(c, &e), ERR_UNSUPPORTED, &e, "computes: rope_scaling", NULL);
    rope = config_sub(c, "rope_scaling");
    assert_non_null(rope);
    assert_string_equal(config_path(rope), "dir/config.json");
    help_refused(config_finish(c, &e), ERR_UNSUPPORTED, &e,
                 "computes: rope_scaling.rope_type, rope_scaling.factor", NULL);
    config_need_int(rope, "factor", 1, 9, i, &e);
    assert_int_equal(i[0], 2);
    config_ignore(rope, "rope_type");
    assert_int_equal(config_finish(c, &e), 0);
    config_close(c);
}

static void a_sub_object_of_the_wrong_type_is_an_error(void **state)
{
    struct config *c = must_open("{\"rope_scaling\":5,\"text_config\":null}");
    struct err e;

    assert_null(config_sub(c, "text_config"));
    assert_null(config_sub(c, "missing"));
    help_refused(config_finish(c, &e), ERR_UNSUPPORTED, &e, "rope_scaling", NULL);
    assert_null(config_sub(c, "rope_scaling"));
    help_refused(config_finish(c, &e), ERR_INPUT, &e, "rope_scaling is 5, expected an object", NULL);
    config_close(c);
}

static void quantised_weights_are_an_error_unless_asked_for(void **state)
{
    struct config *c = must_open("{\"quantization_config\":{\"quant_method\":\"mxfp4\"}}");
    const char *method;
    struct err e;

    help_refused(config_finish(c, &e), ERR_UNSUPPORTED, &e, "dir/config.json", "quantized with mxfp4", NULL);
    assert_int_equal(config_str(config_sub(c, "quantization_config"), "quant_method", "", &method, &e), 0);
    assert_string_equal(method, "mxfp4");
    assert_int_equal(config_finish(c, &e), 0);
    config_close(c);
    help_refused(finish("{\"quantization_config\":{\"bits\":4}}", &e), ERR_UNSUPPORTED, &e, "does not name",
                 NULL);
    help_refused(finish("{\"compression_config\":7}", &e), ERR_UNSUPPORTED, &e, "compression_config", NULL);
}

/* Returns what config_finish() writes to the log. */
static const char *logged(const char *text)
{
    struct err e;

    help_listen();
    assert_int_equal(finish(text, &e), 0);
    return help_said();
}

static void merely_unknown_keys_are_one_warning(void **state)
{
    const char *out = logged("{\"mystery\":1,\"riddle\":{\"x\":1}}");

    assert_non_null(strstr(out, "warning: dir/config.json: unknown keys are ignored: mystery, riddle\n"));
    assert_ptr_equal(strchr(out, '\n'), strrchr(out, '\n'));
    assert_string_equal(logged("{\"use_cache\":true,\"mystery\":null}"), "");
}

/* 20000 objects inside one with a name of 100 KB took 2 GB: each had a copy of the name. */
static void long_names_of_objects_take_no_memory(void **state)
{
    enum { NAME = 100000, N = 20000 };
    size_t before = mem_live_bytes(), at = 2 + NAME;
    char *text = mem_alloc(NAME + 20 * N, MEM_BASE);
    struct config *c;
    struct err e;

    assert_non_null(text);
    memset(text, 'x', at);
    memcpy(text, "{\"", 2);
    at += (size_t)sprintf(text + at, "\":{");
    for (int i = 0; i < N; i++)
        at += (size_t)sprintf(text + at, "%s\"k%d\":{}", i ? "," : "", i);
    at += (size_t)sprintf(text + at, "}}");
    assert_int_equal(config_open_text(&c, text, at, "config.json", &e), 0);
    assert_in_range(mem_live_bytes() - before, at, 20 << 20);
    config_close(c);
    mem_free(text);
    assert_int_equal(mem_live_bytes(), before);
}

/* The longest prefix that is written has 200 bytes and a point. */
static void prefixes_end_at_a_limit(void **state)
{
    for (int n = 200; n <= 201; n++) {
        char text[600], wanted[300];
        struct config *c;
        struct err e;

        snprintf(text, sizeof(text), "{\"%0*d\":{\"a\":1,\"a\":2}}", n, 0);
        snprintf(wanted, sizeof(wanted), n == 200 ? "key %0*d.a appears" : "key a appears", n, 0);
        help_refused(config_open_text(&c, text, strlen(text), "config.json", &e), ERR_INPUT, &e, wanted,
                     NULL);
    }
}

/* Python's json writes these numbers, as in the time limits of Mamba. A getter does not take them. */
static void numbers_of_python_are_read(void **state)
{
    static const char *const wrong[] = {"{\"a\":Infinit}", "{\"a\":nan}",        "{\"a\":-NaN}",
                                        "{\"a\":NaN1}",    "{\"a\":--Infinity}", "{\"a\":I"};
    static const char good[] = "{\"a\":Infinity,\"b\":[-Infinity,NaN],\"c\":{\"d\":NaN},\"e\":7}";
    struct config *c;
    struct err e;
    double v;
    int64_t i;

    assert_int_equal(config_open_text(&c, good, strlen(good), "config.json", &e), 0);
    assert_int_equal(config_count(c), 4);
    assert_int_equal(config_int(c, "e", 1, 0, 9, &i, &e), 0);
    assert_int_equal(i, 7);
    help_refused(config_float(c, "a", 1, 0, 9, &v, &e), ERR_INPUT, &e, "a is Infinity, expected", NULL);
    config_close(c);
    for (size_t k = 0; k < sizeof(wrong) / sizeof(wrong[0]); k++)
        assert_int_equal(config_open_text(&c, wrong[k], strlen(wrong[k]), "config.json", &e), ERR_INPUT);
}

static void very_long_lists_of_keys_are_cut(void **state)
{
    char *text = mem_alloc(200000, MEM_BASE);
    size_t at;
    struct err e;

    assert_non_null(text);
    at = (size_t)sprintf(text, "{");
    for (int i = 0; i < 3000; i++)
        at += (size_t)sprintf(text + at, "%s\"scale%d\":1", i ? "," : "", i);
    sprintf(text + at, "}");
    help_refused(finish(text, &e), ERR_UNSUPPORTED, &e, "scale0, scale1", NULL);
    mem_free(text);
}

static void names_are_sorted_by_their_words(void **state)
{
    assert_int_equal(config_key_kind("attention_dropout"), CONFIG_KEY_BOOKKEEPING);
    assert_int_equal(config_key_kind("attention_dropouts_scale"), CONFIG_KEY_MATHS);
    assert_int_equal(config_key_kind("_name_or_path"), CONFIG_KEY_BOOKKEEPING);
    assert_int_equal(config_key_kind("_attention_scale"), CONFIG_KEY_MATHS);
    assert_int_equal(config_key_kind("output_attentions"), CONFIG_KEY_BOOKKEEPING);
    assert_int_equal(config_key_kind("output_multiplier_scale"), CONFIG_KEY_MATHS);
    assert_int_equal(config_key_kind("eos_token"), CONFIG_KEY_BOOKKEEPING);
    assert_int_equal(config_key_kind("num_experts_per_token"), CONFIG_KEY_MATHS);
    assert_int_equal(config_key_kind("summary_scale"), CONFIG_KEY_MATHS);
    assert_int_equal(config_key_kind("causal"), CONFIG_KEY_MATHS);
    assert_int_equal(config_key_kind("bos_token_id"), CONFIG_KEY_BOOKKEEPING);
    assert_int_equal(config_key_kind("bos_token_idx"), CONFIG_KEY_UNKNOWN);
    assert_int_equal(config_key_kind("use_caches"), CONFIG_KEY_UNKNOWN);
    assert_int_equal(config_key_kind("_"), CONFIG_KEY_UNKNOWN);
    assert_int_equal(config_key_kind(""), CONFIG_KEY_UNKNOWN);
    assert_int_equal(config_key_kind("quantization_config"), CONFIG_KEY_QUANT);
    assert_int_equal(config_key_kind("resid_pdrop"), CONFIG_KEY_BOOKKEEPING);
    assert_int_equal(config_key_kind("resid_scale"), CONFIG_KEY_MATHS);
    assert_true(config_key_one_is_neutral("pretraining_tp"));
    assert_false(config_key_one_is_neutral("pretraining_t"));
}

static void a_file_is_read_from_its_folder(void **state)
{
    struct config *c;
    const char *dir = files_folder();
    struct err e;

    help_refused(config_open(&c, folder_at(dir), "config.json", &e), ERR_OS, &e, dir, "config.json",
                 "cannot open", NULL);
    files_write_in(dir, "config.json", "", 0);
    help_refused(config_open(&c, folder_at(dir), "config.json", &e), ERR_INPUT, &e, dir, "config.json",
                 "empty", NULL);
    help_refused(config_open(&c, folder_at(dir), "../config.json", &e), ERR_INPUT, &e, dir, "not the name",
                 NULL);
    files_write_in(dir, "config.json", "{\"use_cache\":true}", 18);
    assert_int_equal(config_open(&c, folder_at(dir), "config.json", &e), 0);
    assert_int_equal(config_finish(c, &e), 0);
    config_close(c);
    config_close(NULL);
}

static int open_and_ask(void *arg, struct err *e)
{
    const char *s;
    struct config *c;
    int rc;

    if ((rc = open_text(&c, arg, e)) != 0)
        return rc;
    if ((rc = config_str(c, "s", "", &s, e)) == 0 && (rc = config_strs(c, "l", &s, 1, &(size_t){0}, e)) == 0)
        rc = config_finish(c, e);
    config_close(c);
    return rc;
}

static void lack_of_memory_is_reported_without_a_leak(void **state)
{
    log_set_level(LOG_ERROR);
    help_every_allocation(
        open_and_ask,
        "{\"s\":\"a\\u0062\",\"o\":{\"a\":{\"b\":1},\"c\":[1,{\"d\":2}]},\"l\":[\"\\n\"],\"t\\u0061\":1}");
    log_set_level(LOG_WARN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(broken_json_is_refused_with_the_file_named),
        cmocka_unit_test(deep_and_large_files_are_refused),
        cmocka_unit_test(integers_are_checked_for_type_and_range),
        cmocka_unit_test(numbers_booleans_and_strings_are_checked),
        cmocka_unit_test(lists_are_checked_element_by_element),
        cmocka_unit_test(bookkeeping_and_neutral_values_pass),
        cmocka_unit_test(a_key_that_looks_like_maths_is_an_error),
        cmocka_unit_test(false_and_null_of_such_a_key_are_an_error),
        cmocka_unit_test(null_is_false),
        cmocka_unit_test(what_was_asked_for_passes),
        cmocka_unit_test(a_sub_object_of_the_wrong_type_is_an_error),
        cmocka_unit_test(quantised_weights_are_an_error_unless_asked_for),
        cmocka_unit_test(merely_unknown_keys_are_one_warning),
        cmocka_unit_test(very_long_lists_of_keys_are_cut),
        cmocka_unit_test(long_names_of_objects_take_no_memory),
        cmocka_unit_test(prefixes_end_at_a_limit),
        cmocka_unit_test(numbers_of_python_are_read),
        cmocka_unit_test(names_are_sorted_by_their_words),
        cmocka_unit_test(a_file_is_read_from_its_folder),
        cmocka_unit_test(lack_of_memory_is_reported_without_a_leak),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
