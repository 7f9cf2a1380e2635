/* tokenizer.c - reads the metadata tokenizer.* and general.sampling.*.
 *
 * GGUF has a key for the token that ends a text, but turns of a chat often end with another token. Like llama.cpp, this
 * file therefore searches the special tokens for tokens that end a turn in known model families.
 */
#include "base/arena.h"
#include "base/buf.h"
#include "ckpt/gguf/gguf.h"
#include "ckpt/gguf/set.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/utf8.h"
#include "ckpt/little_endian.h"
#include "text/tok/tok.h"

enum { MAX_ID = INT32_MAX, MAX_TEMPLATES = 64 };

bool gguf_has_tokenizer(struct gguf_set *s)
{
    struct json_str model;

    return gguf_text(&s->part[0], "tokenizer.ggml.model", &model, NULL) == 0 && model.s &&
           !json_str_is(&model, "none") && !json_str_is(&model, "no_vocab");
}

static int read_flag(struct gguf *g, const char *key, int *flag, struct err *e)
{
    bool v;
    int rc;

    *flag = TOK_UNSET;
    if (!gguf_get(g, key))
        return 0;
    rc = gguf_bool(g, key, false, &v, e);
    if (rc == 0)
        *flag = v;
    return rc;
}

static int read_id(struct gguf *g, const char *what, int64_t *id, struct err *e)
{
    char key[80];

    snprintf(key, sizeof(key), "tokenizer.ggml.%s_token_id", what);
    return gguf_int(g, key, TOK_UNSET, 0, MAX_ID, id, e);
}

/* Reads the fill-in-the-middle tokens, whose keys have other names in older files. */
static int read_infill(struct gguf *g, int64_t id[3], struct err *e)
{
    static const char *const names[3][2] = {
        {"fim_pre", "prefix"}, {"fim_suf", "suffix"}, {"fim_mid", "middle"}};
    int rc = 0;

    for (size_t i = 0; i < 3 && rc == 0; i++) {
        rc = read_id(g, names[i][0], &id[i], e);
        if (rc == 0 && id[i] == TOK_UNSET)
            rc = read_id(g, names[i][1], &id[i], e);
    }
    return rc;
}

/* Reads the array KEY, which must have one entry for each token. */
static int read_each(struct gguf *g, const char *key, enum gguf_type type, size_t n_tokens, const char **v,
                     struct err *e)
{
    size_t n;
    int rc = gguf_words(g, key, type, v, &n, e);

    if (rc == 0 && *v && n != n_tokens)
        rc = err_set(e, ERR_INPUT, "%s: %s has %zu entries, tokenizer.ggml.tokens has %zu", g->path, key, n,
                     n_tokens);
    return rc;
}

static int read_tokenizer(struct gguf *g, struct tok_gguf *t, struct arena *a, struct err *e)
{
    struct json_str arch;
    int rc;

    *t = (struct tok_gguf){.path = g->path};
    if ((rc = gguf_text(g, "tokenizer.ggml.model", &t->model, e)) != 0 ||
        (rc = gguf_text(g, "tokenizer.ggml.pre", &t->pre, e)) != 0 ||
        (rc = gguf_text(g, "general.architecture", &arch, e)) != 0 ||
        (rc = read_id(g, "bos", &t->bos, e)) != 0 || (rc = read_id(g, "eos", &t->eos, e)) != 0 ||
        (rc = read_id(g, "unknown", &t->unk, e)) != 0 || (rc = read_infill(g, t->infill, e)) != 0 ||
        (rc = read_flag(g, "tokenizer.ggml.add_bos_token", &t->add_bos, e)) != 0 ||
        (rc = read_flag(g, "tokenizer.ggml.add_eos_token", &t->add_eos, e)) != 0 ||
        (rc = read_flag(g, "tokenizer.ggml.add_space_prefix", &t->add_space, e)) != 0 ||
        (rc = read_flag(g, "tokenizer.ggml.remove_extra_whitespaces", &t->squeeze, e)) != 0 ||
        (rc = gguf_strs(g, "tokenizer.ggml.tokens", a, &t->token, &t->n_tokens, e)) != 0 ||
        (rc = gguf_strs(g, "tokenizer.ggml.merges", a, &t->merge, &t->n_merges, e)) != 0 ||
        (rc = read_each(g, "tokenizer.ggml.token_type", GGUF_I32, t->n_tokens, &t->type, e)) != 0 ||
        (rc = read_each(g, "tokenizer.ggml.scores", GGUF_F32, t->n_tokens, &t->score, e)) != 0)
        return rc;
    t->rstrip = json_str_is(&arch, "phi3");
    t->lstrip = t->rstrip && json_str_is(&t->pre, "dbrx");
    if (json_str_is(&t->model, "llama")) { /* defaults of SentencePiece */
        t->bos = t->bos == TOK_UNSET ? 1 : t->bos;
        t->eos = t->eos == TOK_UNSET ? 2 : t->eos;
        t->unk = t->unk == TOK_UNSET ? 0 : t->unk;
    }
    return 0;
}

