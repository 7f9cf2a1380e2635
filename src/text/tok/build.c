/* build.c - builds a struct tok from its parts, and hands out scratches to encodings. */
#include "text/tok/build.h"

#include <string.h>

#include "text/settings.h"
#include "text/tok/decode.h"
#include "text/tok/pattern.h"

struct tok *tok_new(void)
{
    struct tok *t = mem_zalloc(1, sizeof(*t), MEM_TEXT);

    if (!t)
        return NULL;
    t->eos = -1;
    arena_init(&t->arena, MEM_TEXT);
    vocab_init(&t->vocab);
    vocab_init(&t->added.names);
    return t;
}

int tok_add_token(struct tok *t, struct tok_added a, const char *content, size_t n, struct err *e)
{
    size_t most = t->added.n_by_id; /* the largest id of an added token + 1 */
    bool said = a.id != VOCAB_NONE;

    if (n == 0)
        return 0;
    if ((said || !vocab_find(&t->added.names, content, n, &a.id)) &&
        !vocab_find(&t->vocab, content, n, &a.id) && !said)
        a.id = (uint32_t)(most > t->vocab.n ? most : t->vocab.n);
    return tok_added_add(&t->added, a, content, n, e);
}

int tok_add_around(struct tok *t, int64_t before, int64_t after, struct err *e)
{
    uint32_t first = (uint32_t)before, last = (uint32_t)after;

    if ((before >= 0 && !tok_ids_add(&t->prefix, &first, 1)) ||
        (after >= 0 && !tok_ids_add(&t->suffix, &last, 1)))
        return err_nomem(e, "tokenizer");
    return 0;
}

int tok_add_split(struct tok *t, const char *pattern, size_t n, struct step step, struct err *e)
{
    int rc = pattern_add(&t->patterns, pattern, n, e);

    step.kind = SPLIT_MATCHES;
    step.re = t->patterns;
    return rc ? rc : tok_add_step(&t->pre.steps, step, "pre_tokenizer", e);
}

int tok_add_byte_level(struct tok *t, bool prefix_space, bool use_regex, struct err *e)
{
    static const char gpt2[] =
        "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
    static const struct step space = {.kind = SPLIT_PREPEND, .text = {" ", 1}, .missing = true},
                             spell = {.kind = SPLIT_SPELL};
    int rc = 0;

    if (prefix_space)
        rc = tok_add_step(&t->pre.steps, space, "pre_tokenizer", e);
    if (rc == 0 && use_regex)
        rc = tok_add_split(t, gpt2, strlen(gpt2), (struct step){.behavior = SPLIT_ISOLATED}, e);
    for (size_t i = 0; i < t->pre.steps.n && rc == 0; i++)
        if (t->pre.steps.step[i].kind == SPLIT_SPELL)
            rc = err_set(e, ERR_UNSUPPORTED, "a pre_tokenizer with two ByteLevel steps is not supported");
    return rc ? rc : tok_add_step(&t->pre.steps, spell, "pre_tokenizer", e);
}

static bool is_known(const struct tok *t, const char *s, size_t n)
{
    uint32_t id;

    return vocab_find(&t->added.names, s, n, &id) || vocab_find(&t->vocab, s, n, &id);
}

int tok_add_settings(struct tok *t, const struct settings *c, struct err *e)
{
    int rc = 0;

    for (size_t i = 0; i < c->n_added && rc == 0; i++) {
        const struct settings_token *x = &c->added[i];
        struct tok_added a = {.special = x->special,
                              .lstrip = x->lstrip,
                              .rstrip = x->rstrip,
                              .single_word = x->single_word,
                              .normalized = x->normalized};

        if (x->id > VOCAB_MAX_ID)
            return err_set(e, ERR_INPUT, "%s: the id %lld of the added token %.*s is larger than %d", c->path,
                           (long long)x->id, (int)(x->n < 60 ? x->n : 60), x->content, (int)VOCAB_MAX_ID);
        if (x->of_class && !is_known(t, x->content, x->n))
            continue;
        a.id = x->id < 0 ? VOCAB_NONE : (uint32_t)x->id;
        rc = tok_add_token(t, a, x->content, x->n, e);
        if (rc)
            err_prefix(e, "%s: added tokens", c->path);
    }
    return rc;
}

