/* test_config_keys.c - every key of config.json that an architecture reads, with and without effect.
 *
 * The keys that a model reads are recorded (config_asked()) and compared with the tables here: a key that is
 * read and not listed fails. Each listed key is changed in a golden checkpoint: the logits must change, or an
 * error must refuse the value, or the logits must stay the same for the given reason.
 */
/* long: one table for all architectures */
#include <jansson.h>

#include "base/cpu.h"
#include "base/err.h"
#include "base/log.h"
#include "base/threads/pool.h"
#include "ckpt/config.h"
#include "engine/llm.h"
#include "engines.h"
#include "files.h"
#include "gallop.h"
#include "kern/kern.h"
#include "model/decoder.h"
#include "model/model.h"

enum { N = 150, VOCAB_MOST = 256, NAMES = 256 };

static const char *scratch; /* the folder of the changed checkpoint */

/* the result of opening a model */
struct result {
    int rc;
    char err[GALLOP_ERR_SIZE];
    size_t max_len, V;
    float logit[VOCAB_MOST]; /* the logits after a prompt of N tokens */
};

/* the names of the keys that the models of one architecture read */
static char asked[NAMES][96];
static size_t n_asked;

static void note_asked(const struct config *c)
{
    const char *name;

    for (size_t i = 0; (name = config_asked(c, i)) != NULL; i++) {
        size_t k = 0;

        while (k < n_asked && strcmp(asked[k], name) != 0)
            k++;
        if (k < n_asked)
            continue;
        assert_true(n_asked < NAMES && strlen(name) < sizeof(asked[0]));
        strcpy(asked[n_asked++], name);
    }
}

/* Opens the copied weights with CONFIG, and computes. */
static void compute(const json_t *config, struct result *r)
{
    struct gallop_options o;
    struct gallop *g;
    char path[128];
    int32_t ids[N];
    float *x;

    *r = (struct result){0};
    snprintf(path, sizeof(path), "%s/config.json", scratch);
    assert_int_equal(json_dump_file(config, path, 0), 0);
    gallop_options_init(&o);
    o.model = scratch;
    o.dtype = "fp32";
    o.threads = 1;
    o.max_num_seqs = 1;
    o.kv_cache_unbounded = 1;
    if ((r->rc = gallop_open(&g, &o, r->err)) != 0)
        return;
    note_asked(engine_llm(g)->model.config_file);
    if (engine_llm(g)->model.info.headless) {
        r->rc = ERR_UNSUPPORTED;
        snprintf(r->err, sizeof(r->err), "%s", engine_llm(g)->model.headless);
        gallop_close(g);
        return;
    }
    r->max_len = engine_llm(g)->model.info.max_len;
    r->V = engine_llm(g)->model.info.vocab;
    assert_true(r->V <= VOCAB_MOST);
    engines_text(1, 0, N, ids);
    if (engine_llm(g)->max_len >= N) {
        x = engines_logits(engine_llm(g), ids, N, 1, 0, NULL);
        memcpy(r->logit, x, r->V * sizeof(float));
        free(x);
    }
    gallop_close(g);
}

static bool same(const struct result *a, const struct result *b)
{
    return a->rc == 0 && b->rc == 0 && memcmp(a->logit, b->logit, sizeof(a->logit)) == 0;
}

/* Returns whether TEXT contains one of the words of SAYS, which are separated by |. */
static bool says_one(const char *text, const char *says)
{
    while (*says) {
        size_t n = strcspn(says, "|");
        char word[128];

        snprintf(word, sizeof(word), "%.*s", (int)n, says);
        if (strstr(text, word))
            return true;
        says += n + (says[n] == '|');
    }
    return false;
}

enum what {
    CHANGES, /* other logits */
    REFUSED, /* an error with one of the words */
    SAME,    /* the same logits, for the given reason */
    LENGTH,  /* another context length */
    EITHER,  /* a bool: one value is that of the base, and the other one changes the logits or is refused */
};

struct flip {
    const char *key;
    /* the keys that replace keys of the golden's config, and then the change under test */
    const char *base, *to;
    enum what what;
    const char *says; /* the words, or the reason */
};

/* Applies the keys of PATCH (an object, or "") to a copy of CONFIG. */
static json_t *patched(const json_t *config, const char *patch)
{
    json_t *out = json_deep_copy(config), *p;
    json_error_t je;

    if (!patch || !*patch)
        return out;
    if (!(p = json_loads(patch, 0, &je)))
        fail_msg("%s: %s", patch, je.text);
    json_object_update(out, p);
    json_decref(p);
    return out;
}

static void either(const char *golden, const struct flip *f, const json_t *base, const struct result *was)
{
    struct result r[2];
    char patch[160];
    int n_same = 0;

    for (int i = 0; i < 2; i++) {
        json_t *c;

        snprintf(patch, sizeof(patch), "{\"%s\": %s}", f->key, i ? "true" : "false");
        c = patched(base, patch);
        compute(c, &r[i]);
        json_decref(c);
        n_same += same(&r[i], was);
        if (r[i].rc && !says_one(r[i].err, f->says))
            fail_msg("%s: %s: the message has none of \"%s\": %s", golden, patch, f->says, r[i].err);
    }
    if (n_same != 1)
        fail_msg("%s: %s: %s, expected one of true and false to give what the model gives", golden, f->key,
                 n_same ? "true and false give the same logits" : "neither true nor false is the default");
}

static void try_flip(const char *golden, const json_t *config, const struct flip *f)
{
    json_t *base = patched(config, f->base), *to;
    struct result was, now;

    compute(base, &was);
    if (was.rc)
        fail_msg("%s with %s: %s", golden, f->base ? f->base : "nothing changed", was.err);
    if (f->what == EITHER) {
        either(golden, f, base, &was);
        json_decref(base);
        return;
    }
    to = patched(base, f->to);
    compute(to, &now);
    if (f->what == REFUSED ? now.rc == 0 : now.rc != 0)
        fail_msg("%s: %s: %s is %s: %s", golden, f->key, f->to, now.rc ? "refused" : "taken", now.err);
    if (f->what == REFUSED && !says_one(now.err, f->says))
        fail_msg("%s: %s: the message has none of \"%s\": %s", golden, f->to, f->says, now.err);
    if (f->what == CHANGES && same(&was, &now))
        fail_msg("%s: %s: the logits stay the same with %s", golden, f->key, f->to);
    if (f->what == SAME && !same(&was, &now))
        fail_msg("%s: %s: the logits change with %s, expected none: %s", golden, f->key, f->to, f->says);
    if (f->what == LENGTH && was.max_len == now.max_len)
        fail_msg("%s: %s: the longest sequence stays %zu with %s", golden, f->key, now.max_len, f->to);
    json_decref(base);
    json_decref(to);
}

