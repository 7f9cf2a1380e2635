/* config.c - the tree of objects in config.json, and the getters, which mark the keys that they read.
 *
 * Only objects are parsed into nodes. Any other value is kept as validated JSON text until a getter reads it.
 * So memory is a small multiple of the file, whose size is limited.
 */
#include "ckpt/config.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/json/json_pull.h"
#include "base/log.h"
#include "base/strmap.h"
#include "base/utf8.h"

enum { MAX_BYTES = 16 << 20, MOST_PREFIX = 200 /* without the last point */ };

/* A key with which a getter was called. */
struct asked {
    struct asked *older;
    const char *prefix;
    char name[]; /* PREFIX and the key */
};

struct node {
    const char *name;    /* terminated */
    struct json_str raw; /* the JSON text of the value */
    enum json_pull_type type;
    struct config *child; /* the value, if it is an object */
    struct node *next;    /* next key in file order */
    bool asked;           /* a getter was called with this key */
    bool ignored;         /* the key and all keys inside it have no effect */
    bool wanted_object;   /* config_sub() was called, but the value is not an object */
};

/* The data that all objects of one file share. */
struct doc {
    struct arena arena; /* the memory of the text, nodes, objects and strings */
    const char *path;
    uint64_t sum;           /* XXH3-64 hash of the text */
    struct config *objects; /* all objects, newest first; each owns an index */
    struct asked *asked;    /* newest first */
};

struct config {
    struct doc *doc;
    const char *prefix;  /* the prefix of the names of keys: "" or, for example, "text_config." */
    struct strmap index; /* key -> struct node * */
    struct node *first, **last;
    struct config *older; /* the next object in doc->objects */
};

/* ---- reading ---- */

static struct config *new_object(struct doc *d, const char *prefix)
{
    struct config *c = arena_zalloc(&d->arena, 1, sizeof(*c));

    if (!c)
        return NULL;
    c->doc = d;
    c->prefix = prefix;
    c->last = &c->first;
    strmap_init(&c->index, MEM_CKPT);
    c->older = d->objects;
    d->objects = c;
    return c;
}

/* Returns the prefix of the keys inside NAME, an object in C. A prefix of more than MOST_PREFIX bytes is replaced by
 * the prefix of C, because a file may have many objects inside one with a long name. */
static const char *child_prefix(struct config *c, const char *name)
{
    size_t outer = strlen(c->prefix), n = strlen(name);
    char *text;

    if (outer + n > MOST_PREFIX)
        return c->prefix;
    text = arena_alloc(&c->doc->arena, outer + n + 2);

    if (text) {
        memcpy(text, c->prefix, outer);
        memcpy(text + outer, name, n);
        memcpy(text + outer + n, ".", 2);
    }
    return text;
}

static void out_of_memory(struct json_pull *j)
{
    j->rc = err_nomem(j->e, j->path);
}

static struct node *add_node(struct config *c, struct json_pull *j, const struct json_str *key)
{
    struct node *n = arena_zalloc(&c->doc->arena, 1, sizeof(*n));
    int put;

    if (memchr(key->s, 0, key->n)) {
        json_pull_fail(j, "a key has a NUL character");
        return NULL;
    }
    if (!n || !(n->name = arena_strndup(&c->doc->arena, key->s, key->n)) ||
        (put = strmap_put(&c->index, n->name, key->n, (uint64_t)(uintptr_t)n)) < 0) {
        out_of_memory(j);
        return NULL;
    }
    if (put == 0) {
        json_pull_fail(j, "key %s%.200s appears twice", c->prefix, n->name);
        return NULL;
    }
    *c->last = n;
    c->last = &n->next;
    return n;
}

/* Reads the object at J into C. Recursion is limited to JSON_PULL_MAX_DEPTH, the depth of objects. */
static void read_object(struct config *c, struct json_pull *j)
{
    struct json_str key;

    for (json_pull_enter_object(j); json_pull_key(j, &key);) {
        struct node *n = add_node(c, j, &key);
        const char *prefix;

        if (!n)
            return;
        n->type = json_pull_peek(j);
        if (n->type != JSON_PULL_OBJECT) {
            n->raw = json_pull_raw(j);
            continue;
        }
        prefix = child_prefix(c, n->name);
        n->child = prefix ? new_object(c->doc, prefix) : NULL;
        if (!n->child) {
            out_of_memory(j);
            return;
        }
        n->raw = (struct json_str){"{...}", 5};
        read_object(n->child, j);
    }
}