int gguf_tokenizer_open(struct tok **out, struct gguf_set *s, struct err *e)
{
    struct tok_gguf t;
    struct arena a;
    int rc;

    *out = NULL;
    if (!gguf_has_tokenizer(s))
        return err_set(e, ERR_INPUT,
                       "%s: the file has no tokenizer: tokenizer.ggml.model is missing or names none",
                       s->part[0].path);
    arena_init(&a, MEM_CKPT);
    rc = read_tokenizer(&s->part[0], &t, &a, e);
    if (rc == 0)
        rc = tok_open_gguf(out, &t, e);
    arena_fini(&a);
    return rc;
}

/* ---- JSON ---- */

typedef int put_fn(struct buf *out, struct gguf *g, struct arena *a, struct err *e);
typedef int put_tokens_fn(struct buf *out, struct gguf *g, const struct tok_gguf *t, struct err *e);

/* Writes an object with the members of PUT and, if S has a tokenizer, the members of PUT_TOKENS. */
static int write_object(struct buf *out, struct gguf_set *s, put_fn *put, put_tokens_fn *put_tokens,
                        struct err *e)
{
    struct gguf *g = &s->part[0];
    struct tok_gguf t;
    struct arena a;
    int rc;

    arena_init(&a, MEM_CKPT);
    buf_json_begin(out, '{');
    if ((rc = put(out, g, &a, e)) == 0 && gguf_has_tokenizer(s) && (rc = read_tokenizer(g, &t, &a, e)) == 0)
        rc = put_tokens(out, g, &t, e);
    buf_json_end(out, '}');
    arena_fini(&a);
    return rc == 0 && out->oom ? err_nomem(e, g->path) : rc;
}

/* Returns whether NAME[I] equals an earlier name, or is the "default" of tokenizer.chat_template. */
static bool is_taken(struct gguf *g, const struct json_str *name, size_t i)
{
    bool taken = json_str_is(&name[i], "default") && gguf_get(g, "tokenizer.chat_template");

    for (size_t k = 0; k < i && !taken; k++)
        taken = name[k].n == name[i].n && memcmp(name[k].s, name[i].s, name[i].n) == 0;
    return taken;
}

static void put_template(struct buf *out, size_t *n, const char *name, const struct json_str *text)
{
    if ((*n)++ == 0) {
        buf_json_key(out, "chat_template");
        buf_json_begin(out, '{');
    }
    buf_json_key(out, name);
    buf_json_str(out, text->s, text->n);
}

/* Writes tokenizer.chat_template and all templates named in tokenizer.chat_templates. */
static int put_templates(struct buf *out, struct gguf *g, struct arena *a, struct err *e)
{
    const struct json_str *name;
    struct json_str text;
    size_t n, n_put = 0;
    int rc;

    if ((rc = gguf_text(g, "tokenizer.chat_template", &text, e)) != 0 ||
        (rc = gguf_strs(g, "tokenizer.chat_templates", a, &name, &n, e)) != 0)
        return rc;
    if (text.s)
        put_template(out, &n_put, "default", &text);
    if (n > MAX_TEMPLATES)
        return err_set(e, ERR_INPUT, "%s: tokenizer.chat_templates names %zu templates, expected at most %d",
                       g->path, n, MAX_TEMPLATES);
    for (size_t i = 0; i < n; i++) {
        char key[128], plain[80];

        if (utf8_valid_prefix(name[i].s, name[i].n) != name[i].n || name[i].n >= sizeof(plain) ||
            memchr(name[i].s, 0, name[i].n))
            return err_set(e, ERR_INPUT,
                           "%s: tokenizer.chat_templates: name %zu is not UTF-8 of at most %zu bytes",
                           g->path, i, sizeof(plain) - 1);
        snprintf(plain, sizeof(plain), "%.*s", (int)name[i].n, name[i].s);
        snprintf(key, sizeof(key), "tokenizer.chat_template.%s", plain);
        if ((rc = gguf_text(g, key, &text, e)) != 0)
            return rc;
        if (text.s && !is_taken(g, name, i))
            put_template(out, &n_put, plain, &text);
    }
    if (n_put)
        buf_json_end(out, '}');
    return 0;
}