#define EIGHT "[1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7]"
#define OTHER "[1, 2.1, 3.2, 4.3, 5.4, 6.5, 7.6, 8.7]"
#define YARN  "\"rope_type\": \"yarn\", \"factor\": 4, \"original_max_position_embeddings\": 64"
#define LLAMA "\"rope_type\": \"llama3\", \"factor\": 8, \"original_max_position_embeddings\": 64"
#define LONG  "\"rope_type\": \"longrope\", \"short_factor\": " EIGHT ", \"long_factor\": " EIGHT

/* ---- keys with the same meaning in every architecture ---- */

static const struct flip common[] = {
    {"architectures", "", "{\"architectures\": [\"NoSuchModel\"]}", REFUSED, "NoSuchModel is not supported"},
    {"model_type", "", "{\"architectures\": null}", SAME, "it names the model where architectures does not"},
    {"model_type", "", "{\"architectures\": null, \"model_type\": \"none\"}", REFUSED,
     "none is not supported"},
    {"hidden_size", "", "{\"hidden_size\": 960}", REFUSED, "config.json asks for"},
    {"intermediate_size", "", "{\"intermediate_size\": 96}", REFUSED, "config.json asks for"},
    {"num_hidden_layers", "", "{\"num_hidden_layers\": 9}", REFUSED, "is missing|for 9 layers"},
    {"vocab_size", "", "{\"vocab_size\": 240}", REFUSED, "config.json asks for|expected at least vocab_size"},
    {"max_position_embeddings", "", "{\"max_position_embeddings\": 700}", LENGTH, ""},
    {"rms_norm_eps", "", "{\"rms_norm_eps\": 0.5}", CHANGES, ""},
    {"tie_word_embeddings", "", "", EITHER, "lm_head.weight is missing"},
    {"hidden_act", "", "{\"hidden_act\": \"relu\"}", CHANGES, ""},
    {"hidden_act", "", "{\"hidden_act\": \"none\"}", REFUSED, "\"none\" is not a known activation"},
    {"hidden_activation", "", "{\"hidden_activation\": \"relu\"}", CHANGES, ""},
    {"activation_function", "", "{\"activation_function\": \"quick_gelu\"}", CHANGES, ""},
    {"num_attention_heads", "", "{\"num_attention_heads\": 12}", REFUSED, "config.json asks for"},
    {"num_key_value_heads", "", "{\"num_key_value_heads\": 5}", REFUSED, "not divisible by 5"},
    {"num_key_value_heads", "", "{\"num_key_value_heads\": 3}", REFUSED,
     "config.json asks for|missing|not divisible by 3"},
    {"head_dim", "", "{\"head_dim\": 64}", REFUSED, "config.json asks for"},
    {"attention_bias", "", "", EITHER, "bias is missing"},
    {"mlp_bias", "", "", EITHER, "bias is missing"},
    {"rope_theta", "{\"rope_parameters\": null, \"rope_scaling\": null}", "{\"rope_theta\": 777}", CHANGES,
     ""},
    {"rope_parameters", "{\"rope_scaling\": null}", "{\"rope_parameters\": {\"rope_theta\": 777}}", CHANGES,
     ""},
    {"rope_scaling", "{\"rope_parameters\": null}",
     "{\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 3}}", CHANGES, ""},
    {"original_max_position_embeddings", "{\"rope_parameters\": null, \"rope_scaling\": {" YARN "}}",
     "{\"original_max_position_embeddings\": 16}", CHANGES, ""},
    {"num_experts_per_tok", "", "{\"num_experts_per_tok\": 3}", CHANGES, ""},
    {"num_experts_per_tok", "", "{\"num_experts_per_tok\": 9}", REFUSED, "there are"},
    {"num_local_experts", "", "{\"num_local_experts\": 5}", REFUSED, "config.json asks for|missing"},
    {"sliding_window", "", "{\"sliding_window\": 3}", CHANGES, ""},
    {"sliding_window", "", "{\"sliding_window\": 0}", REFUSED, "sliding_window is 0"},
    {"eos_token_id", "", "{\"eos_token_id\": [7, 8]}", SAME,
     "it ends requests, not logits (test_requests.c)"},
    {"final_logit_softcapping", "", "{\"final_logit_softcapping\": 2.5}", CHANGES, ""},
    {"is_causal", "", "{\"is_causal\": false}", REFUSED,
     "goes in both directions|is_causal is false or null"},
    {"is_causal", "", "{\"is_causal\": null}", REFUSED, "goes in both directions|is_causal is false or null"},
    {"is_causal", "", "{\"is_causal\": \"no\"}", REFUSED,
     "is_causal is the string \"no\", expected a boolean, true or false"},
    {"is_causal", "", "{\"is_causal\": true}", SAME, "every decoder is"},
    {"router_jitter_noise", "", "{\"router_jitter_noise\": 0.5}", SAME, "it is of training"},
    {"router_aux_loss_coef", "", "{\"router_aux_loss_coef\": 0.5}", SAME, "it is of training"},
    {"summary_type", "", "{\"summary_type\": \"mean\"}", SAME, "it is of a head for classification"},
    {"summary_use_proj", "", "{\"summary_use_proj\": true}", SAME, "it is of a head for classification"},
    {"summary_activation", "", "{\"summary_activation\": \"tanh\"}", SAME,
     "it is of a head for classification"},
    {"summary_proj_to_labels", "", "{\"summary_proj_to_labels\": true}", SAME,
     "it is of a head for classification"},
    {"n_special", "", "{\"n_special\": 3}", SAME, "it is of the tokenizer of the first GPT"},
    {"predict_special_tokens", "", "{\"predict_special_tokens\": true}", SAME,
     "it is of the tokenizer of the first GPT"},
};

/* ---- RoPE ---- */

/* The keys are in rope_parameters or, in the old style, rope_scaling. One function reads them for all
 * models. */
