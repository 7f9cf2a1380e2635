/* sampling.c - reads, merges and validates sampling parameters, each by its row of sampling.def. */
#include "engine/sampling/sampling.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/files/folder.h"
#include "base/json/json_pull.h"
#include "base/json/json_tree.h"
#include "base/log.h"
#include "base/param/param_json.h"
#include "base/utf8.h"

enum { LARGEST_CONFIG_BYTES = 1 << 20 };

/* clang-format off */
#define DRAWS true
#define PLAIN false
#define SAMPLING_FIELD(field, member, draws, kind, type, values, neutral, access, help, flag, request) \
    [SAMPLING_##field] = {{#member, type, values, PARAM_MEMBER(struct sampling, member)}, 0, draws, 0, 0, 0, help},
#define SAMPLING_FILE_FIELD(field, member, draws, kind, type, values, neutral) \
    SAMPLING_FIELD(field, member, draws, kind, type, values, neutral, , NULL, , )
#define SAMPLING_LIST(field, name, member, kind, most, bytes, access, help, flag) \
    [SAMPLING_##field] = {{#name, PARAM_TEXT, NULL, {offsetof(struct sampling, member), sizeof(void *), 0, 0}}, \
                          SAMPLING_##kind, false, offsetof(struct sampling, n_##member), most, bytes, help},
#define SAMPLING_FILE_LIST(field, name, member, kind, most, bytes) \
    SAMPLING_LIST(field, name, member, kind, most, bytes, , NULL, )
const struct sampling_row sampling_row[SAMPLING_N_FIELDS] = {
#include "engine/sampling/sampling.def"
};
/* clang-format on */

_Static_assert(SAMPLING_MAX_LOGPROBS == 1024, "sampling.def has 1024 as the maximum of logprobs");
_Static_assert(SAMPLING_N_FIELDS <= 64, "struct sampling.given has 64 bits");

/* The state of reading a JSON object. */
struct reader {
    struct sampling *s;
    const char *what; /* is_config: the path, for warnings */
    struct arena *arena;
    struct err *e;
    bool is_config; /* the object is generation_config.json, in which a negative token id means none */
    size_t n_vocab; /* is_config: the size of the model's vocabulary */
};

void sampling_default(struct sampling *s)
{
    *s = (struct sampling){.bos = -1, .pad = -1};
#define SAMPLING_FIELD(field, member, draws, kind, type, values, neutral, ...) s->member = neutral;
#define SAMPLING_FILE_FIELD                                                    SAMPLING_FIELD
#include "engine/sampling/sampling.def"
}

bool sampling_given(const struct sampling *s, enum sampling_field f)
{
    return (s->given >> f & 1) != 0;
}

void sampling_mark(struct sampling *s, enum sampling_field f)
{
    s->given |= UINT64_C(1) << f;
}

bool sampling_is_greedy(const struct sampling *s)
{
    return s->greedy || !s->do_sample || s->temperature < SAMPLING_LOWEST_TEMPERATURE;
}

/* Returns true if F, a count or a number, has its neutral value in S. */
static bool is_neutral(const struct sampling *s, enum sampling_field f)
{
    const struct param *p = &sampling_row[f].param;
    struct sampling neutral;

    sampling_default(&neutral);
    return param_load(p, s).f == param_load(p, &neutral).f;
}

bool sampling_is_search(const struct sampling *user)
{
    if (sampling_given(user, SAMPLING_USE_BEAM_SEARCH))
        return user->use_beam_search;
    return sampling_given(user, SAMPLING_NUM_BEAMS) && user->num_beams > 1;
}

int sampling_check_search(const struct sampling *user, struct err *e)
{
    enum sampling_field at = SAMPLING_N_FIELDS;

    if (user->greedy || (sampling_given(user, SAMPLING_DO_SAMPLE) && !user->do_sample) ||
        (sampling_given(user, SAMPLING_TEMPERATURE) && user->temperature < SAMPLING_LOWEST_TEMPERATURE))
        return 0;
    if (sampling_given(user, SAMPLING_DO_SAMPLE))
        at = SAMPLING_DO_SAMPLE;
    for (int f = 0; f < SAMPLING_N_FIELDS && at == SAMPLING_N_FIELDS; f++)
        if (sampling_row[f].draws && sampling_given(user, (enum sampling_field)f) &&
            !is_neutral(user, (enum sampling_field)f))
            at = (enum sampling_field)f;
    if (at == SAMPLING_N_FIELDS)
        return 0;
    return err_about(
        e, ERR_UNSUPPORTED, sampling_row[at].param.name,
        "beam search takes the likeliest tokens and does not draw at random; temperature 0 or 1 is expected");
}

bool sampling_has_id(const int32_t *ids, size_t n, int32_t id)
{
    size_t lo = 0, hi = n;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;

        if (ids[mid] < id)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < n && ids[lo] == id;
}

/* Returns the field with the name or alias NAME, or SAMPLING_N_FIELDS if there is none. */
static enum sampling_field field_of_name(const char *name)
{
    static const struct {
        const char *name;
        enum sampling_field field;
    } aliases[] = {{"stop_strings", SAMPLING_STOP}, {"stop_token_ids", SAMPLING_STOP_TOKEN}};

    for (size_t i = 0; i < sizeof(aliases) / sizeof(aliases[0]); i++)
        if (strcmp(aliases[i].name, name) == 0)
            return aliases[i].field;
    for (int f = 0; f < SAMPLING_N_FIELDS; f++)
        if (strcmp(sampling_row[f].param.name, name) == 0)
            return (enum sampling_field)f;
    return SAMPLING_N_FIELDS;
}

static int unexpected(const struct reader *r, const char *name, const json_t *v, const char *expected)
{
    char found[PARAM_FOUND_BYTES];

    return err_set(r->e, ERR_INPUT, "%s: found %s, expected %s", name, param_found(v, found), expected);
}

void sampling_set_number(struct sampling *s, enum sampling_field f, double v)
{
    const struct param_value value = {.i = (int64_t)v, .f = v};

    param_store(&sampling_row[f].param, &value, s);
    sampling_mark(s, f);
}

void sampling_keep_neutral(struct sampling *s)
{
    for (int f = 0; f < SAMPLING_N_FIELDS; f++)
        if (sampling_row[f].param.type == PARAM_REAL || sampling_row[f].draws ||
            f == SAMPLING_SUPPRESS_TOKENS || f == SAMPLING_BEGIN_SUPPRESS_TOKENS)
            sampling_mark(s, (enum sampling_field)f);
}

static bool is_id(const json_t *v)
{
    return json_is_integer(v) && json_integer_value(v) >= 0 && json_integer_value(v) <= INT32_MAX;
}

static int by_id(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

    return x < y ? -1 : x > y;
}

/* Reads V, a token id or a list of at most MOST ids, into *IDS [*n], ascending and distinct. */
static int read_ids(struct reader *r, const char *name, const json_t *v, size_t most, int32_t **ids,
                    size_t *n)
{
    size_t count = json_is_array(v) ? json_array_size(v) : 1, kept = 0;
    int32_t *list;

    if (count > most)
        return err_set(r->e, ERR_INPUT, "%s: found %zu token ids, at most %zu are supported", name, count,
                       most);
    list = arena_alloc(r->arena, (count + 1) * sizeof(*list));
    if (!list)
        return err_nomem(r->e, name);
    for (size_t i = 0; i < count; i++) {
        const json_t *one = json_is_array(v) ? json_array_get(v, i) : v;

        if (r->is_config && json_is_integer(one) && json_integer_value(one) < 0)
            continue;
        if (!is_id(one))
            return unexpected(r, name, one, "a token id");
        list[kept++] = (int32_t)json_integer_value(one);
    }
    qsort(list, kept, sizeof(*list), by_id);
    *n = 0;
    for (size_t i = 0; i < kept; i++)
        if (i == 0 || list[i] != list[i - 1])
            list[(*n)++] = list[i];
    *ids = list;
    return 0;
}

/* Reads V, a string or a list of strings within the limits of F, into *OUT [*n_out]. */
static int read_strings(struct reader *r, const struct sampling_row *f, const json_t *v,
                        struct sampling_str **out, size_t *n_out)
{
    size_t n = json_is_array(v) ? json_array_size(v) : 1;
    struct sampling_str *list;

    if (n > f->most)
        return err_set(r->e, ERR_INPUT, "%s: found %zu strings, at most %zu are supported", f->param.name, n,
                       f->most);
    list = arena_alloc(r->arena, (n + 1) * sizeof(*list));
    if (!list)
        return err_nomem(r->e, f->param.name);
    for (size_t i = 0; i < n; i++) {
        const json_t *one = json_is_array(v) ? json_array_get(v, i) : v;
        size_t len = json_string_length(one);
        const char *copy;

        if (!json_is_string(one) || len == 0)
            return unexpected(r, f->param.name, one, "a non-empty string, or a list of non-empty strings");
        if (len > f->most_bytes)
            return err_set(r->e, ERR_INPUT, "%s: found a string of %zu bytes, at most %zu are supported",
                           f->param.name, len, f->most_bytes);
        copy = arena_strndup(r->arena, json_string_value(one), len);
        if (!copy)
            return err_nomem(r->e, f->param.name);
        list[i] = (struct sampling_str){.s = copy, .n = len};
    }
    *out = list;
    *n_out = n;
    return 0;
}

static int by_bias_id(const void *a, const void *b)
{
    const struct sampling_bias *x = a, *y = b;

    return by_id(&x->id, &y->id);
}

/* Reads the bias V of token ID. */
static int read_bias(struct reader *r, int64_t id, const json_t *v, struct sampling_bias *out)
{
    float f = (float)json_number_value(v);

    if (id < 0 || id > INT32_MAX)
        return err_set(r->e, ERR_INPUT, "logit_bias: found the key %lld, expected a token id", (long long)id);
    if (!json_is_number(v) || !isfinite(f))
        return unexpected(r, "logit_bias", v, "a finite number");
    *out = (struct sampling_bias){.id = (int32_t)id, .value = f};
    return 0;
}

/* Reads the object V, {"id": value, ...}, whose keys are decimal token ids. */
static int read_bias_object(struct reader *r, const json_t *v, struct sampling_bias *list)
{
    int rc = 0;

    for (void *it = json_object_iter((json_t *)v); it && rc == 0;
         it = json_object_iter_next((json_t *)v, it)) {
        const char *key = json_object_iter_key(it);
        size_t n = strlen(key);

        if (n == 0 || n > 10 || strspn(key, "0123456789") != n)
            return err_set(r->e, ERR_INPUT, "logit_bias: found the key \"%.40s\", expected a token id", key);
        rc = read_bias(r, strtoll(key, NULL, 10), json_object_iter_value(it), list++);
    }
    return rc;
}

/* Reads the list V, [[id, value], ...]. */
static int read_bias_pairs(struct reader *r, const json_t *v, struct sampling_bias *list)
{
    int rc = 0;

    for (size_t i = 0; i < json_array_size(v) && rc == 0; i++) {
        const json_t *pair = json_array_get(v, i), *id = json_array_get(pair, 0);

        if (json_array_size(pair) != 2 || !json_is_integer(id))
            return unexpected(r, "logit_bias", pair, "a pair of token id and value");
        rc = read_bias(r, json_integer_value(id), json_array_get(pair, 1), list++);
    }
    return rc;
}

static int read_biases(struct reader *r, const json_t *v)
{
    size_t n = json_is_object(v) ? json_object_size(v) : json_array_size(v);
    struct sampling_bias *list;
    int rc;

    if (!json_is_object(v) && !json_is_array(v))
        return unexpected(r, "logit_bias", v, "an object of token ids and values, or a list of pairs");
    if (n > SAMPLING_MAX_BIASES)
        return err_set(r->e, ERR_INPUT, "logit_bias: found %zu entries, at most %d are supported", n,
                       SAMPLING_MAX_BIASES);
    list = arena_zalloc(r->arena, n + 1, sizeof(*list));
    if (!list)
        return err_nomem(r->e, "logit_bias");
    rc = json_is_object(v) ? read_bias_object(r, v, list) : read_bias_pairs(r, v, list);
    if (rc != 0)
        return rc;
    qsort(list, n, sizeof(*list), by_bias_id);
    for (size_t i = 1; i < n; i++)
        if (list[i].id == list[i - 1].id)
            return err_set(r->e, ERR_INPUT, "logit_bias: token %d appears twice", list[i].id);
    r->s->bias = list;
    r->s->n_bias = n;
    return 0;
}

static int read_field(struct reader *r, enum sampling_field id, const json_t *v)
{
    const struct sampling_row *f = &sampling_row[id];
    void *at = (char *)r->s + f->param.into.at;
    size_t *n = (size_t *)(void *)((char *)r->s + f->n_at);
    int rc;

    if (json_is_null(v))
        return 0;
    switch (f->list) {
    case SAMPLING_STRINGS: rc = read_strings(r, f, v, at, n); break;
    case SAMPLING_IDS: rc = read_ids(r, f->param.name, v, f->most, at, n); break;
    case SAMPLING_BIASES: rc = read_biases(r, v); break;
    default: rc = param_read_json(&f->param, v, r->s, NULL, r->e);
    }
    if (rc == 0)
        sampling_mark(r->s, id);
    return rc;
}

/* Reads allowed_token_ids, which is not a row of sampling.def. */
static int read_allowed(struct reader *r, const json_t *v)
{
    static const char name[] = "allowed_token_ids";

    if (json_is_null(v))
        return 0;
    if (!json_is_array(v) || json_array_size(v) == 0)
        return unexpected(r, name, v, "a non-empty list of token ids");
    return read_ids(r, name, v, SAMPLING_MAX_ALLOWED, &r->s->allowed, &r->s->n_allowed);
}

const char *sampling_name(const char *name)
{
    static const char *const aliases[][2] = {{"max_tokens", "max_new_tokens"},
                                             {"max_completion_tokens", "max_new_tokens"},
                                             {"min_tokens", "min_new_tokens"}};

    for (size_t i = 0; i < sizeof(aliases) / sizeof(aliases[0]); i++)
        if (strcmp(aliases[i][0], name) == 0)
            return aliases[i][1];
    return name;
}

int sampling_set_member(struct sampling *s, const char *name, const json_t *v, struct arena *a, struct err *e)
{
    struct reader r = {.s = s, .arena = a, .e = e};
    enum sampling_field f = field_of_name(sampling_name(name));

    if (strcmp(name, "allowed_token_ids") == 0)
        return read_allowed(&r, v);
    if (f == SAMPLING_N_FIELDS || f == SAMPLING_MAX_LENGTH)
        return err_set(e, ERR_INPUT, "%.60s: unknown sampling parameter", name);
    return read_field(&r, f, v);
}

int sampling_set_json(struct sampling *s, const json_t *object, const char *what, struct arena *a,
                      struct err *e)
{
    json_t *o = (json_t *)object; /* jansson's iterators need a pointer without const */
    int rc = 0;

    if (!json_is_object(object))
        return err_set(e, ERR_INPUT, "%s: expected a JSON object of sampling parameters", what);
    for (void *it = json_object_iter(o); it && rc == 0; it = json_object_iter_next(o, it)) {
        const char *key = json_object_iter_key(it), *name = sampling_name(key);

        if (name != key && json_object_get(o, name))
            rc = err_set(e, ERR_INPUT, "%s: %s is given twice, under two names", key, name);
        else
            rc = sampling_set_member(s, key, json_object_iter_value(it), a, e);
    }
    if (rc == ERR_INPUT)
        err_prefix(e, "%s", what);
    return rc;
}

static bool is_one_of(const char *key, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(key, *list) == 0)
            return true;
    return false;
}

/* Returns true if the member KEY of a generation config with the value V requests an unsupported decoding method. */
static bool asks_for_more(const char *key, const json_t *v)
{
    static const char *const off_at_one[] = {"num_beams", "num_beam_groups", "num_return_sequences",
                                             "top_h",     "guidance_scale",  "encoder_repetition_penalty",
                                             NULL};
    static const char *const off_at_zero[] = {"epsilon_cutoff",
                                              "eta_cutoff",
                                              "penalty_alpha",
                                              "no_repeat_ngram_size",
                                              "encoder_no_repeat_ngram_size",
                                              "diversity_penalty",
                                              "min_length",
                                              NULL};
    static const char *const off_at_null[] = {"bad_words_ids",
                                              "forced_bos_token_id",
                                              "forced_eos_token_id",
                                              "sequence_bias",
                                              "force_words_ids",
                                              "constraints",
                                              "dola_layers",
                                              "watermarking_config",
                                              "max_time",
                                              "exponential_decay_length_penalty",
                                              NULL};

    if (is_one_of(key, off_at_null))
        return !json_is_null(v) && !(json_is_array(v) && json_array_size(v) == 0);
    return json_is_number(v) && ((is_one_of(key, off_at_one) && json_number_value(v) != 1) ||
                                 (is_one_of(key, off_at_zero) && json_number_value(v) != 0));
}

/* Warns that FIELD of a generation config names the token ID, and N_OTHERS more, which the vocabulary lacks. */
static void warn_of_ids(const struct reader *r, const char *field, int64_t id, size_t n_others)
{
    char others[48] = "";

    if (n_others)
        snprintf(others, sizeof(others), " and %zu more", n_others);
    log_warn("%s: %s: ignored token %lld%s: the vocabulary has %zu tokens", r->what, field, (long long)id,
             others, r->n_vocab);
}

/* Drops the ids of the list F that the vocabulary lacks. */
static void fit_ids(struct reader *r, const struct sampling_row *f)
{
    int32_t *ids = *(int32_t **)(void *)((char *)r->s + f->param.into.at);
    size_t *n = (size_t *)(void *)((char *)r->s + f->n_at), kept = *n;

    while (kept > 0 && (size_t)ids[kept - 1] >= r->n_vocab) /* ids are ascending */
        kept--;
    if (kept < *n)
        warn_of_ids(r, f->param.name, ids[kept], *n - kept - 1);
    *n = kept;
}

static void fit_biases(struct reader *r)
{
    size_t n = r->s->n_bias;

    while (r->s->n_bias > 0 && (size_t)r->s->bias[r->s->n_bias - 1].id >= r->n_vocab)
        r->s->n_bias--;
    if (r->s->n_bias < n)
        warn_of_ids(r, "logit_bias", r->s->bias[r->s->n_bias].id, n - r->s->n_bias - 1);
}

/* Reads a token id of a generation config; -1: none. */
static int32_t read_id(const struct reader *r, const char *name, const json_t *v)
{
    if (!is_id(v))
        return -1;
    if ((size_t)json_integer_value(v) < r->n_vocab)
        return (int32_t)json_integer_value(v);
    warn_of_ids(r, name, json_integer_value(v), 0);
    return -1;
}

static int read_config(struct reader *r, json_t *o)
{
    char others[256] = "";
    int rc = 0;

    for (void *it = json_object_iter(o); it && rc == 0; it = json_object_iter_next(o, it)) {
        const char *key = json_object_iter_key(it);
        const json_t *v = json_object_iter_value(it);
        enum sampling_field f = field_of_name(key);

        if (f != SAMPLING_N_FIELDS &&
            f != SAMPLING_NUM_BEAMS) { /* a server could stream no answer with beams */
            rc = read_field(r, f, v);
        } else if (strcmp(key, "bos_token_id") == 0) {
            r->s->bos = read_id(r, key, v);
        } else if (strcmp(key, "pad_token_id") == 0) {
            r->s->pad = read_id(r, key, v);
        } else if (asks_for_more(key, v) && strlen(others) + strlen(key) + 3 < sizeof(others)) {
            strcat(strcat(others, others[0] ? ", " : ""), key);
        }
    }
    for (int f = 0; f < SAMPLING_N_FIELDS && rc == 0; f++)
        if (sampling_row[f].list == SAMPLING_IDS)
            fit_ids(r, &sampling_row[f]);
    if (rc == 0)
        fit_biases(r);
    if (rc == 0 && others[0])
        log_warn("%s: ignored fields that select unsupported decoding methods: %s", r->what, others);
    return rc;
}

int sampling_from_text(const char *text, size_t len, const char *path, size_t n_vocab, struct sampling *s,
                       struct arena *a, struct err *e)
{
    struct reader r = {.s = s, .what = path, .arena = a, .e = e, .is_config = true, .n_vocab = n_vocab};
    json_t *root;
    int rc;

    sampling_default(s);
    if ((rc = json_pull_load(&root, text, len, path, e)) != 0)
        return rc;
    if (!json_is_object(root))
        rc = err_set(e, ERR_INPUT, "%s: expected a JSON object", path);
    else if ((rc = read_config(&r, root)) == ERR_INPUT)
        err_prefix(e, "%s", path);
    json_decref(root);
    return rc;
}

int sampling_from_generation_config(struct folder in, size_t n_vocab, struct sampling *s, struct arena *a,
                                    struct err *e)
{
    struct folder_text f;
    bool there;
    int rc = folder_read(&f, in, "generation_config.json", &there, e);

    sampling_default(s);
    if (rc || !there)
        return rc;
    if (f.len > LARGEST_CONFIG_BYTES)
        rc = err_set(e, ERR_INPUT, "%s: found %zu bytes, expected at most %d", f.path, f.len,
                     LARGEST_CONFIG_BYTES);
    else
        rc = sampling_from_text(f.bytes, f.len, f.path, n_vocab, s, a, e);
    folder_text_fini(&f);
    return rc;
}

/* Copies field F (of a list the pointer and the length) from FROM to OUT and marks it as given. */
static void copy_field(struct sampling *out, const struct sampling *from, enum sampling_field f)
{
    const struct sampling_row *r = &sampling_row[f];
    size_t at = r->param.into.at;

    memcpy((char *)out + at, (const char *)from + at, r->param.into.size);
    if (r->n_at)
        memcpy((char *)out + r->n_at, (const char *)from + r->n_at, sizeof(size_t));
    sampling_mark(out, f);
}

void sampling_merge(struct sampling *out, const struct sampling *user, const struct sampling *config)
{
    struct sampling s;
    bool draws = false;

    sampling_default(&s);
    for (int i = 0; i < SAMPLING_N_FIELDS; i++) {
        enum sampling_field f = (enum sampling_field)i;

        draws |= sampling_row[i].draws && sampling_given(user, f);
        if (sampling_given(user, f))
            copy_field(&s, user, f);
        else if (sampling_given(config, f))
            copy_field(&s, config, f);
    }
    s.bos = user->bos >= 0 ? user->bos : config->bos;
    s.pad = user->pad >= 0 ? user->pad : config->pad;
    s.include_stop = user->include_stop;
    s.allowed = user->allowed;
    s.n_allowed = user->n_allowed;
    s.logprob_id = user->logprob_id;
    s.n_logprob_ids = user->n_logprob_ids;
    if (draws && !sampling_given(user, SAMPLING_DO_SAMPLE))
        s.do_sample = true;
    if (s.min_new_tokens > s.max_new_tokens) {
        if (!sampling_given(user, SAMPLING_MIN_NEW_TOKENS))
            s.min_new_tokens = s.max_new_tokens;
        else if (!sampling_given(user, SAMPLING_MAX_NEW_TOKENS))
            s.max_new_tokens = s.min_new_tokens;
    }
    *out = s;
}

static int validate_strings(const struct sampling *s, const struct sampling_row *f, struct err *e)
{
    const struct sampling_str *list =
        *(struct sampling_str *const *)(const void *)((const char *)s + f->param.into.at);
    size_t n = *(const size_t *)(const void *)((const char *)s + f->n_at);

    for (size_t i = 0; i < n; i++) {
        const struct sampling_str *t = &list[i];

        if (t->n == 0 || t->n > f->most_bytes || utf8_valid_prefix(t->s, t->n) != t->n)
            return err_about(e, ERR_INPUT, f->param.name,
                             "string %zu has %zu bytes, expected 1 to %zu bytes of valid UTF-8", i, t->n,
                             f->most_bytes);
    }
    return n <= f->most ? 0
                        : err_about(e, ERR_INPUT, f->param.name,
                                    "found %zu strings, at most %zu are supported", n, f->most);
}

void sampling_sort(struct sampling *s)
{
    if (s->n_bias)
        qsort(s->bias, s->n_bias, sizeof(*s->bias), by_bias_id);
    if (s->n_stop_token)
        qsort(s->stop_token, s->n_stop_token, sizeof(*s->stop_token), by_id);
}

static int validate_ids(const char *name, const int32_t *id, size_t n, size_t n_vocab, struct err *e)
{
    for (size_t i = 0; i < n; i++)
        if (id[i] < 0 || (size_t)id[i] >= n_vocab)
            return err_about(e, ERR_INPUT, name, "found token %d, but the vocabulary has %zu tokens", id[i],
                             n_vocab);
    return 0;
}

static int validate_biases(const struct sampling *s, size_t n_vocab, struct err *e)
{
    for (size_t i = 0; i < s->n_bias; i++) {
        if (s->bias[i].id < 0 || (size_t)s->bias[i].id >= n_vocab)
            return err_about(e, ERR_INPUT, "logit_bias", "found token %d, but the vocabulary has %zu tokens",
                             s->bias[i].id, n_vocab);
        if (!isfinite(s->bias[i].value))
            return err_about(e, ERR_INPUT, "logit_bias", "the bias of token %d is not finite", s->bias[i].id);
        if (i > 0 && s->bias[i].id <= s->bias[i - 1].id)
            return err_about(e, ERR_INPUT, "logit_bias", "token %d appears twice or out of order",
                             s->bias[i].id);
    }
    return 0;
}

int sampling_validate(const struct sampling *s, size_t n_vocab, struct err *e)
{
    int rc = 0;

    for (int f = 0; f < SAMPLING_N_FIELDS && rc == 0; f++)
        if (sampling_row[f].list == SAMPLING_STRINGS)
            rc = validate_strings(s, &sampling_row[f], e);
        else if (!sampling_row[f].list && sampling_given(s, (enum sampling_field)f))
            rc = param_check(&sampling_row[f].param, s, e);
    if (rc != 0)
        return rc;
    if (s->min_new_tokens > s->max_new_tokens)
        return err_about(e, ERR_INPUT, "min_new_tokens",
                         "found %zu, expected at most %zu, the maximum number of tokens to generate",
                         s->min_new_tokens, s->max_new_tokens);
    if (s->n_logprob_ids > SAMPLING_MAX_LOGPROBS)
        return err_about(e, ERR_INPUT, "logprob_token_ids", "found %zu tokens, expected at most %d",
                         s->n_logprob_ids, SAMPLING_MAX_LOGPROBS);
    if ((rc = validate_biases(s, n_vocab, e)) != 0 ||
        (rc = validate_ids("eos_token_id", s->eos, s->n_eos, n_vocab, e)) != 0 ||
        (rc = validate_ids("suppress_tokens", s->suppress, s->n_suppress, n_vocab, e)) != 0 ||
        (rc = validate_ids("begin_suppress_tokens", s->begin_suppress, s->n_begin_suppress, n_vocab, e)) !=
            0 ||
        (rc = validate_ids("stop_token", s->stop_token, s->n_stop_token, n_vocab, e)) != 0 ||
        (rc = validate_ids("allowed_token_ids", s->allowed, s->n_allowed, n_vocab, e)) != 0)
        return rc;
    return validate_ids("logprob_token_ids", s->logprob_id, s->n_logprob_ids, n_vocab, e);
}

int sampling_add_eos(struct sampling *s, int32_t id, struct arena *a, struct err *e)
{
    int32_t *list;
    size_t at = 0;

    if (id < 0 || sampling_has_id(s->eos, s->n_eos, id))
        return 0;
    list = arena_alloc(a, (s->n_eos + 1) * sizeof(*list));
    if (!list)
        return err_nomem(e, "end tokens");
    while (at < s->n_eos && s->eos[at] < id)
        at++;
    for (size_t i = 0; i < s->n_eos; i++)
        list[i + (i >= at)] = s->eos[i];
    list[at] = id;
    s->eos = list;
    s->n_eos++;
    return 0;
}