static int read_value_text(struct doc *d, const char *text, size_t len, struct config **root, struct err *e)
{
    struct json_pull j;
    int rc;

    if ((rc = json_pull_open(&j, text, len, d->path, &d->arena, e)) != 0)
        return rc;
    j.is_python = true;
    if (!(*root = new_object(d, "")))
        return err_nomem(e, d->path);
    if (json_pull_peek(&j) != JSON_PULL_OBJECT)
        return json_pull_fail(&j, "the file must hold one JSON object");
    read_object(*root, &j);
    return json_pull_finish(&j);
}

static void close_doc(struct doc *d)
{
    struct arena arena = d->arena; /* copies the arena, because it holds D */

    for (struct config *c = d->objects; c; c = c->older)
        strmap_fini(&c->index);
    arena_fini(&arena);
}

int config_open_text(struct config **out, const char *text, size_t len, const char *path, struct err *e)
{
    struct arena arena;
    struct doc *d;
    const char *copy;
    int rc;

    *out = NULL;
    if (len > MAX_BYTES)
        return err_set(e, ERR_INPUT, "%s: the file has %zu bytes, at most %d are allowed", path, len,
                       MAX_BYTES);
    if (len == 0)
        return err_set(e, ERR_INPUT, "%s: the file is empty", path);
    arena_init(&arena, MEM_CKPT);
    d = arena_zalloc(&arena, 1, sizeof(*d));
    copy = arena_strndup(&arena, text, len);
    if (!d || !copy || !(d->path = arena_strndup(&arena, path, strlen(path)))) {
        arena_fini(&arena);
        return err_nomem(e, path);
    }
    d->arena = arena;
    d->sum = XXH3_64bits(text, len);
    if ((rc = read_value_text(d, copy, len, out, e)) != 0) {
        close_doc(d);
        *out = NULL;
    }
    return rc;
}

int config_open(struct config **out, struct folder in, const char *file, struct err *e)
{
    struct folder_text f;
    int rc;

    *out = NULL;
    if ((rc = folder_read(&f, in, file, NULL, e)) != 0)
        return rc;
    rc = config_open_text(out, f.bytes, f.len, f.path, e);
    folder_text_fini(&f);
    return rc;
}

void config_close(struct config *c)
{
    if (c)
        close_doc(c->doc);
}

const char *config_path(const struct config *c)
{
    return c->doc->path;
}

uint64_t config_sum(const struct config *c)
{
    return c->doc->sum;
}

/* ---- getters ---- */

/* Records KEY for config_asked(). Without memory KEY is left out, because only tests read the list. */
static void note_asked(struct config *c, const char *key)
{
    size_t outer = strlen(c->prefix), n = strlen(key);
    struct asked *a;

    for (a = c->doc->asked; a; a = a->older)
        if (a->prefix == c->prefix && strcmp(a->name + outer, key) == 0)
            return;
    if (!(a = arena_alloc(&c->doc->arena, sizeof(*a) + outer + n + 1)))
        return;
    *a = (struct asked){.older = c->doc->asked, .prefix = c->prefix};
    memcpy(a->name, c->prefix, outer);
    memcpy(a->name + outer, key, n + 1);
    c->doc->asked = a;
}

const char *config_asked(const struct config *c, size_t i)
{
    const struct asked *a = c->doc->asked;

    while (a && i--)
        a = a->older;
    return a ? a->name : NULL;
}

/* Returns the node of KEY and marks it. NULL: KEY is missing. */
static struct node *find_key(struct config *c, const char *key)
{
    struct node *n;
    uint64_t at;

    note_asked(c, key);
    if (!strmap_get(&c->index, key, strlen(key), &at))
        return NULL;
    n = (struct node *)(uintptr_t)at;
    n->asked = true;
    return n;
}

/* Like find_key(), but returns NULL also if the value is null. */
static struct node *find_key_value(struct config *c, const char *key)
{
    struct node *n = find_key(c, key);

    return n && n->type != JSON_PULL_NULL ? n : NULL;
}

/* Sets the error sentence "PATH: KEYINDEX is FOUND, expected EXPECTED". FOUND is JSON text. INDEX is "" or,
 * for an element of a list, its index ("[3]"). */