static const struct flip rope[] = {
    {"rope_type", "", "\"rope_type\": \"linear\", \"factor\": 3", CHANGES, ""},
    {"rope_type", "", "\"rope_type\": \"none\"", REFUSED, "rope type \"none\" is not known"},
    {"type", "", "\"type\": \"linear\", \"factor\": 3", CHANGES, ""},
    {"type", "\"rope_type\": \"linear\", \"factor\": 3",
     "\"rope_type\": \"linear\", \"type\": \"none\", \"factor\": 3", SAME, "rope_type goes before it"},
    {"rope_theta", "", "\"rope_theta\": 777", CHANGES, ""},
    {"attention_factor", YARN, YARN ", \"attention_factor\": 2", CHANGES, ""},
    {"factor", "\"type\": \"linear\", \"factor\": 3", "\"type\": \"linear\", \"factor\": 4", CHANGES, ""},
    {"factor", "\"type\": \"dynamic\", \"factor\": 3", "\"type\": \"dynamic\"", REFUSED, "needs a factor"},
    {"factor", YARN, "\"type\": \"yarn\", \"original_max_position_embeddings\": 64", CHANGES, ""},
    {"original_max_position_embeddings", YARN,
     "\"rope_type\": \"yarn\", \"factor\": 4, \"original_max_position_embeddings\": 16", CHANGES, ""},
    {"low_freq_factor", LLAMA ", \"low_freq_factor\": 1, \"high_freq_factor\": 4",
     LLAMA ", \"low_freq_factor\": 3, \"high_freq_factor\": 4", CHANGES, ""},
    {"high_freq_factor", LLAMA ", \"low_freq_factor\": 1, \"high_freq_factor\": 4",
     LLAMA ", \"low_freq_factor\": 1, \"high_freq_factor\": 16", CHANGES, ""},
    {"high_freq_factor", LLAMA ", \"low_freq_factor\": 1, \"high_freq_factor\": 4",
     LLAMA ", \"low_freq_factor\": 4, \"high_freq_factor\": 1", REFUSED,
     "low_freq_factor <= high_freq_factor"},
    {"beta_fast", YARN, YARN ", \"beta_fast\": 2", CHANGES, ""},
    {"beta_slow", YARN, YARN ", \"beta_slow\": 0.01", CHANGES, ""},
    {"mscale", YARN ", \"mscale\": 1, \"mscale_all_dim\": 1", YARN ", \"mscale\": 2, \"mscale_all_dim\": 1",
     CHANGES, ""},
    {"mscale_all_dim", YARN ", \"mscale\": 1, \"mscale_all_dim\": 1",
     YARN ", \"mscale\": 1, \"mscale_all_dim\": 2", CHANGES, ""},
    {"truncate", YARN, YARN ", \"truncate\": false", CHANGES, ""},
    {"truncate", YARN, YARN ", \"truncate\": true", SAME, "it is the default"},
    {"short_factor", LONG ", \"original_max_position_embeddings\": 512",
     "\"rope_type\": \"longrope\", \"short_factor\": " OTHER ", \"long_factor\": " EIGHT
     ", \"original_max_position_embeddings\": 512",
     CHANGES, ""},
    {"short_factor", LONG ", \"original_max_position_embeddings\": 64",
     "\"rope_type\": \"longrope\", \"short_factor\": " OTHER ", \"long_factor\": " EIGHT
     ", \"original_max_position_embeddings\": 64",
     SAME, "the text is longer than where the long ones begin"},
    {"short_factor", "", "\"rope_type\": \"longrope\", \"short_factor\": [1], \"long_factor\": " EIGHT,
     REFUSED, "8 short and 8 long factors"},
    {"long_factor", LONG ", \"original_max_position_embeddings\": 64",
     "\"rope_type\": \"longrope\", \"short_factor\": " EIGHT ", \"long_factor\": " OTHER
     ", \"original_max_position_embeddings\": 64",
     CHANGES, ""},
    {"long_factor", LONG ", \"original_max_position_embeddings\": 512",
     "\"rope_type\": \"longrope\", \"short_factor\": " EIGHT ", \"long_factor\": " OTHER
     ", \"original_max_position_embeddings\": 512",
     SAME, "the text is shorter than where the long ones begin"},
    {"partial_rotary_factor", "\"rope_type\": \"proportional\"",
     "\"rope_type\": \"proportional\", \"partial_rotary_factor\": 0.5", CHANGES, ""},
};

/* ---- architectures ---- */

/* The goldens have their own head. */
#define OWN_HEAD                                                                                      \
    {"tie_word_embeddings", "", "{\"tie_word_embeddings\": true}", SAME,                              \
     "the head of the file counts more"},                                                             \
    {                                                                                                 \
        "tie_word_embeddings", "", "{\"tie_word_embeddings\": false}", SAME, "the head is the file's" \
    }

#define FULL    "\"full_attention\""
#define SLIDING "\"sliding_attention\""
#define CHUNKED "\"chunked_attention\""

static const struct flip llama[] = {
    {"pretraining_tp", "", "{\"pretraining_tp\": 2}", SAME, "it says how the training was cut"},
    {"original_max_position_embeddings", "", "{\"original_max_position_embeddings\": 16}", CHANGES, ""},
};

static const struct flip gpt2[] = {
    {"n_embd", "", "{\"n_embd\": 60}", REFUSED, "config.json asks for"},
    {"n_head", "", "{\"n_head\": 4}", CHANGES, ""},
    {"n_head", "", "{\"n_head\": 5}", REFUSED, "cannot be divided into 5 heads"},
    {"n_layer", "", "{\"n_layer\": 3}", REFUSED, "is missing"},
    {"n_layer", "", "{\"n_layer\": 1}", CHANGES, ""},
    {"n_positions", "", "{\"n_positions\": 170}", REFUSED, "config.json asks for"},
    {"n_inner", "", "{\"n_inner\": 96}", REFUSED, "config.json asks for"},
    {"n_inner", "", "{\"n_inner\": 192}", SAME, "four times n_embd is the default"},
    {"layer_norm_epsilon", "", "{\"layer_norm_epsilon\": 0.5}", CHANGES, ""},
    {"scale_attn_weights", "", "", EITHER, ""},
    {"scale_attn_by_inverse_layer_idx", "", "", EITHER, ""},
    {"add_cross_attention", "", "", EITHER, "add_cross_attention is not supported"},
    {"n_ctx", "", "{\"n_ctx\": 40}", SAME, "the old name of n_positions, which is there"},
    {"reorder_and_upcast_attn", "", "{\"reorder_and_upcast_attn\": true}", SAME, "a matter of precision"},
};