void tok_scratch_free(struct tok_scratch *s)
{
    if (!s)
        return;
    normalize_work_fini(&s->norm);
    split_work_fini(&s->pre);
    pattern_work_free(s->re);
    bpe_work_free(s->bpe);
    unigram_work_fini(&s->uni);
    mem_free(s);
}

/* Creates a scratch. No request is charged for it, since it may be kept. */
static struct tok_scratch *new_scratch(const struct tok *t)
{
    enum mem_charge before = mem_charge(MEM_CHARGE_NONE);
    struct tok_scratch *s = mem_zalloc(1, sizeof(*s), MEM_TEXT);

    if (s) {
        s->re = pattern_work_new();
        s->norm.re = s->re;
        if (!s->re || !split_work_init(&s->pre, &t->pre, s->re) ||
            (t->model == TOK_BPE && !(s->bpe = bpe_work_new(&t->bpe)))) {
            tok_scratch_free(s);
            s = NULL;
        }
    }
    mem_charge(before);
    return s;
}

struct tok_scratch *tok_scratch_take(const struct tok *t)
{
    struct tok *m = (struct tok *)(uintptr_t)t; /* the tokenizer is constant except for its idle scratches */
    struct tok_scratch *s;

    for (size_t i = 0; i < TOK_POOL; i++)
        if (atomic_load_explicit(&m->idle[i], memory_order_relaxed) &&
            (s = atomic_exchange(&m->idle[i], NULL)) != NULL)
            return s;
    return new_scratch(t);
}

void tok_scratch_give(const struct tok *t, struct tok_scratch *s)
{
    struct tok *m = (struct tok *)(uintptr_t)t;

    for (size_t i = 0; i < TOK_POOL && !s->large; i++) {
        struct tok_scratch *none = NULL;

        if (atomic_compare_exchange_strong(&m->idle[i], &none, s))
            return;
    }
    tok_scratch_free(s);
}

/* Replaces *CONTENT, the text of the token A, by its normal form, and stores that in A if it differs. */
static int normalize_added(struct tok *t, struct tok_scratch *s, struct tok_added *a, const char **content,
                           size_t *n, struct err *e)
{
    struct json_str made = {*content, *n};
    int rc = normalize_run(&t->norm, &s->norm, &made, NULL, e);

    if (rc || (made.n == *n && memcmp(made.s, *content, *n) == 0))
        return rc;
    a->normal = (struct json_str){arena_strndup(&t->arena, made.s, made.n), made.n};
    *content = a->normal.s;
    *n = made.n;
    return a->normal.s ? 0 : err_nomem(e, "added tokens");
}

/* Indexes the patterns of all added tokens, special tokens first: of equal patterns the first one wins. */
static int index_added(struct tok *t, struct err *e)
{
    struct tok_scratch *s = tok_scratch_take(t);
    int rc = s ? 0 : err_nomem(e, "tokenizer");

    for (size_t k = 0; k < 2 * t->added.n && rc == 0; k++) {
        size_t i = k % t->added.n, n;
        const char *content;

        if (t->added.token[i].special != (k < t->added.n))
            continue;
        if (!vocab_str(&t->added.names, t->added.token[i].id, &content, &n))
            continue;
        if (t->added.token[i].normalized)
            rc = normalize_added(t, s, &t->added.token[i], &content, &n, e);
        if (rc == 0)
            rc = tok_added_index(&t->added, i, content, n, e);
    }
    if (s)
        tok_scratch_give(t, s);
    return rc;
}

int tok_seal(struct tok *t, struct err *e)
{
    int rc = decode_check(&t->chain, e);

    if (rc)
        return rc;
    split_seal(&t->pre);
    if (t->model == TOK_BPE) {
        t->bpe.byte_level = t->pre.bytes;
        if (t->bpe.byte_level && t->bpe.suffix.n)
            return err_set(e, ERR_UNSUPPORTED,
                           "a byte-level BPE model with an end_of_word_suffix is not supported");
        rc = bpe_seal(&t->bpe, &t->vocab, e);
    } else {
        if (t->pre.bytes)
            return err_set(e, ERR_UNSUPPORTED,
                           "a unigram model with a ByteLevel pre_tokenizer is not supported");
        rc = unigram_seal(&t->uni, &t->vocab, e);
    }
    return rc ? rc : index_added(t, e);
}