static int wrong_value(const struct config *c, const struct node *n, const char *index,
                       const struct json_str *found, struct err *e, const char *expected)
{
    int shown = found->n < 60 ? (int)found->n : 60;

    return err_set(e, ERR_INPUT, "%s: %s%.200s%s is %s%.*s%s, expected %s", c->doc->path, c->prefix, n->name,
                   index, found->n && found->s[0] == '"' ? "the string " : "", shown, found->s,
                   found->n > 60 ? "..." : "", expected);
}

static int wrong(const struct config *c, const struct node *n, struct err *e, const char *expected)
{
    return wrong_value(c, n, "", &n->raw, e, expected);
}

/* Opens a reader of the JSON text of N's value. The reader sets no error sentences, because wrong_value()
 * sets better ones. */
static void value_open(struct json_pull *j, struct config *c, const struct node *n)
{
    json_pull_open(j, n->raw.s, n->raw.n, c->doc->path, &c->doc->arena, NULL);
}

/* Reads an integer, which may be written as 8192.0. */
static bool value_int(struct json_pull *j, int64_t *v)
{
    struct json_pull whole = *j;
    double f;

    if (json_pull_peek(j) != JSON_PULL_NUMBER)
        return false;
    if (json_pull_i64(j, v))
        return true;
    if (!json_pull_f64(&whole, &f) || f != floor(f) || fabs(f) > 0x1p53)
        return false;
    *j = whole;
    *v = (int64_t)f;
    return true;
}

static int value_str(struct json_pull *j, struct config *c, const char **v, struct err *e)
{
    struct json_str s;
    char *copy;

    *v = "";
    if (json_pull_peek(j) != JSON_PULL_STRING || !json_pull_string(j, &s))
        return json_pull_rc(j) == ERR_NOMEM ? err_nomem(e, c->doc->path) : ERR_INPUT;
    if (memchr(s.s, 0, s.n))
        return ERR_INPUT;
    if (!(copy = arena_strndup(&c->doc->arena, s.s, s.n)))
        return err_nomem(e, c->doc->path);
    *v = copy;
    return 0;
}

bool config_has(struct config *c, const char *key)
{
    return find_key_value(c, key) != NULL;
}

bool config_given(struct config *c, const char *key)
{
    return find_key(c, key) != NULL;
}

size_t config_count(const struct config *c)
{
    return c->index.n;
}

/* Keys of sizes that every model needs. Null is an error for them. */
static const char *const sizes[] = {"hidden_size",
                                    "intermediate_size",
                                    "num_hidden_layers",
                                    "num_attention_heads",
                                    "vocab_size",
                                    "rms_norm_eps",
                                    "n_embd",
                                    "n_layer",
                                    "n_head",
                                    "layer_norm_epsilon",
                                    "n_positions",
                                    "max_position_embeddings",
                                    "ffn_dim",
                                    "num_experts_per_tok"};

/* Like find_key_value(), but sets *RC to an error if a key of SIZES is null. */
static const struct node *find_number(struct config *c, const char *key, int *rc, struct err *e)
{
    const struct node *n = find_key(c, key);

    *rc = 0;
    if (!n || n->type != JSON_PULL_NULL)
        return n;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        if (strcmp(sizes[i], key) == 0)
            *rc = wrong(c, n, e, "a number");
    return NULL;
}

static int int_in(struct config *c, const struct node *n, int64_t lo, int64_t hi, int64_t *v, struct err *e)
{
    char expected[96];
    struct json_pull j;

    value_open(&j, c, n);
    if (value_int(&j, v) && *v >= lo && *v <= hi)
        return 0;
    *v = lo;
    snprintf(expected, sizeof(expected), "an integer from %" PRId64 " to %" PRId64, lo, hi);
    return wrong(c, n, e, expected);
}

int config_int(struct config *c, const char *key, int64_t def, int64_t lo, int64_t hi, int64_t *v,
               struct err *e)
{
    int rc;
    const struct node *n = find_number(c, key, &rc, e);

    *v = def;
    return n ? int_in(c, n, lo, hi, v, e) : rc;
}