static const struct flip gptj[] = {
    OWN_HEAD,
    {"n_embd", "", "{\"n_embd\": 64}", REFUSED, "config.json asks for"},
    {"n_head", "", "{\"n_head\": 3}", CHANGES, ""},
    {"n_head", "", "{\"n_head\": 5}", REFUSED, "cannot be divided into 5 heads"},
    {"n_layer", "", "{\"n_layer\": 3}", REFUSED, "is missing"},
    {"n_layer", "", "{\"n_layer\": 1}", CHANGES, ""},
    {"n_positions", "", "{\"n_positions\": 200}", LENGTH, ""},
    {"n_inner", "", "{\"n_inner\": 96}", REFUSED, "config.json asks for"},
    {"rotary_dim", "", "{\"rotary_dim\": 8}", CHANGES, ""},
    {"rotary_dim", "", "{\"rotary_dim\": 26}", REFUSED, "rotary_dim is 26"},
    {"rotary_dim", "{\"rotary_dim\": null}", "{\"rotary_dim\": 24}", SAME, "null means whole heads"},
    {"layer_norm_epsilon", "", "{\"layer_norm_epsilon\": 0.5}", CHANGES, ""},
    {"rotary", "", "{\"rotary\": true}", SAME, "GPT-J always turns"},
    {"n_ctx", "", "{\"n_ctx\": 40}", SAME, "the old name of n_positions, which is there"},
    {"scale_attn_weights", "", "{\"scale_attn_weights\": false}", SAME, "GPT-J's code does not look at it"},
};

static const struct flip opt[] = {
    {"num_attention_heads", "", "{\"num_attention_heads\": 4}", CHANGES, ""},
    {"num_attention_heads", "", "{\"num_attention_heads\": 5}", REFUSED, "cannot be divided into 5 heads"},
    {"max_position_embeddings", "", "{\"max_position_embeddings\": 170}", REFUSED, "config.json asks for"},
    {"word_embed_proj_dim", "", "{\"word_embed_proj_dim\": 32}", REFUSED, "config.json asks for"},
    {"ffn_dim", "", "{\"ffn_dim\": 100}", REFUSED, "config.json asks for"},
    {"do_layer_norm_before", "", "", EITHER, ""},
    {"_remove_final_layer_norm", "", "", EITHER, ""},
    {"enable_bias", "", "", EITHER, ""},
    {"layer_norm_elementwise_affine", "", "", EITHER, ""},
};

static const struct flip mistral[] = {
    OWN_HEAD,
    {"sliding_window", "", "{\"sliding_window\": null}", CHANGES, ""},
    {"sliding_window", "", "{\"sliding_window\": 3}", CHANGES, ""},
};

static const struct flip qwen2[] = {
    OWN_HEAD,
    {"use_sliding_window", "", "", EITHER, ""},
    {"sliding_window", "{\"use_sliding_window\": false}", "{\"sliding_window\": 3}", SAME, "it is off"},
    {"sliding_window", "", "{\"sliding_window\": 3}", CHANGES, ""},
    {"max_window_layers", "", "{\"max_window_layers\": 2}", CHANGES, ""},
    {"max_window_layers", "{\"use_sliding_window\": false}", "{\"max_window_layers\": 3}", SAME, "it is off"},
    {"layer_types", "", "{\"layer_types\": [" FULL ", " SLIDING ", " FULL "]}", CHANGES, ""},
    {"layer_types", "", "{\"layer_types\": [" FULL ", " SLIDING ", " SLIDING "]}", SAME,
     "max_window_layers says the same"},
    {"layer_types", "", "{\"layer_types\": [" FULL "]}", REFUSED, "1 entries for 3 layers"},
};

#define WINDOWS "{\"use_sliding_window\": true, \"sliding_window\": 9, \"max_window_layers\": 1}"
static const struct flip qwen3[] = {
    OWN_HEAD,
    {"use_sliding_window", WINDOWS, "", EITHER, ""},
    {"sliding_window", WINDOWS, "{\"sliding_window\": 3}", CHANGES, ""},
    {"sliding_window", "", "{\"sliding_window\": 3}", SAME, "use_sliding_window is false"},
    {"max_window_layers", WINDOWS, "{\"max_window_layers\": 2}", CHANGES, ""},
    {"layer_types", WINDOWS, "{\"layer_types\": [" SLIDING ", " FULL "]}", CHANGES, ""},
};

static const struct flip phi3[] = {
    OWN_HEAD,
    {"sliding_window", "", "{\"sliding_window\": null}", CHANGES, ""},
    {"sliding_window", "", "{\"sliding_window\": 3}", CHANGES, ""},
    {"partial_rotary_factor", "", "{\"partial_rotary_factor\": 0.5}", CHANGES, ""},
    {"partial_rotary_factor", "", "{\"partial_rotary_factor\": 0.07}", REFUSED, "expected an even number"},
    {"original_max_position_embeddings", "", "{\"original_max_position_embeddings\": 100}", SAME,
     "longrope alone counts from it"},
    {"original_max_position_embeddings",
     "{\"rope_scaling\": {" LONG "}, \"original_max_position_embeddings\": 256}",
     "{\"original_max_position_embeddings\": 400}", CHANGES, ""},
    {"rope_scaling", "{\"rope_scaling\": {" LONG "}}",
     "{\"rope_scaling\": {\"type\": \"su\", \"short_factor\": " EIGHT ", \"long_factor\": " EIGHT "}}", SAME,
     "an older name of longrope"},
    {"rope_scaling", "{\"rope_scaling\": {" LONG "}}",
     "{\"rope_scaling\": {\"type\": \"yarn\", \"short_factor\": " EIGHT ", \"long_factor\": " EIGHT "}}",
     SAME, "an older name of longrope"},
};

#define GEMMA_ROPES(g, l)                                                                              \
    "{\"rope_scaling\": null, \"rope_parameters\": {\"full_attention\": {\"rope_type\": \"default\", " \
    "\"rope_theta\": " g "}, \"sliding_attention\": {\"rope_type\": \"default\", \"rope_theta\": " l "}}}"
