/* gpt2.c - reads vocab.json (an object of tokens and ids) and merges.txt (a version line, then lines of two
 * tokens), the format of GPT-2, OPT and Qwen2 checkpoints without a tokenizer.json. */
#include <string.h>

#include "base/arena.h"
#include "base/json/json_pull.h"
#include "text/settings.h"
#include "text/tok/bpe.h"
#include "text/tok/build.h"
#include "text/tok/formats/family.h"
#include "text/tok/formats/readers.h"
#include "text/tok/tok.h"
#include "text/tok/vocabulary.h"

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
    const char *next;

    for (size_t line = 1; s < end; s = next, line++) {
        size_t n = tok_line(s, end, &next);
        int rc;

        if (n == 0 || (line == 1 && strncmp(s, "#version", 8) == 0))
            continue;
        if ((rc = bpe_merges_add_line(to, s, n, e)) != 0) {
            err_prefix(e, "%s: near line %zu", path, line);
            return rc;
        }
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
    bpe_merges_init(&to, &t->bpe, &t->vocab);
    if (f.len >= 8)
        rc = add_lines(&to, f.bytes, f.bytes + f.len, f.path, e);
    else if (f.len)
        rc = err_set(e, ERR_INPUT, "%s: the file has no merges", f.path);
    bpe_merges_fini(&to);
    folder_text_fini(&f);
    return rc;
}

static int choose_family(const struct settings *c, const struct family **f, struct err *e)
{
    const char *name = *c->class ? c->class : *c->model_type ? c->model_type : "GPT2Tokenizer";
    bool by_model = !*c->class && *c->model_type;

    *f = family_known_as(by_model ? FAMILY_MODEL : FAMILY_CLASS, name, strlen(name));
    if (*f)
        return 0;
    return err_set(
        e, ERR_UNSUPPORTED,
        "%s: vocab.json and merges.txt do not contain the pre-tokenizer's pattern, and the pattern of the %s "
        "\"%s\" is unknown; a tokenizer.json contains it",
        c->path, by_model ? "model_type" : "tokenizer_class", name);
}

/* Finds the id of the special token NAME (bos_token, eos_token) of C. Sets *ID to -1 if WANTED is false. */
static int find_fixed(const struct tok *t, const struct settings *c, const char *name, bool wanted,
                      int32_t *id, struct err *e)
{
    const struct settings_text *x = settings_find(&c->tokens, name);

    *id = -1;
    if (!wanted || (x && tok_id_of(t, x->text, x->n, id)))
        return 0;
    return err_set(e, ERR_INPUT, "%s: the %s that is added to every text is not in the vocabulary", c->path,
                   name);
}

/* Sets the ids around a text: BOS and EOS if the configuration asks for them; RoBERTa always has both. */
static int add_around(struct tok *t, const struct family *f, const struct settings *c, struct err *e)
{
    bool roberta = strcmp(f->name, "RoBERTa") == 0, opt = !*c->class && strcmp(c->model_type, "opt") == 0;
    int32_t bos, eos;
    int rc = find_fixed(t, c, "bos_token", roberta || opt || c->add_bos == SETTINGS_YES, &bos, e);

    if (rc == 0)
        rc = find_fixed(t, c, "eos_token", roberta || c->add_eos == SETTINGS_YES, &eos, e);
    return rc ? rc : tok_add_around(t, bos, eos, e);
}

int tok_read_gpt2(struct tok *t, struct folder in, const struct settings *conf, struct err *e)
{
    const struct family *f;
    int rc = choose_family(conf, &f, e);

    t->model = TOK_BPE;
    if (rc == 0 && (rc = read_vocab(t, in, e)) == 0)
        rc = read_merges(t, in, e);
    if (rc)
        return rc;
    if ((rc = family_apply(f, t, conf->add_prefix_space == SETTINGS_YES, e)) != 0 ||
        (rc = tok_add_settings(t, conf, e)) != 0 || (rc = add_around(t, f, conf, e)) != 0 ||
        (rc = tok_seal(t, e)) != 0)
        err_prefix(e, "%s", in.path);
    return rc;
}