int config_need_int(struct config *c, const char *key, int64_t lo, int64_t hi, int64_t *v, struct err *e)
{
    const struct node *n = find_key_value(c, key);

    *v = lo;
    if (!n)
        return err_set(e, ERR_INPUT, "%s: %s%s is missing, expected an integer from %" PRId64 " to %" PRId64,
                       c->doc->path, c->prefix, key, lo, hi);
    return int_in(c, n, lo, hi, v, e);
}

int config_float(struct config *c, const char *key, double def, double lo, double hi, double *v,
                 struct err *e)
{
    char expected[96];
    struct json_pull j;
    int rc;
    const struct node *n = find_number(c, key, &rc, e);

    *v = def;
    if (!n)
        return rc;
    value_open(&j, c, n);
    if (n->type == JSON_PULL_NUMBER && json_pull_f64(&j, v) && *v >= lo && *v <= hi)
        return 0;
    *v = def;
    snprintf(expected, sizeof(expected), "a number from %g to %g", lo, hi);
    return wrong(c, n, e, expected);
}

int config_bool(struct config *c, const char *key, bool def, bool *v, struct err *e)
{
    const struct node *n = find_key(c, key);

    *v = def;
    if (!n || (n->type == JSON_PULL_NULL && !def))
        return 0;
    *v = n->type == JSON_PULL_TRUE;
    return n->type == JSON_PULL_TRUE || n->type == JSON_PULL_FALSE
               ? 0
               : wrong(c, n, e, "a boolean, true or false");
}

int config_str(struct config *c, const char *key, const char *def, const char **v, struct err *e)
{
    const struct node *n = find_key_value(c, key);
    struct json_pull j;
    int rc;

    *v = def;
    if (!n)
        return 0;
    value_open(&j, c, n);
    if ((rc = value_str(&j, c, v, e)) == 0)
        return 0;
    *v = def;
    return rc == ERR_INPUT ? wrong(c, n, e, "a string") : rc;
}

/* Sets the error of element I of the list N. J is at the element. */
static int wrong_element(const struct config *c, const struct node *n, size_t i, struct json_pull *j,
                         struct err *e, const char *expected)
{
    const struct json_str found = json_pull_raw(j);
    char index[24];

    snprintf(index, sizeof(index), "[%zu]", i);
    return wrong_value(c, n, index, &found, e, expected);
}

static int too_long(const struct config *c, const struct node *n, size_t max, struct err *e)
{
    char expected[64];

    snprintf(expected, sizeof(expected), "a list of at most %zu values", max);
    return wrong(c, n, e, expected);
}

enum element { FLOATS, INTS, STRS };

/* Reads the list KEY into V [max], of double, int64_t or const char *. INTS also accepts a single integer. */
static int read_list(struct config *c, const char *key, enum element kind, void *v, size_t max, size_t *n,
                     struct err *e)
{
    static const char *const expected[] = {"a list of numbers", "an integer or a list of integers",
                                           "a list of strings"},
                             *const element[] = {"a number", "an integer", "a string"};
    const struct node *list = find_key_value(c, key);
    size_t len = 0;
    struct json_pull j;

    *n = 0;
    if (!list)
        return 0;
    value_open(&j, c, list);
    if (kind == INTS && list->type == JSON_PULL_NUMBER) {
        *n = max && value_int(&j, v);
        return *n ? 0 : wrong(c, list, e, expected[kind]);
    }
    for (json_pull_enter_array(&j); json_pull_elem(&j); len++) {
        struct json_pull at = j;
        int rc = 0;

        if (len == max)
            return too_long(c, list, max, e);
        switch (kind) {
        case FLOATS: rc = json_pull_f64(&j, (double *)v + len) ? 0 : ERR_INPUT; break;
        case INTS: rc = value_int(&j, (int64_t *)v + len) ? 0 : ERR_INPUT; break;
        case STRS: rc = value_str(&j, c, (const char **)v + len, e); break;
        }
        if (rc)
            return rc == ERR_INPUT ? wrong_element(c, list, len, &at, e, element[kind]) : rc;
    }
    if (json_pull_rc(&j) != 0)
        return wrong(c, list, e, expected[kind]);
    *n = len;
    return 0;
}

int config_floats(struct config *c, const char *key, double *v, size_t max, size_t *n, struct err *e)
{
    return read_list(c, key, FLOATS, v, max, n, e);
}