static const struct flip gemma3[] = {
    {"sliding_window_pattern", "", "{\"sliding_window_pattern\": 2}", CHANGES, ""},
    {"_sliding_window_pattern", "", "{\"_sliding_window_pattern\": 2}", SAME, "layer_types stands beside it"},
    {"layer_types", "",
     "{\"layer_types\": [" FULL ", " FULL ", " SLIDING ", " SLIDING ", " FULL ", " FULL ", " FULL "]}",
     CHANGES, ""},
    {"query_pre_attn_scalar", "", "{\"query_pre_attn_scalar\": 2}", CHANGES, ""},
    {"use_bidirectional_attention", "", "", EITHER, "goes in both directions"},
    {"use_bidirectional_attention", "", "{\"use_bidirectional_attention\": null}", SAME, "null is false"},
    {"tie_word_embeddings", "", "", EITHER, "lm_head.weight is missing"},
    {"tie_word_embeddings", "", "{\"tie_word_embeddings\": null}", REFUSED,
     "is null, expected a boolean, true or"},
    {"attn_logit_softcapping", "", "{\"attn_logit_softcapping\": 0.1}", CHANGES, ""},
    {"rope_local_base_freq", "", "{\"rope_local_base_freq\": 777}", CHANGES, ""},
    {"rope_parameters", GEMMA_ROPES("5000", "500"), GEMMA_ROPES("6000", "500"), CHANGES, ""},
    {"rope_parameters", GEMMA_ROPES("5000", "500"), GEMMA_ROPES("5000", "600"), CHANGES, ""},
    {"rope_scaling", "{\"rope_scaling\": null}",
     "{\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 3}}", CHANGES, ""},
    {"original_max_position_embeddings", "", "{\"original_max_position_embeddings\": 100}", SAME,
     "a linear rope does not count from it"},
};

static const struct flip mixtral[] = {
    OWN_HEAD,
    {"num_experts", "", "{\"num_local_experts\": null, \"num_experts\": 4}", SAME, "another name"},
    {"num_experts", "", "{\"num_local_experts\": null, \"num_experts\": 3}", REFUSED, "config.json asks for"},
    {"num_experts", "", "{\"num_experts\": 3}", SAME, "num_local_experts goes before it"},
};

static const struct flip qwen3_moe[] = {
    OWN_HEAD,
    {"num_experts", "", "{\"num_experts\": 7}", REFUSED, "config.json asks for"},
    {"num_local_experts", "", "{\"num_local_experts\": 6, \"num_experts\": null}", SAME, "another name"},
    {"num_local_experts", "", "{\"num_local_experts\": 5, \"num_experts\": null}", REFUSED,
     "config.json asks"},
    {"moe_intermediate_size", "", "{\"moe_intermediate_size\": 33}", REFUSED, "config.json asks for"},
    {"norm_topk_prob", "", "", EITHER, ""},
    {"decoder_sparse_step", "", "{\"decoder_sparse_step\": 3}", REFUSED, "is missing"},
    {"mlp_only_layers", "", "{\"mlp_only_layers\": []}", REFUSED, "is missing"},
    {"use_sliding_window", "{\"sliding_window\": 9, \"use_sliding_window\": true}", "", EITHER, ""},
    {"sliding_window", "", "{\"sliding_window\": 3}", SAME, "use_sliding_window is false"},
    {"sliding_window", "{\"sliding_window\": 9, \"use_sliding_window\": true}", "{\"sliding_window\": 3}",
     CHANGES, ""},
    {"max_window_layers", "{\"sliding_window\": 9, \"use_sliding_window\": true}",
     "{\"max_window_layers\": 1}", SAME, "a window is in all layers or in none"},
};

static const struct flip gpt_oss[] = {
    OWN_HEAD,
    {"hidden_act", "", "{\"hidden_act\": \"relu\"}", SAME,
     "the experts' function is fixed, as in transformers"},
    {"hidden_act", "", "{\"hidden_act\": \"none\"}", REFUSED, "\"none\" is not a known activation"},
    {"num_experts", "", "{\"num_local_experts\": null, \"num_experts\": 6}", SAME, "another name"},
    {"num_experts", "", "{\"num_local_experts\": null, \"num_experts\": 5}", REFUSED, "config.json asks for"},
    {"num_experts_per_tok", "", "{\"num_experts_per_tok\": 2}", CHANGES, ""},
    {"max_position_embeddings", "", "{\"max_position_embeddings\": 2000}", LENGTH, ""},
    {"swiglu_alpha", "", "{\"swiglu_alpha\": 1}", CHANGES, ""},
    {"swiglu_limit", "", "{\"swiglu_limit\": 0.01}", CHANGES, ""},
    {"layer_types", "", "{\"layer_types\": [" FULL ", " SLIDING "]}", CHANGES, ""},
    {"layer_types", "", "{\"layer_types\": null}", SAME, "every second one from the first on is the default"},
    {"layer_types", "", "{\"layer_types\": [" FULL ", " CHUNKED "]}", REFUSED,
     "which this architecture does not support"},
    {"quantization_config", "", "{\"quantization_config\": {\"quant_method\": \"mxfp4\"}}", SAME,
     "the tensors' names say what is packed"},
    {"quantization_config", "", "{\"quantization_config\": {\"quant_method\": \"fp8\"}}", REFUSED, "fp8"},
    {"experts_per_token", "", "{\"experts_per_token\": 2}", SAME, "the older name of a key beside it"},
    {"initial_context_length", "", "{\"initial_context_length\": 99}", SAME,
     "the older name of a key beside it"},
    {"original_max_position_embeddings", "", "{\"original_max_position_embeddings\": 16}", CHANGES, ""},
    {"rope_theta", "{\"rope_parameters\": null}", "{\"rope_theta\": 777}", CHANGES, ""},
};

