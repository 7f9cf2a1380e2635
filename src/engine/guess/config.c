/* config.c - the members of a speculative configuration, with their types and ranges. */
#include "engine/guess/config.h"

#include <jansson.h>
#include <string.h>

#include "base/json/json_pull.h"
#include "base/param/param.h"
#include "base/param/param_json.h"
#include "engine/guess/match.h"

static const char subject[] = "speculative_config";

/* Methods of vLLM and llama.cpp that Gallop does not implement. */
static const char *const unbuilt[] = {
    "eagle",  "eagle3",         "mtp",          "medusa", "dflash",
    "dspark", "mlp_speculator", "ngram_gpu",    "peagle", "extract_hidden_states",
    "custom", "ngram-mod",      "ngram-simple", NULL};

/* Members of vLLM's configuration that have no effect, with the values that are accepted because Gallop always behaves
 * so: a draft model runs on the threads of the target; guesses are verified exactly, so the way of drawing guesses does
 * not change answers; and there are no graphs or kernels to choose. */
static const struct {
    const char *name, *value[2];
} idle[] = {{"draft_tensor_parallel_size", {"1"}},
            {"rejection_sample_method", {"\"standard\""}},
            {"draft_sample_method", {"\"greedy\"", "\"probabilistic\""}},
            {"enforce_eager", {"true", "false"}},
            {"disable_padded_drafter_batch", {"true", "false"}},
            {"use_local_argmax_reduction", {"true", "false"}},
            {"enable_adaptive_verification", {"false"}},
            {"kv_cache_dtype", {"\"auto\""}},
            {"moe_backend", {"\"auto\""}}};

/* Appends the method NAME [n] to the list of C. */
static int add_method(struct guess_config *c, const char *name, size_t n, struct err *e)
{
    static const struct {
        const char *name;
        enum guess_source source;
    } known[] = {{"ngram", GUESS_NGRAM},
                 {"suffix", GUESS_SUFFIX},
                 {"draft_model", GUESS_DRAFT},
                 {"pard", GUESS_DRAFT},
                 {"self", GUESS_SELF}};

    for (int i = 0; unbuilt[i]; i++)
        if (strlen(unbuilt[i]) == n && memcmp(unbuilt[i], name, n) == 0)
            return err_about(e, ERR_UNSUPPORTED, subject,
                             "method \"%s\" is not supported; ngram, suffix, draft_model or self is expected",
                             unbuilt[i]);
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strlen(known[i].name) != n || memcmp(known[i].name, name, n) != 0)
            continue;
        for (size_t k = 0; k < c->n_methods; k++)
            if (c->method[k] == known[i].source)
                return err_about(e, ERR_INPUT, subject, "method %s is given twice", known[i].name);
        c->method[c->n_methods++] = known[i].source;
        return 0;
    }
    return err_about(e, ERR_INPUT, subject,
                     "found the method \"%.*s\", expected ngram, suffix, draft_model or self",
                     n > 40 ? 40 : (int)n, name);
}

static int read_methods(struct guess_config *c, const json_t *v, struct err *e)
{
    const char *at = json_string_value(v), *end = at ? at + json_string_length(v) : NULL;
    int rc = 0;

    if (!at)
        return err_about(e, ERR_INPUT, subject, "method is not a string");
    for (const char *comma; rc == 0 && at <= end; at = comma + 1) {
        comma = memchr(at, ',', (size_t)(end - at));
        comma = comma ? comma : end;
        while (at < comma && *at == ' ')
            at++;
        rc = add_method(c, at, (size_t)(comma - at), e);
    }
    return rc;
}

static int field_refuse(const char *name, const char *expected, struct err *e)
{
    return err_about(e, ERR_INPUT, subject, "%s: expected %s", name, expected);
}