int config_ints_or_int(struct config *c, const char *key, int64_t *v, size_t max, size_t *n, struct err *e)
{
    return read_list(c, key, INTS, v, max, n, e);
}

int config_strs(struct config *c, const char *key, const char **v, size_t max, size_t *n, struct err *e)
{
    return read_list(c, key, STRS, v, max, n, e);
}

struct config *config_sub(struct config *c, const char *key)
{
    struct node *n = find_key_value(c, key);

    if (n && !n->child)
        n->wanted_object = true;
    return n ? n->child : NULL;
}

bool config_peek(const struct config *c, const char *key)
{
    uint64_t at;

    return strmap_get(&c->index, key, strlen(key), &at) &&
           ((const struct node *)(uintptr_t)at)->type != JSON_PULL_NULL;
}

const char *config_quant_method(struct config *c)
{
    static const char key[] = "quantization_config";
    const char *method = NULL;
    struct err none;
    uint64_t at;
    const struct node *n = strmap_get(&c->index, key, strlen(key), &at) ? (struct node *)(uintptr_t)at : NULL;

    return n && n->child && config_str(n->child, "quant_method", NULL, &method, &none) == 0 ? method : NULL;
}

void config_ignore(struct config *c, const char *key)
{
    struct node *n = find_key(c, key);

    if (n)
        n->ignored = true;
}

/* ---- names of keys ---- */

/* Keys that Hugging Face's PretrainedConfig, old versions included, writes for every model, and keys that training
 * scripts leave in the file. '*' at either end of a pattern matches any text; no pattern may match a name that could
 * change the computation. Keys of single classes are in the files of their architectures (config_ignore()). */
/* clang-format off */
static const char *const bookkeeping[] = {
    /* identity */
    "_name_or_path", "_commit_hash", "_auto_class", "_from_auto", "_class_name", "_diffusers_version",
    "_fast_init", "_num_labels", "_pre_quantization_dtype", "name_or_path", "architectures", "model_type",
    "transformers_version", "transformers.js_config", "auto_map", "custom_pipelines", "tokenizer_class",
    "processor_class", "torch_dtype", "dtype", "torchscript", "use_bfloat16", "tf_legacy_loss", "xla_device",
    "unsloth_fixed", "unsloth_version", "is_llama_config", "model_name", "model_version", "language",
    "languages", "license", "prefix", "revision",
    /* outputs and labels */
    "output_attentions", "_output_attentions", "output_hidden_states", "output_scores", "output_logits",
    "output_past", "output_router_logits", "return_dict", "return_dict_in_generate", "use_cache",
    "use_return_dict", "id2label", "label2id", "num_labels", "problem_type", "finetuning_task",
    "task_specific_params", "chunk_size_feed_forward", "remove_invalid_values",
    /* training */
    "*dropout", "*dropout_prob", "*dropout_rate", "*pdrop", "*layerdrop", "drop_path_rate",
    "initializer_range", "initializer_factor", "init_std", "init_method", "init_method_std",
    "gradient_checkpointing", "use_gradient_checkpointing", "label_smoothing", "ignore_index",
    /* special tokens */
    "*_token_id", "*_token_ids", "*_token_index", "bos_token", "eos_token", "pad_token", "unk_token",
    "sep_token", "cls_token", "mask_token", "image_token", "video_token", "audio_token", "boi_token",
    "eoi_token", "boa_token", "eoa_token",
    /* draft models that guess several tokens in one pass (engine/guess/draft.c) */
    "pard_token", "pard2", "pard2_target_layers", "spd_type",
    /* generation */
    "max_length", "min_length", "max_new_tokens", "min_new_tokens", "do_sample", "early_stopping",
    "num_beams", "num_beam_groups", "diversity_penalty", "temperature", "top_k", "top_p", "min_p",
    "typical_p", "repetition_penalty", "length_penalty", "no_repeat_ngram_size",
    "encoder_no_repeat_ngram_size", "bad_words_ids", "num_return_sequences", "cache_implementation",
    "exponential_decay_length_penalty", "suppress_tokens", "begin_suppress_tokens", "forced_decoder_ids",
    "generation_config", "max_sequence_length", "seq_length", "model_max_length",
    /* hints for other programs about how to compute the same thing */
    "_attn_implementation", "_attn_implementation_internal", "_attn_implementation_autoset",
    "_experts_implementation", "_experts_implementation_internal", "_flash_attn_2_enabled",
    "_use_flash_attention_2", "attn_implementation", "attention_implementation", "experts_implementation",
    "use_flash_attn", "use_flash_attention*", "use_sdpa", "flash_attn*", "use_kernel", "use_kernels",
    "kernel_config", "device_map", "onnx*", "neuron", "bettertransformer",
};