static const struct flip llama4[] = {
    OWN_HEAD,
    {"moe_layers", "", "{\"moe_layers\": [1, 3]}", SAME, "interleave_moe_layer_step says the same"},
    {"moe_layers", "", "{\"moe_layers\": [0, 1]}", REFUSED, "is missing"},
    {"interleave_moe_layer_step", "", "{\"interleave_moe_layer_step\": 4}", REFUSED, "is missing"},
    {"attention_chunk_size", "", "{\"attention_chunk_size\": 7}", CHANGES, ""},
    {"no_rope_layer_interval", "", "{\"no_rope_layer_interval\": 2}", CHANGES, ""},
    {"no_rope_layers", "", "{\"no_rope_layers\": [1, 1, 0, 1]}", CHANGES, ""},
    {"no_rope_layers", "", "{\"no_rope_layers\": [1, 1, 1, 0]}", SAME, "the interval says the same"},
    {"no_rope_layers", "", "{\"no_rope_layers\": [1, 1]}", REFUSED, "2 entries, expected 4"},
    {"layer_types", "", "{\"layer_types\": [" FULL ", " CHUNKED ", " CHUNKED ", " FULL "]}", CHANGES, ""},
    {"attn_scale", "", "{\"attn_scale\": 0.9}", CHANGES, ""},
    {"floor_scale", "", "{\"floor_scale\": 5}", CHANGES, ""},
    {"attn_temperature_tuning", "", "", EITHER, ""},
    {"use_qk_norm", "", "", EITHER, ""},
    {"intermediate_size_mlp", "", "{\"intermediate_size_mlp\": 65}", REFUSED, "config.json asks for"},
};

#define GEMMA4_ROPES(g, part, l)                                                                      \
    "{\"rope_parameters\": {\"full_attention\": {\"rope_type\": \"proportional\", \"rope_theta\": " g \
    ", \"partial_rotary_factor\": " part "}, \"sliding_attention\": {\"rope_type\": \"default\", "    \
    "\"rope_theta\": " l "}}}"
#define GEMMA4_COMMON                                                                                        \
    {"rope_parameters", GEMMA4_ROPES("5000", "0.25", "500"), GEMMA4_ROPES("6000", "0.25", "500"), CHANGES,   \
     ""},                                                                                                    \
        {"rope_parameters", GEMMA4_ROPES("5000", "0.25", "500"), GEMMA4_ROPES("5000", "0.5", "500"),         \
         CHANGES, ""},                                                                                       \
        {"rope_parameters", GEMMA4_ROPES("5000", "0.25", "500"), GEMMA4_ROPES("5000", "0.25", "600"),        \
         CHANGES, ""},                                                                                       \
        {"global_head_dim", "", "{\"global_head_dim\": 64}", REFUSED, "config.json asks for"},               \
        {"use_bidirectional_attention", "", "{\"use_bidirectional_attention\": \"vision\"}", SAME,           \
         "it is said of images"},                                                                            \
        {"use_bidirectional_attention", "", "{\"use_bidirectional_attention\": \"all\"}", REFUSED,           \
         "use_bidirectional_attention"},                                                                     \
    {                                                                                                        \
        "original_max_position_embeddings", GEMMA4_ROPES("5000", "0.25", "500"),                             \
            "{\"original_max_position_embeddings\": 16}", SAME, "a proportional rope does not count from it" \
    }

static const struct flip gemma4[] = {
    GEMMA4_COMMON,
    {"enable_moe_block", "", "", EITHER, "enable_moe_block is true, but"},
    {"num_experts", "", "{\"num_experts\": 3}", SAME, "enable_moe_block is false"},
    {"top_k_experts", "", "{\"top_k_experts\": 3}", SAME, "enable_moe_block is false"},
    {"moe_intermediate_size", "", "{\"moe_intermediate_size\": 3}", SAME, "enable_moe_block is false"},
    {"num_global_key_value_heads", "", "{\"num_global_key_value_heads\": 3}", SAME,
     "attention_k_eq_v is false"},
    {"attention_k_eq_v", "", "", EITHER, ""},
    {"per_layer_config", "", "{\"per_layer_config\": {\"1\": {\"head_dim\": 32}, \"5\": {\"head_dim\": 32}}}",
     SAME, "it says what global_head_dim says"},
    {"per_layer_config", "", "{\"per_layer_config\": {\"1\": {\"head_dim\": 64}, \"5\": {\"head_dim\": 32}}}",
     REFUSED, "head sizes 64 and 32"},
    {"per_layer_config", "",
     "{\"per_layer_config\": {\"1\": {\"head_dim\": 32}, \"5\": {\"head_dim\": 32, \"num_key_value_heads\": 2}}}",
     REFUSED, "not divisible by 2"},
    {"layer_types", "",
     "{\"layer_types\": [" FULL ", " FULL ", " SLIDING ", " SLIDING ", " SLIDING ", " FULL "]}", REFUSED,
     "config.json asks for"},
    {"layer_types", "",
     "{\"layer_types\": [" SLIDING ", " CHUNKED ", " SLIDING ", " SLIDING ", " SLIDING ", " FULL "]}",
     REFUSED, "which this architecture does not support"},
    {"vocab_size_per_layer_input", "", "{\"vocab_size_per_layer_input\": 170}", REFUSED,
     "config.json asks for"},
    {"hidden_size_per_layer_input", "", "{\"hidden_size_per_layer_input\": 7}", REFUSED,
     "config.json asks for"},
    {"hidden_size_per_layer_input", "", "{\"hidden_size_per_layer_input\": 0}", CHANGES, ""},
    {"num_kv_shared_layers", "", "{\"num_kv_shared_layers\": 1}", REFUSED, "is missing|config.json asks for"},
    {"use_double_wide_mlp", "", "", EITHER, "config.json asks for"},
};

static const struct flip gemma4_moe[] = {
    GEMMA4_COMMON,
    {"enable_moe_block", "", "", EITHER, ""},
    {"num_experts", "", "{\"num_experts\": 3}", REFUSED, "config.json asks for"},
    {"num_experts", "", "{\"num_experts\": null}", REFUSED, "num_experts or top_k_experts is missing"},
    {"top_k_experts", "", "{\"top_k_experts\": 3}", CHANGES, ""},
    {"top_k_experts", "", "{\"top_k_experts\": 5}", REFUSED, "top_k_experts is 5, but there are 4"},
    {"moe_intermediate_size", "", "{\"moe_intermediate_size\": 33}", REFUSED, "config.json asks for"},
    {"num_global_key_value_heads", "", "{\"num_global_key_value_heads\": 3}", REFUSED,
     "config.json asks for"},
    {"attention_k_eq_v", "", "", EITHER, "v_proj.weight is missing"},
    {"per_layer_config", "", "{\"per_layer_config\": {\"2\": {\"head_dim\": 32}}}", SAME,
     "it says what global_head_dim says"},
    {"layer_types", "", "{\"layer_types\": [" FULL ", " SLIDING ", " FULL "]}", REFUSED,
     "config.json asks for"},
    {"vocab_size_per_layer_input", "", "{\"vocab_size_per_layer_input\": 170}", SAME,
     "hidden_size_per_layer_input is 0"},
    {"hidden_size_per_layer_input", "", "{\"hidden_size_per_layer_input\": 8}", REFUSED, "is missing"},
    {"num_kv_shared_layers", "", "{\"num_kv_shared_layers\": 1}", REFUSED, "no layer of its type stores any"},
    {"use_double_wide_mlp", "", "{\"use_double_wide_mlp\": true}", SAME, "no layer shares keys"},
};