static int put_token(struct buf *out, const char *key, const struct tok_gguf *t, int64_t id, struct err *e)
{
    if (id < 0)
        return 0;
    if ((size_t)id >= t->n_tokens)
        return err_set(e, ERR_INPUT,
                       "%s: the id of %s is %" PRId64 ", expected less than %zu, the number of tokens",
                       t->path, key, id, t->n_tokens);
    if (utf8_valid_prefix(t->token[id].s, t->token[id].n) != t->token[id].n)
        return err_set(e, ERR_INPUT, "%s: the string of %s is not UTF-8", t->path, key);
    buf_json_key(out, key);
    buf_json_str(out, t->token[id].s, t->token[id].n);
    return 0;
}

static int put_tokens(struct buf *out, struct gguf *g, const struct tok_gguf *t, struct err *e)
{
    int64_t pad;
    int rc;

    if ((rc = read_id(g, "padding", &pad, e)) != 0 || (rc = put_token(out, "bos_token", t, t->bos, e)) != 0 ||
        (rc = put_token(out, "eos_token", t, t->eos, e)) != 0 ||
        (rc = put_token(out, "unk_token", t, t->unk, e)) != 0 ||
        (rc = put_token(out, "pad_token", t, pad, e)) != 0)
        return rc;
    if (t->add_bos >= 0) {
        buf_json_key(out, "add_bos_token");
        buf_json_bool(out, t->add_bos);
    }
    if (t->add_eos >= 0) {
        buf_json_key(out, "add_eos_token");
        buf_json_bool(out, t->add_eos);
    }
    return 0;
}

int gguf_tokenizer_config(struct buf *out, struct gguf_set *s, struct err *e)
{
    return write_object(out, s, put_templates, put_tokens, e);
}

/* Returns whether the special token S ends a turn or a text. <|end|> does not if the vocabulary has Harmony's
 * <|return|>, because it then ends only a message within an answer. */
static bool ends(const struct json_str *s, bool harmony)
{
    static const char *const known[] = {"<|eot_id|>",    "<|eom_id|>",           "<|im_end|>",
                                        "<end_of_turn>", "<|endoftext|>",        "<|end_of_text|>",
                                        "<EOT>",         "<|end_of_turn|>",      "[EOT]",
                                        "[EOS]",         "<|return|>",           "<|call|>",
                                        "</s>",          "<｜end▁of▁sentence｜>"};

    if (json_str_is(s, "<|end|>"))
        return !harmony;
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
        if (json_str_is(s, known[i]))
            return true;
    return false;
}

static bool is_special(const struct tok_gguf *t, size_t i)
{
    uint32_t type = t->type ? little_u32(t->type + 4 * i) : TOK_PIECE_NORMAL;

    return type == TOK_PIECE_CONTROL || type == TOK_PIECE_USER_DEFINED;
}

/* Writes tokenizer.ggml.suppress_tokens, the tokens that are never generated. */
static int put_suppressed(struct buf *out, struct gguf *g, struct err *e)
{
    const char *id;
    size_t n;
    int rc = gguf_words(g, "tokenizer.ggml.suppress_tokens", GGUF_I32, &id, &n, e);

    if (rc || !id)
        return rc;
    buf_json_key(out, "suppress_tokens");
    buf_json_begin(out, '[');
    for (size_t i = 0; i < n; i++)
        buf_json_int(out, (int32_t)little_u32(id + 4 * i));
    buf_json_end(out, ']');
    return 0;
}