/* Keys of features that are on by default, so that false and null switch them off. Other unread keys are
 * features that false, null and empty values leave off. */
static const char *const off_counts[] = {
    "is_causal", "causal", "causal_attention", "causal_mask", "use_causal_attention", "use_causal_mask",
    "unidirectional", "autoregressive",
    "rope", "use_rope", "rotary", "use_rotary", "use_rotary_embedding", "use_rotary_embeddings",
    "use_rotary_emb", "use_rotary_position_embeddings", "use_positional_embeddings",
    "use_position_embedding", "use_position_embeddings", "position_embedding", "position_embeddings",
    "scale_attn", "scale_attention", "scale_attn_weights", "scale_attention_scores", "use_attention_scale",
    "scale_qk", "norm_topk_prob", "moe_renormalize", "renormalize", "normalize_expert_weights",
    "moe_normalize_expert_weights", "do_layer_norm_before", "normalize_before", "norm_before",
    "norm_first", "pre_norm", "use_pre_norm", "use_input_layernorm", "layer_norm_elementwise_affine",
    "elementwise_affine", "norm_affine", "final_norm", "use_final_norm", "add_final_layer_norm",
    "use_final_layernorm", "final_layer_norm", "enable_bias", "gated", "gated_mlp", "use_gated_mlp",
    "mlp_gated", "glu_mlp", "use_glu", "use_swiglu", "is_gated_act", "use_residual", "use_attention",
    "use_mlp", "use_softmax", "use_router_softmax", };
/* clang-format on */

/* Parts of names that suggest a change of the computation; each matches anywhere in a name. Some also occur
 * in harmless names ("act" in "factor"). This is acceptable: known harmless names are matched first, and for
 * others an error is safer than a warning. */
/* clang-format off */
static const char *const maths[] = {
    "scale", "scaling", "multiplier", "softcap", "soft_cap", "window", "rope", "rotary", "norm", "expert",
    "moe", "router", "routed", "attn", "attention", "alibi", "clip", "clamp", "limit", "bias", "act",
    "layer", "head", "position", "embed", "quant", "residual", "resid", "logit", "mlp", "ffn",
    "intermediate", "kv", "qk", "qkv", "query", "mup", "parallel", "tie", "hidden", "vocab", "dim", "size",
    "theta", "beta", "alpha", "eps", "freq", "base", "sink", "block", "sparse", "sparsity", "topk", "top_k",
    "softmax", "sigmoid", "gelu", "swiglu", "gate", "gating", "shared", "skip", "conv", "ssm", "mamba",
    "state", "recurrent", "linear", "lora", "rank", "chunk", "group", "yarn", "ntk", "longrope",
    "interpolat", "original_max", "n_ctx", "d_model", "d_ff", "cross", "encoder", "decoder", "causal",
    "bidirectional", "mask", "pattern", "interleav", "stride", "pool", "compress", "prune", "mtp", "nextn",
    "adapter", "delta", "vision", "audio", "image", "diffusion", "weight", "sqrt", "temperature",
    "n_inner",
};
/* clang-format on */

static const char *const quant[] = {"quantization_config", "compression_config", "quantization",
                                    "quant_method"};

/* Keys whose value 1 means the usual computation. */
static const char *const one_is_neutral[] = {"pretraining_tp",  "full_attn_mod",       "interpolate_factor",
                                             "tensor_parallel", "model_parallel_size", "ep_size"};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static bool matches(const char *pattern, const char *name)
{
    size_t n = strlen(pattern), len = strlen(name);
    bool before = pattern[0] == '*', after = n > 1 && pattern[n - 1] == '*';
    size_t core = n - before - after;

    if (len < core)
        return false;
    if (before && after) {
        for (size_t i = 0; i + core <= len; i++)
            if (memcmp(name + i, pattern + 1, core) == 0)
                return true;
        return false;
    }
    if (!before && !after && len != core)
        return false;
    return memcmp(before ? name + len - core : name, pattern + before, core) == 0;
}