#define FLIPS(x) x, sizeof(x) / sizeof((x)[0])

static const struct arch {
    const char *golden;
    /* These keys are special for the architecture, and replace common ones of the same name. */
    const struct flip *flip;
    size_t n;
} archs[] = {
    {"llama3-rope", FLIPS(llama)}, {"gpt2", FLIPS(gpt2)},           {"opt", FLIPS(opt)},
    {"gptj", FLIPS(gptj)},         {"mistral", FLIPS(mistral)},     {"qwen2-window", FLIPS(qwen2)},
    {"qwen3", FLIPS(qwen3)},       {"phi3", FLIPS(phi3)},           {"gemma3", FLIPS(gemma3)},
    {"mixtral", FLIPS(mixtral)},   {"qwen3-moe", FLIPS(qwen3_moe)}, {"gpt-oss", FLIPS(gpt_oss)},
    {"llama4", FLIPS(llama4)},     {"gemma4", FLIPS(gemma4)},       {"gemma4-moe", FLIPS(gemma4_moe)},
};

/* Copies the weights of GOLDEN, and returns its config. json_decref(). */
static json_t *copy_golden(const char *golden)
{
    char path[4096];
    json_t *config;

    snprintf(path, sizeof(path), "%s/model.safetensors", engines_path(golden));
    files_copy(path, scratch);
    snprintf(path, sizeof(path), "%s/config.json", engines_path(golden));
    assert_non_null(config = json_load_file(path, 0, NULL));
    return config;
}

static size_t try_key(const struct arch *a, const json_t *config, const char *key, const struct flip *list,
                      size_t n)
{
    size_t found = 0;

    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i].key, key) == 0) {
            try_flip(a->golden, config, &list[i]);
            found++;
        }
    return found;
}

/* RoPE keys are tested separately, and so is text_config. */
static bool tried_elsewhere(const char *key)
{
    for (size_t i = 0; i < sizeof(rope) / sizeof(*rope); i++) {
        const char *dot = strrchr(key, '.');

        if (dot && strncmp(key, "rope_", 5) == 0 && strcmp(dot + 1, rope[i].key) == 0)
            return true;
    }
    return strcmp(key, "text_config") == 0 || strncmp(key, "per_layer_config.", 17) == 0 ||
           strncmp(key, "quantization_config.", 20) == 0 ||
           strcmp(key, "rope_parameters.full_attention") == 0 ||
           strcmp(key, "rope_parameters.sliding_attention") == 0;
}

static void every_key(const struct arch *a)
{
    json_t *config = copy_golden(a->golden);
    struct result r;

    n_asked = 0;
    compute(config, &r);
    if (r.rc)
        fail_msg("%s: %s", a->golden, r.err);
    /* The list grows while changed values make the model read more keys. */
    for (size_t i = 0; i < n_asked; i++) {
        char key[96];

        strcpy(key, asked[i]);
        if (!tried_elsewhere(key) && !try_key(a, config, key, a->flip, a->n) &&
            !try_key(a, config, key, common, sizeof(common) / sizeof(*common)))
            fail_msg("%s: config.json's %s is read, but nothing here tries it", a->golden, key);
    }
    for (size_t i = 0; i < a->n; i++) {
        size_t k = 0;

        while (k < n_asked && strcmp(asked[k], a->flip[i].key) != 0)
            k++;
        if (k == n_asked)
            fail_msg("%s: %s is tried, but nobody reads it", a->golden, a->flip[i].key);
    }
    json_decref(config);
}

static void every_key_that_a_model_reads_has_its_effect(void **state)
{
    for (size_t i = 0; i < sizeof(archs) / sizeof(*archs); i++)
        every_key(&archs[i]);
}

/* Returns INNER as the RoPE part of a config in the new or the old style. */
static void rope_patch(char *out, size_t size, bool old, const char *inner)
{
    snprintf(out, size, "{\"%s\": null, \"%s\": {%s}}", old ? "rope_parameters" : "rope_scaling",
             old ? "rope_scaling" : "rope_parameters", inner);
}

static void every_key_of_the_rotary_part_has_its_effect_in_both_styles(void **state)
{
    json_t *config = copy_golden("llama3-rope");

    json_object_set_new(config, "rope_theta", json_real(10000));
    for (int old = 0; old < 2; old++) {
        char base[1024], to[1024], name[96];

        n_asked = 0;
        for (size_t i = 0; i < sizeof(rope) / sizeof(*rope); i++) {
            struct flip f = rope[i];

            rope_patch(base, sizeof(base), old, f.base);
            rope_patch(to, sizeof(to), old, f.to);
            f.base = base;
            f.to = to;
            try_flip("llama3-rope", config, &f);
        }
        for (size_t i = 0; i < n_asked; i++)
            if (strchr(asked[i], '.') && !tried_elsewhere(asked[i]))
                fail_msg("config.json's %s is read, but nothing here tries it", asked[i]);
        for (size_t i = 0; i < sizeof(rope) / sizeof(*rope); i++) {
            size_t k = 0;

            snprintf(name, sizeof(name), "%s.%s", old ? "rope_scaling" : "rope_parameters", rope[i].key);
            while (k < n_asked && strcmp(asked[k], name) != 0)
                k++;
            if (k == n_asked)
                fail_msg("%s is tried, but nobody reads it", name);
        }
    }
    json_decref(config);
}

