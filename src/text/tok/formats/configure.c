/* configure.c - applies tokenizer_config.json and the like to a tokenizer from a tokenizer.json. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "text/settings.h"
#include "text/tok/added.h"
#include "text/tok/build.h"
#include "text/tok/formats/family.h"
#include "text/tok/formats/readers.h"
#include "text/tok/steps.h"
#include "text/tok/tok.h"
#include "text/tok/vocabulary.h"

enum { LARGE_VOCABULARY = 100000 }; /* fix_mistral_regex has an effect on larger vocabularies only */

/* Adds the token X or, if T has an added token of this content, replaces the flags of that token by X's.
 * PLAIN: X has no flags but special. */
static int set_token(struct tok *t, const struct settings_token *x, bool plain, struct err *e)
{
    struct tok_added a = {.id = VOCAB_NONE,
                          .special = x->special || plain,
                          .lstrip = x->lstrip && !plain,
                          .rstrip = x->rstrip && !plain,
                          .single_word = x->single_word && !plain,
                          .normalized = x->normalized && !plain};
    uint32_t id;

    if (!vocab_find(&t->added.names, x->content, x->n, &id))
        return tok_add_token(t, a, x->content, x->n, e);
    if ((x->in_table || plain) && id < t->added.n_by_id && t->added.by_id[id]) {
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

/* Adds a step that puts a space before each piece that reaches step AT. */
static int add_prefix(struct tok *t, size_t at, struct err *e)
{
    static const struct step space = {.kind = SPLIT_PREPEND, .text = {" ", 1}, .missing = true};
    struct steps *s = &t->pre.steps;
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
 * for others the tokenizer.json decides. The step ByteLevel of these classes puts no space by default. It
 * puts the space before the whole text, before the pieces that its own pattern cuts (Cohere), or, without a
 * pattern, before each of them (Qwen). */
static int set_prefix_space(struct tok *t, const struct settings *conf, struct err *e)
{
    size_t n = strlen(conf->loaded), at = spelling(&t->pre.steps);
    bool bytes = at < t->pre.steps.n,
         whole = tok_is_among(" GPT2Tokenizer CodeGenTokenizer GPTNeoXTokenizer ", conf->loaded, n),
         pattern = tok_is_among(" CohereTokenizer ", conf->loaded, n),
         parts = tok_is_among(" Qwen2Tokenizer Qwen3_5Tokenizer ", conf->loaded, n),
         pieces = tok_is_among(" LlamaTokenizer ", conf->loaded, n);

    if (bytes ? !whole && !parts && !pattern : (!pieces || conf->add_prefix_space == SETTINGS_UNSET))
        return 0;
    if (conf->add_prefix_space == SETTINGS_YES) /* the file's Metaspace already puts a space */
        return bytes ? add_prefix(t, whole ? 0 : at - (pattern && at > 0), e) : 0;
    remove_prefixes(&t->pre.steps);
    remove_prefixes(&t->norm);
    return 0;
}

/* Returns true if VERSION of transformers is before 5.0.0. */
static bool is_before_5(const char *version)
{
    char *end;
    long major = strtol(version, &end, 10);
    bool zero = strncmp(end, ".0.0", 4) == 0;

    return major < 5 || (major == 5 && zero && (end[4] == '.' || isalpha((unsigned char)end[4])));
}

/* Replaces the first pre-tokenizer of a Sequence, or a Metaspace, by Mistral's pattern, or puts the pattern
 * before another pre-tokenizer. */
static int set_mistral_pattern(struct tok *t, struct err *e)
{
    const char *pattern = family_known_as(FAMILY_PRE, "tekken", 6)->pattern;
    const struct step isolated = {.behavior = SPLIT_ISOLATED};
    struct steps *s = &t->pre.steps;
    bool metaspace = t->n_first == 0 && (is_prefix(&s->step[0]) || s->step[0].kind == SPLIT_REPLACE);
    size_t n_gone = metaspace ? s->n : t->n_first;
    struct step split;
    int rc = metaspace ? tok_add_byte_level(t, false, false, e) : 0;

    if (rc || (rc = tok_add_split(t, pattern, strlen(pattern), isolated, e)) != 0)
        return rc;
    split = s->step[--s->n];
    if (n_gone == 0) {
        memmove(s->step + 1, s->step, s->n++ * sizeof(*s->step));
    } else {
        memmove(s->step + 1, s->step + n_gone, (s->n - n_gone) * sizeof(*s->step));
        s->n -= n_gone - 1;
    }
    s->step[0] = split;
    return 0;
}

/* Replaces the pattern of the pre-tokenizer by Mistral's, if fix_mistral_regex says so, as transformers does
 * with large vocabularies; without fix_mistral_regex, warns. */
static int fix_mistral(struct tok *t, const struct settings *conf, struct err *e)
{
    static const char types[] = " mistral mistral3 voxtral ministral pixtral ";
    size_t type_len = strlen(conf->model_type);

    if (!conf->has_config || tok_n_ids(t) <= LARGE_VOCABULARY || t->pre.steps.n == 0 ||
        !is_before_5(conf->version) || (type_len && !tok_is_among(types, conf->model_type, type_len)))
        return 0;
    if (conf->fix_mistral_regex == SETTINGS_UNSET)
        log_warn(
            "%s: Mistral's early tokenizers have a wrong pattern, and tokenizer_config.json does not say by "
            "fix_mistral_regex whether it is to be replaced; it is used as it is",
            conf->path);
    return conf->fix_mistral_regex == SETTINGS_YES ? set_mistral_pattern(t, e) : 0;
}

int tok_configure(struct tok *t, const struct settings *conf, struct err *e)
{
    bool plain =
        strcmp(conf->loaded, "Qwen2Tokenizer") == 0; /* this class takes the flags of named tokens away */
    int rc = 0;

    /* Tokens of added_tokens_decoder come first, then named tokens. */
    for (size_t k = 0; k < 2 * conf->n_added && rc == 0; k++) {
        const struct settings_token *x = &conf->added[k % conf->n_added];

        if (x->in_table == (k < conf->n_added) && !conf->ignores[x->only])
            rc = set_token(t, x, plain && x->is_named, e);
    }
    t->split_special = conf->split_special == SETTINGS_YES;
    if (rc || (rc = set_prefix_space(t, conf, e)) != 0)
        return rc;
    return fix_mistral(t, conf, e);
}