static bool is_listed(const char *name, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i], name) == 0)
            return true;
    return false;
}

bool config_key_one_is_neutral(const char *name)
{
    return is_listed(name, one_is_neutral, COUNT(one_is_neutral));
}

bool config_key_off_counts(const char *name)
{
    return is_listed(name, off_counts, COUNT(off_counts));
}

enum config_key config_key_kind(const char *name)
{
    if (config_key_off_counts(name))
        return CONFIG_KEY_MATHS;
    for (size_t i = 0; i < COUNT(quant); i++)
        if (strcmp(quant[i], name) == 0)
            return CONFIG_KEY_QUANT;
    for (size_t i = 0; i < COUNT(bookkeeping); i++)
        if (matches(bookkeeping[i], name))
            return CONFIG_KEY_BOOKKEEPING;
    for (size_t i = 0; i < COUNT(maths); i++)
        if (strstr(name, maths[i]))
            return CONFIG_KEY_MATHS;
    return CONFIG_KEY_UNKNOWN;
}

/* ---- keys that were not read ---- */

/* The keys that were not read, by class. */
struct verdict {
    char unknown[512], maths[512]; /* lists of names, truncated if they are long */
    const struct node *quant;
};

static void list_name(char *list, size_t size, const struct config *c, const struct node *n)
{
    size_t at = strlen(list);

    snprintf(list + at, size - at, "%s%s%.100s", at ? ", " : "", c->prefix, n->name);
}

/* Returns whether the model would compute the same without the key N. */
static bool is_neutral(const struct node *n)
{
    if (config_key_off_counts(n->name))
        return n->type == JSON_PULL_TRUE;
    if (n->type == JSON_PULL_OBJECT)
        return n->child->first == NULL;
    if (n->type == JSON_PULL_ARRAY) { /* neutral if empty: only blanks between the brackets */
        for (size_t i = 1; i + 1 < n->raw.n; i++)
            if (!utf8_is_blank(n->raw.s[i]))
                return false;
        return true;
    }
    if (n->type == JSON_PULL_NUMBER)
        return config_key_one_is_neutral(n->name) &&
               (json_str_is(&n->raw, "1") || json_str_is(&n->raw, "1.0"));
    return n->type == JSON_PULL_NULL || n->type == JSON_PULL_FALSE || json_str_is(&n->raw, "\"\"");
}

static int judge(struct config *c, struct verdict *v, struct err *e)
{
    for (const struct node *n = c->first; n; n = n->next) {
        int rc = 0;

        if (n->wanted_object)
            return wrong(c, n, e, "an object");
        if (n->asked) {
            if (n->child && !n->ignored && (rc = judge(n->child, v, e)) != 0)
                return rc;
            continue;
        }
        if (is_neutral(n))
            continue;
        switch (config_key_kind(n->name)) {
        case CONFIG_KEY_QUANT: v->quant = n; break;
        case CONFIG_KEY_MATHS: list_name(v->maths, sizeof(v->maths), c, n); break;
        case CONFIG_KEY_UNKNOWN: list_name(v->unknown, sizeof(v->unknown), c, n); break;
        case CONFIG_KEY_BOOKKEEPING: break;
        }
    }
    return 0;
}

static int quant_error(struct config *c, const struct node *n, struct err *e)
{
    const char *method = NULL;
    struct err none;

    if (n->child && config_str(n->child, "quant_method", NULL, &method, &none) != 0)
        method = NULL;
    return err_set(
        e, ERR_UNSUPPORTED,
        "%s: %s says that the weights are quantized with %.100s, which this architecture does not support",
        c->doc->path, n->name, method ? method : "a method that it does not name");
}

int config_finish(struct config *c, struct err *e)
{
    struct verdict v = {.quant = NULL};
    int rc;

    if ((rc = judge(c, &v, e)) != 0)
        return rc;
    if (v.quant)
        return quant_error(c, v.quant, e);
    if (v.maths[0])
        return err_set(e, ERR_UNSUPPORTED, "%s: unknown keys that may change what this model computes: %s",
                       c->doc->path, v.maths);
    if (v.unknown[0])
        log_warn("%s: unknown keys are ignored: %s", c->doc->path, v.unknown);
    return 0;
}
