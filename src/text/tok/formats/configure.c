/* configure.c - applies tokenizer_config.json and the like to a tokenizer from a tokenizer.json. */
#include <string.h>

#include "text/tok/formats/readers.h"

/* Adds the token X or, if T has an added token of this content, replaces the flags of that token by X's. */
static int set_token(struct tok *t, const struct settings_token *x, struct err *e)
{
    struct tok_added a = {.id = VOCAB_NONE,
                          .special = x->special,
                          .lstrip = x->lstrip,
                          .rstrip = x->rstrip,
                          .single_word = x->single_word,
                          .normalized = x->normalized};
    uint32_t id;

    if (!vocab_find(&t->added.names, x->content, x->n, &id)) {
        if (x->of_class && !vocab_find(&t->vocab, x->content, x->n, &id))
            return 0; /* the class's default token, which the model lacks */
        return tok_add_token(t, a, x->content, x->n, e);
    }
    if (x->in_table && id < t->added.n_by_id && t->added.by_id[id]) {
        a.id = id;
        t->added.token[t->added.by_id[id] - 1] = a;
    }
    return 0;
}

static bool is_prefix(const struct step *p)
{
    return p->kind == SPLIT_PREPEND || p->kind == NORMALIZE_PREPEND;
}

static void remove_prefixes(struct steps *s)
{
    size_t kept = 0;

    for (size_t i = 0; i < s->n; i++)
        if (!is_prefix(&s->step[i]))
            s->step[kept++] = s->step[i];
    s->n = kept;
}

/* Returns the index of the SPLIT_SPELL step, or the number of steps if there is none. */
static size_t spelling(const struct steps *s)
{
    size_t i = 0;

    while (i < s->n && s->step[i].kind != SPLIT_SPELL)
        i++;
    return i;
}

/* Adds a step that puts a space before a text. GPT-2's class (WHOLE) puts it before the whole text; other
 * classes before the pieces that reach the ByteLevel step. */
static int add_prefix(struct tok *t, bool whole, struct err *e)
{
    static const struct step space = {.kind = SPLIT_PREPEND, .text = {" ", 1}, .missing = true};
    struct steps *s = &t->pre.steps;
    size_t at = whole ? 0 : spelling(s);
    int rc;

    for (size_t i = 0; i < s->n; i++)
        if (is_prefix(&s->step[i]))
            return 0;
    rc = tok_add_step(s, space, "pre_tokenizer", e);
    if (rc == 0) {
        memmove(s->step + at + 1, s->step + at, (s->n - 1 - at) * sizeof(*s->step));
        s->step[at] = space;
    }
    return rc;
}

/* Applies add_prefix_space. Only those classes of transformers that build their own pre-tokenizer obey it;
 * for others the tokenizer.json decides. */
static int set_prefix_space(struct tok *t, const struct settings *conf, struct err *e)
{
    size_t n = strlen(conf->class);
    bool bytes = spelling(&t->pre.steps) < t->pre.steps.n;
    bool whole = tok_is_among(" GPT2Tokenizer GPT2TokenizerFast CodeGenTokenizer CodeGenTokenizerFast "
                              "GPTNeoXTokenizer GPTNeoXTokenizerFast ",
                              conf->class, n),
         parts = tok_is_among(" Qwen2Tokenizer Qwen2TokenizerFast ", conf->class, n),
         pieces = tok_is_among(" LlamaTokenizer LlamaTokenizerFast ", conf->class, n);

    if (conf->add_prefix_space == SETTINGS_UNSET || (bytes ? !whole && !parts : !pieces))
        return 0;
    if (conf->add_prefix_space == SETTINGS_YES) /* the file's Metaspace already puts a space */
        return bytes ? add_prefix(t, whole, e) : 0;
    remove_prefixes(&t->pre.steps);
    remove_prefixes(&t->norm);
    return 0;
}

int tok_configure(struct tok *t, const struct settings *conf, struct err *e)
{
    int rc = 0;

    /* Tokens of added_tokens_decoder come first, then named tokens. */
    for (size_t k = 0; k < 2 * conf->n_added && rc == 0; k++) {
        const struct settings_token *x = &conf->added[k % conf->n_added];

        if (x->in_table == (k < conf->n_added))
            rc = set_token(t, x, e);
    }
    t->split_special = conf->split_special == SETTINGS_YES;
    return rc ? rc : set_prefix_space(t, conf, e);
}