/* The context length: RoPE types that stretch it multiply the length that they start from. */
static void each_rope_type_gives_the_longest_sequence(void **state)
{
    static const struct {
        const char *golden, *inner;
        size_t max_len;
    } of[] = {{"llama3-rope", "", 1024},
              {"llama3-rope", "\"rope_type\": \"linear\", \"factor\": 4", 4096},
              {"llama3-rope", "\"rope_type\": \"linear\", \"factor\": 0.5", 1024},
              {"llama3-rope", "\"rope_type\": \"linear\", \"factor\": 16384", 1 << 24},
              {"llama3-rope", "\"rope_type\": \"linear\", \"factor\": 16385", 1024},
              {"llama3-rope",
               "\"rope_type\": \"linear\", \"factor\": 4, \"original_max_position_embeddings\": 512", 4096},
              {"llama3-rope", "\"rope_type\": \"dynamic\", \"factor\": 4", 4096},
              {"llama3-rope",
               "\"rope_type\": \"dynamic\", \"factor\": 4, \"original_max_position_embeddings\": 512", 4096},
              {"llama3-rope",
               "\"rope_type\": \"yarn\", \"factor\": 4, \"original_max_position_embeddings\": 512", 2048},
              {"llama3-rope", YARN, 1024},
              {"llama3-rope", "\"rope_type\": \"yarn\", \"factor\": 4", 4096},
              {"llama3-rope", LLAMA ", \"low_freq_factor\": 1, \"high_freq_factor\": 4", 1024},
              {"llama3-rope", LONG ", \"original_max_position_embeddings\": 64, \"factor\": 32", 1024},
              {"gemma3", "\"rope_type\": \"linear\", \"factor\": 4", 512}};

    for (size_t i = 0; i < sizeof(of) / sizeof(*of); i++) {
        struct model_options mo = {.dtype = DT_F32, .kern = kern_table(cpu_best())};
        json_t *config = copy_golden(of[i].golden), *now;
        struct pool *pool;
        struct model m;
        struct err e = {0};
        char patch[1024];

        rope_patch(patch, sizeof(patch), true, of[i].inner);
        now = patched(config, patch);
        snprintf(patch, sizeof(patch), "%s/config.json", scratch);
        assert_int_equal(json_dump_file(now, patch, 0), 0);
        assert_int_equal(pool_new(&pool, 1, &e), 0);
        if (model_open(&m, scratch, &mo, pool, &e) != 0)
            fail_msg("%s", e.msg);
        if (m.info.max_len != of[i].max_len)
            fail_msg("%s with {%s}: a sequence may have %zu tokens, expected %zu", of[i].golden, of[i].inner,
                     m.info.max_len, of[i].max_len);
        model_close(&m);
        pool_free(pool);
        json_decref(config);
        json_decref(now);
    }
}

/* Models that also read images or audio have the text model's config in an object of their own. */
static void a_text_config_is_the_model_and_its_towers_are_passed_over(void **state)
{
    static const struct {
        const char *golden, *class_name, *model_type;
    } of[] = {{"gemma3", "Gemma3ForConditionalGeneration", "gemma3"},
              {"llama4", "Llama4ForConditionalGeneration", "llama4"},
              {"gemma4", "Gemma4ForConditionalGeneration", "gemma4"}};

    for (size_t i = 0; i < sizeof(of) / sizeof(*of); i++) {
        json_t *config = copy_golden(of[i].golden), *outer;
        struct result plain, inside;

        compute(config, &plain);
        outer = json_pack("{s:[s], s:s, s:O, s:{s:i}, s:i, s:i}", "architectures", of[i].class_name,
                          "model_type", of[i].model_type, "text_config", config, "vision_config",
                          "hidden_size", 99, "image_token_index", 5, "mm_tokens_per_image", 256);
        compute(outer, &inside);
        if (!same(&plain, &inside))
            fail_msg("%s as text_config: %s", of[i].golden, inside.rc ? inside.err : "other logits");
        json_object_set_new(config, "rms_norm_eps", json_real(0.5));
        compute(outer, &inside);
        assert_int_equal(inside.rc, 0);
        assert_false(same(&plain, &inside));
        json_decref(outer);
        json_decref(config);
    }
}

/* OPT and GPT-2 have no other head size and no smaller number of KV heads, so a config with them describes
 * something else. */
static void sizes_that_a_model_does_not_have_are_refused(void **state)
{
    static const struct flip of[] = {
        {"head_dim", "", "{\"head_dim\": 64}", REFUSED, "head_dim"},
        {"num_key_value_heads", "", "{\"num_key_value_heads\": 1}", REFUSED, "num_key_value_heads"},
    };
    static const char *const goldens[] = {"opt", "gpt2", "gptj"};

    for (size_t g = 0; g < sizeof(goldens) / sizeof(*goldens); g++) {
        json_t *config = copy_golden(goldens[g]);

        for (size_t i = 0; i < sizeof(of) / sizeof(*of); i++)
            try_flip(goldens[g], config, &of[i]);
        json_decref(config);
    }
}

/* transformers multiplies embeddings by a square root that is rounded to the computing dtype. */
static void the_scale_of_the_embedding_is_rounded_as_it_is_computed(void **state)
{
    static const char *const goldens[] = {"gemma3", "gemma4"};

    for (size_t i = 0; i < 2; i++)
        for (int bf16 = 0; bf16 < 2; bf16++) {
            struct gallop_options o = engines_options(1, 0, 0);
            struct gallop *g;
            float scale;

            o.dtype = bf16 ? "bf16" : "fp32";
            g = engines_open(goldens[i], &o);
            scale = ((const struct decoder *)engine_llm(g)->model.impl)->embed.scale;
            if (scale != (bf16 ? 6.9375f : 6.92820323f)) /* the square root of 48 */
                fail_msg("%s in %s: the embedding is multiplied by %.9g, expected %s", goldens[i], o.dtype,
                         (double)scale, bf16 ? "6.9375" : "6.92820323");
            gallop_close(g);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_that_a_model_reads_has_its_effect),
        cmocka_unit_test(every_key_of_the_rotary_part_has_its_effect_in_both_styles),
        cmocka_unit_test(each_rope_type_gives_the_longest_sequence),
        cmocka_unit_test(a_text_config_is_the_model_and_its_towers_are_passed_over),
        cmocka_unit_test(sizes_that_a_model_does_not_have_are_refused),
        cmocka_unit_test(the_scale_of_the_embedding_is_rounded_as_it_is_computed),
    };

    log_set_level(LOG_ERROR);
    scratch = files_folder();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