/* Reads [[from, to, most], ...]; TO may be null, which means any number. */
static int read_ranges(struct guess_config *c, const json_t *v, const char *name, struct err *e)
{
    static const char expected[] =
        "a list of [from, to, number of tokens], with ranges of batch sizes in ascending order";
    size_t n = json_array_size(v), last = 0;

    if (!json_is_array(v) || n > GUESS_MAX_RANGES)
        return field_refuse(name, expected, e);
    for (size_t i = 0; i < n; i++) {
        const json_t *row = json_array_get(v, i), *to = json_array_get(row, 1);
        json_int_t x[3] = {json_integer_value(json_array_get(row, 0)),
                           json_is_null(to) ? 4096 : json_integer_value(to),
                           json_integer_value(json_array_get(row, 2))};

        if (!json_is_array(row) || json_array_size(row) != 3 || !json_is_integer(json_array_get(row, 0)) ||
            !(json_is_integer(to) || json_is_null(to)) || !json_is_integer(json_array_get(row, 2)) ||
            x[0] <= (json_int_t)last || x[1] < x[0] || x[1] > 1 << 20 || x[2] < 0 || x[2] > GUESS_MOST)
            return field_refuse(name, expected, e);
        c->range[c->n_ranges].from = (size_t)x[0];
        c->range[c->n_ranges].to = last = (size_t)x[1];
        c->range[c->n_ranges++].most = (size_t)x[2];
    }
    return 0;
}

/* Checks member number AT of `idle`. */
static int check_idle(size_t at, const json_t *v, struct err *e)
{
    const char *const *value = idle[at].value;
    char text[64] = "";
    size_t n = json_dumpb(v, text, sizeof(text), JSON_ENCODE_ANY);

    for (int i = 0; i < 2 && value[i]; i++)
        if (strlen(value[i]) == n && memcmp(value[i], text, n) == 0)
            return 0;
    return err_about(e, ERR_UNSUPPORTED, subject, "%s: expected %s%s%s, since nothing else is supported",
                     idle[at].name, value[0], value[1] ? " or " : "", value[1] ? value[1] : "");
}

#define INTO(member) PARAM_MEMBER(struct guess_config, member)
static const struct param rows[] = {
    {"num_speculative_tokens", PARAM_INT, "[1,32]", INTO(most)},
    {"adaptive", PARAM_FLAG, NULL, INTO(adaptive)},
    {"prompt_lookup_min", PARAM_INT, "[1,128]", INTO(lookup_min)},
    {"prompt_lookup_max", PARAM_INT, "[1,1048576]", INTO(lookup_max)},
    {"suffix_decoding_max_tree_depth", PARAM_INT, "[1,1048576]", INTO(max_tree_depth)},
    {"suffix_decoding_max_cached_requests", PARAM_INT, "[0,1073741824]", INTO(max_cached_requests)},
    {"suffix_decoding_max_spec_factor", PARAM_REAL, "[0,1000]", INTO(max_spec_factor)},
    {"suffix_decoding_min_token_prob", PARAM_REAL, "[0,1]", INTO(min_token_prob)},
    {"model", PARAM_TEXT, NULL, INTO(model)},
    {"model_name", PARAM_TEXT, NULL, INTO(model)},
    {"revision", PARAM_TEXT, NULL, INTO(revision)},
    {"quantization", PARAM_TEXT, NULL, INTO(quant)},
    {"max_model_len", PARAM_INT, "[2,1073741824]", INTO(max_model_len)},
    {"parallel_drafting", PARAM_FLAG, NULL, INTO(is_parallel)},
    {"draft_kv_cache_memory_gb", PARAM_REAL, "[0,1048576]", INTO(kv_memory)}};
_Static_assert(GUESS_MOST == 32 && MATCH_MAX_LENGTH == 128, "the limits of the rows");

/* Reads one member, whose value is not null. */
static int read_member(struct guess_config *c, const char *name, const json_t *v, struct arena *a,
                       struct err *e)
{
    struct err why = {0};