/* Writes all tokens that end a text or a turn, each once, the BOS token, and the suppressed tokens. */
static int put_ends(struct buf *out, struct gguf *g, const struct tok_gguf *t, struct err *e)
{
    int64_t named[3] = {t->eos};
    bool harmony = false;
    size_t n = 0;
    int rc;

    if ((rc = read_id(g, "eot", &named[1], e)) != 0 || (rc = read_id(g, "eom", &named[2], e)) != 0)
        return rc;
    for (size_t i = 0; i < t->n_tokens; i++)
        harmony |= is_special(t, i) && json_str_is(&t->token[i], "<|return|>");
    for (size_t i = 0; i < 3 + t->n_tokens; i++) {
        int64_t id = i < 3 ? named[i] : (int64_t)(i - 3);
        bool said = id < 0;

        for (size_t k = 0; k < 3 && k < i; k++)
            said |= named[k] == id;
        if (said || (i >= 3 && !(is_special(t, i - 3) && ends(&t->token[i - 3], harmony))))
            continue;
        if (n++ == 0) {
            buf_json_key(out, "eos_token_id");
            buf_json_begin(out, '[');
        }
        buf_json_int(out, id);
    }
    if (n)
        buf_json_end(out, ']');
    if (t->bos >= 0) {
        buf_json_key(out, "bos_token_id");
        buf_json_int(out, t->bos);
    }
    return put_suppressed(out, g, e);
}

/* The keys of llama.cpp's sampling defaults that become fields of a generation config. If a row with DRAWS has another
 * value than NEUTRAL and the file has no temperature, the config asks for random sampling. */
static const struct {
    const char *key, *field;
    bool integer, draws;
    double neutral;
} sampling_rows[] = {{"temp", "temperature", false, false, 0},
                     {"top_k", "top_k", true, true, 0},
                     {"top_p", "top_p", false, true, 1},
                     {"min_p", "min_p", false, true, 0},
                     {"xtc_probability", "xtc_probability", false, true, 0},
                     {"xtc_threshold", "xtc_threshold", false, false, 0},
                     {"penalty_repeat", "repetition_penalty", false, false, 1}};

/* Warns of keys of llama.cpp that Gallop does not support: mirostat, the order of samplers, and the number of last
 * tokens to which the repetition penalty is limited. Sets *NO_PENALTY if that number is 0. */
static int read_unsupported(struct gguf *g, bool *no_penalty, struct err *e)
{
    double mirostat, last_n;
    int rc;

    if ((rc = gguf_float(g, "general.sampling.mirostat", 0, &mirostat, e)) != 0 ||
        (rc = gguf_float(g, "general.sampling.penalty_last_n", -1, &last_n, e)) != 0)
        return rc;
    *no_penalty = last_n == 0;
    if (mirostat != 0)
        log_warn("%s: general.sampling.mirostat is ignored, because mirostat is not supported", g->path);
    if (gguf_get(g, "general.sampling.sequence"))
        log_warn("%s: general.sampling.sequence is ignored: the order of the samplers is fixed", g->path);
    if (last_n > 0)
        log_warn(
            "%s: general.sampling.penalty_last_n is ignored: the repetition penalty counts all tokens of prompt "
            "and answer",
            g->path);
    return 0;
}

static int put_sampling(struct buf *out, struct gguf *g, struct arena *a, struct err *e)
{
    bool draws = false, no_penalty;
    double v;
    int rc = read_unsupported(g, &no_penalty, e);

    (void)a;
    for (size_t i = 0; i < sizeof(sampling_rows) / sizeof(*sampling_rows) && rc == 0; i++) {
        const char *field = sampling_rows[i].field;
        char key[64];

        snprintf(key, sizeof(key), "general.sampling.%s", sampling_rows[i].key);
        if (!gguf_get(g, key) || (no_penalty && strcmp(field, "repetition_penalty") == 0))
            continue;
        if ((rc = gguf_float(g, key, 0, &v, e)) != 0)
            return rc;
        if (i == 0)
            draws = v > 0;
        else if (!gguf_get(g, "general.sampling.temp"))
            draws |= sampling_rows[i].draws && v != sampling_rows[i].neutral;
        buf_json_key(out, field);
        if (sampling_rows[i].integer)
            buf_json_int(out, (int64_t)(v > 0 && v < 1e9 ? v : 0));
        else
            buf_json_real(out, v);
    }
    if (rc == 0 && (draws || gguf_get(g, "general.sampling.temp"))) {
        buf_json_key(out, "do_sample");
        buf_json_bool(out, draws);
    }
    return rc;
}

int gguf_generation(struct buf *out, struct gguf_set *s, struct err *e)
{
    return write_object(out, s, put_sampling, put_ends, e);
}
