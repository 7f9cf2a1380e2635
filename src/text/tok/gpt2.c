/* gpt2.c - reads vocab.json and merges.txt, the form of GPT-2, OPT and Qwen2 checkpoints without a
 * tokenizer.json: a JSON object of ids, and lines of two tokens each under a line with a version.
 */
#include <string.h>

#include "base/json_pull.h"
#include "text/tok/build.h"
#include "text/tok/family.h"

static int read_vocab(struct tok *t, struct folder in, struct err *e)
{
    struct folder_text f;
    struct arena arena;
    struct json_str key;
    struct json_pull j;
    int64_t id;
    int rc = folder_read(&f, in, "vocab.json", NULL, e);

    if (rc)
        return rc;
    arena_init(&arena, MEM_TEXT);
    json_pull_open(&j, f.bytes, f.len, f.path, &arena, e);
    for (json_pull_enter_object(&j); rc == 0 && json_pull_key(&j, &key);)
        if (json_pull_i64(&j, &id) && (rc = vocab_add(&t->vocab, key.s, key.n, id, e)) != 0)
            err_prefix(e, "%s", f.path);
    if (rc == 0)
        rc = json_pull_finish(&j);
    arena_fini(&arena);
    folder_text_fini(&f);
    return rc;
}

static int add_lines(struct bpe_merges *to, const char *s, const char *end, const char *path, struct err *e)
{
    size_t line = 0;

    while (s < end) {
        const char *nl = memchr(s, '\n', (size_t)(end - s)), *stop = nl ? nl : end, *next = nl ? nl + 1 : end,
                   *blank;
        int rc;

        line++;
        if (stop > s && stop[-1] == '\r')
            stop--;
        blank = stop > s ? memchr(s, ' ', (size_t)(stop - s)) : NULL;
        if (stop == s || (line == 1 && strncmp(s, "#version", 8) == 0)) {
            s = next;
            continue;
        }
        if (!blank || blank == s || blank + 1 == stop || memchr(blank + 1, ' ', (size_t)(stop - blank - 1)))
            return err_set(e, ERR_INPUT, "%s: line %zu is not two tokens with a blank between", path, line);
        rc = bpe_merges_add(to, s, (size_t)(blank - s), blank + 1, (size_t)(stop - blank - 1), e);
        if (rc) {
            err_prefix(e, "%s: near line %zu", path, line);
            return rc;
        }
        s = next;
    }
    return bpe_merges_end(to, e);
}

static int read_merges(struct tok *t, struct folder in, struct err *e)
{
    struct folder_text f;
    struct bpe_merges to;
    int rc = folder_read(&f, in, "merges.txt", NULL, e);

    if (rc)
        return rc;
    bpe_merges_init(&to, &t->bpe, &t->vocab, 0);
    if (f.len >= 8)
        rc = add_lines(&to, f.bytes, f.bytes + f.len, f.path, e);
    else if (f.len)
        rc = err_set(e, ERR_INPUT, "%s: there are no merges in this file", f.path);
    bpe_merges_fini(&to);
    folder_text_fini(&f);
    return rc;
}

static int choose(const struct settings *c, const struct family **f, struct err *e)
{
    *f = NULL;
    if (*c->class)
        *f = family_of_class(c->class);
    else if (*c->model_type)
        *f = family_of_model(c->model_type);
    else
        *f = family_of_class("GPT2Tokenizer");
    if (*f)
        return 0;
    return err_set(
        e, ERR_UNSUPPORTED,
        "%s: vocab.json and merges.txt do not say how text is cut into words, and the %s \"%s\" is not known "
        "here; a tokenizer.json would say it",
        c->path, *c->class ? "tokenizer_class" : "model_type", *c->class ? c->class : c->model_type);
}

static int add_fixed(struct tok *t, const struct settings *c, const char *name, struct tok_ids *to,
                     struct err *e)
{
    const struct settings_text *x = settings_find(&c->tokens, name);
    int32_t id;
    uint32_t u;

    if (!x || !tok_id_of(t, x->text, x->n, &id))
        return err_set(e, ERR_INPUT,
                       "%s: the token that is to stand around every text is not in the vocabulary", c->path);
    u = (uint32_t)id;
    return tok_ids_add(to, &u, 1) ? 0 : err_nomem(e, "tokenizer");
}

/* What stands around a text: BOS and EOS where the config asks for them; RoBERTa always has both. */
static int add_around(struct tok *t, const struct family *f, const struct settings *c, struct err *e)
{
    bool roberta = strcmp(f->name, "RoBERTa") == 0, opt = !*c->class && strcmp(c->model_type, "opt") == 0;
    int rc = 0;

    if (roberta || opt || c->add_bos == 1)
        rc = add_fixed(t, c, "bos_token", &t->prefix, e);
    if (rc == 0 && (roberta || c->add_eos == 1))
        rc = add_fixed(t, c, "eos_token", &t->suffix, e);
    return rc;
}

int tok_read_gpt2(struct tok *t, struct folder in, const struct settings *conf, struct err *e)
{
    const struct family *f;
    int rc = choose(conf, &f, e);

    t->model = TOK_BPE;
    if (rc == 0 && (rc = read_vocab(t, in, e)) == 0)
        rc = read_merges(t, in, e);
    if (rc)
        return rc;
    if ((rc = family_apply(f, t, conf->add_prefix_space == 1, e)) != 0 ||
        (rc = tok_add_settings(t, conf, e)) != 0 || (rc = add_around(t, f, conf, e)) != 0 ||
        (rc = tok_seal(t, e)) != 0)
        err_prefix(e, "%s", in.path);
    return rc;
}