    if (strcmp(name, "method") == 0 || strcmp(name, "type") == 0)
        return read_methods(c, v, e);
    if (strcmp(name, "num_speculative_tokens_per_batch_size") == 0)
        return read_ranges(c, v, name, e);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (strcmp(name, rows[i].name) == 0)
            return param_read_json(&rows[i], v, c, a, &why) == 0
                       ? 0
                       : err_about(e, why.code, subject, "%s: %s", name, why.msg);
    for (size_t i = 0; i < sizeof(idle) / sizeof(idle[0]); i++)
        if (strcmp(name, idle[i].name) == 0)
            return check_idle(i, v, e);
    return err_about(e, ERR_INPUT, subject, "the member \"%.60s\" is not known", name);
}

/* Sets the defaults of missing members, and checks the members together. */
static int complete(struct guess_config *c, struct err *e)
{
    bool has_draft = false;

    if (c->n_methods == 0 && c->model)
        c->method[c->n_methods++] = GUESS_DRAFT;
    if (c->n_methods == 0)
        return err_about(e, ERR_INPUT, subject,
                         "the member method is missing: ngram, suffix, draft_model or self is expected");
    for (size_t i = 0; i < c->n_methods; i++)
        has_draft |= c->method[i] == GUESS_DRAFT;
    if (has_draft && !c->model)
        return err_about(e, ERR_INPUT, subject, "the method draft_model needs the member model");
    if (c->model && !has_draft)
        return err_about(e, ERR_INPUT, subject, "model is given, but the method is not draft_model");
    for (size_t i = 0; i + 1 < c->n_methods; i++)
        if (c->method[i] == GUESS_DRAFT || c->method[i] == GUESS_SELF)
            return err_about(e, ERR_INPUT, subject,
                             "method %s must be the last one, since it guesses for every sequence",
                             guess_source_name(c->method[i]));
    if (c->lookup_max == 0)
        c->lookup_max = c->lookup_min > c->max_tree_depth ? c->lookup_min : c->max_tree_depth;
    if (c->lookup_min == 0)
        c->lookup_min = 1;
    if (c->lookup_min > c->lookup_max)
        return err_about(e, ERR_INPUT, subject,
                         "prompt_lookup_min is %zu, expected at most prompt_lookup_max, %zu", c->lookup_min,
                         c->lookup_max);
    return 0;
}

int guess_config_read(struct guess_config *c, const char *text, struct arena *a, struct err *e)
{
    struct err why = {0};
    const char *name;
    json_t *tree;
    json_t *v;
    int rc;

    *c = (struct guess_config){.adaptive = true,
                               .max_tree_depth = 24,
                               .max_cached_requests = 10000,
                               .max_spec_factor = 2,
                               .min_token_prob = .1,
                               .is_parallel = true};
    if ((rc = json_pull_load(&tree, text, strlen(text), "the text", &why)) != 0)
        return err_about(e, rc, subject, "%s", why.msg);
    if (!json_is_object(tree)) {
        json_decref(tree);
        return err_about(e, ERR_INPUT, subject, "expected a JSON object, such as {\"method\":\"ngram\"}");
    }
    json_object_foreach(tree, name, v) if (rc == 0 && !json_is_null(v)) rc = read_member(c, name, v, a, e);
    c->must_be_parallel = json_is_true(json_object_get(tree, "parallel_drafting"));
    json_decref(tree);
    return rc ? rc : complete(c, e);
}

size_t guess_config_most(const struct guess_config *c, enum guess_source source, size_t n)
{
    bool is_long = source == GUESS_SUFFIX || source == GUESS_PARD || source == GUESS_FORCED;

    for (size_t i = 0; i < c->n_ranges; i++)
        if (n >= c->range[i].from && n <= c->range[i].to)
            return c->range[i].most;
    return c->most ? c->most : is_long ? GUESS_USUAL_LONG : GUESS_USUAL;
}
