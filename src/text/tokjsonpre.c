/* tokjsonpre.c - each type becomes one or a few steps of pretok.h. */
#include "text/tokjsonpre.h"

#include <string.h>

#include "text/tokcomp.h"

static const char section[] = "pre_tokenizer";

static void add(struct json_pull *j, struct tok *t, struct pretok_step step)
{
    tokcomp_stop(j, pretok_add(&t->pre, step, j->e), section);
}

static bool take_behavior(struct json_pull *j, const struct tokcomp *c, enum pretok_behavior *b)
{
    int found = tokcomp_behavior(&c->behavior);

    if (found < 0) {
        json_pull_fail(j, "the behavior \"%.*s\" is not understood",
                       (int)(c->behavior.n < 60 ? c->behavior.n : 60), c->behavior.s ? c->behavior.s : "");
        return false;
    }
    *b = (enum pretok_behavior)found;
    return true;
}

static void add_literal(struct json_pull *j, struct tok *t, struct pretok_step step, const struct json_str *s)
{
    step.kind = PRETOK_LITERAL;
    step.n_text = s->n;
    step.text = mem_strndup(s->s, s->n, MEM_TEXT);
    if (!step.text)
        tokcomp_stop(j, err_nomem(j->e, section), section);
    else
        add(j, t, step);
}

static void add_split(struct json_pull *j, struct tok *t, const struct tokcomp *c)
{
    struct pretok_step step = {.kind = PRETOK_SPLIT, .invert = c->invert == TOKCOMP_YES};
    int rc;

    if (!take_behavior(j, c, &step.behavior))
        return;
    if (c->regex.s) {
        rc = pretokre_new(&step.re, c->regex.s, c->regex.n, true, j->e);
        if (rc)
            tokcomp_stop(j, rc, section);
        else
            add(j, t, step);
    } else if (c->literal.s && c->literal.n) {
        add_literal(j, t, step, &c->literal);
    } else {
        json_pull_fail(j, "a Split needs a pattern");
    }
}

static void add_metaspace(struct json_pull *j, struct tok *t, const struct tokcomp *c)
{
    struct pretok_step step = {.kind = PRETOK_METASPACE,
                               .behavior = PRETOK_MERGED_NEXT,
                               .scheme = PRETOK_ALWAYS,
                               .split = c->split != TOKCOMP_NO};
    uint32_t ch;

    if (!tokcomp_char(&c->replacement, &ch)) {
        json_pull_fail(j, "the replacement of a Metaspace is one character");
        return;
    }
    if (c->prepend_scheme.s && json_str_is(&c->prepend_scheme, "first"))
        step.scheme = PRETOK_FIRST;
    else if (c->prepend_scheme.s && json_str_is(&c->prepend_scheme, "never"))
        step.scheme = PRETOK_NEVER;
    else if (c->prepend_scheme.s && !json_str_is(&c->prepend_scheme, "always"))
        json_pull_fail(j, "the prepend_scheme \"%.*s\" is not understood", (int)(c->prepend_scheme.n & 63),
                       c->prepend_scheme.s);
    if (c->add_prefix_space == TOKCOMP_NO && !c->prepend_scheme.s)
        step.scheme = PRETOK_NEVER;
    else if (c->add_prefix_space == TOKCOMP_NO && step.scheme != PRETOK_NEVER)
        json_pull_fail(j, "add_prefix_space and prepend_scheme of a Metaspace contradict each other");
    if (j->rc)
        return;
    step.n_text = c->replacement.n;
    step.text = mem_strndup(c->replacement.s, c->replacement.n, MEM_TEXT);
    if (!step.text)
        tokcomp_stop(j, err_nomem(j->e, section), section);
    else
        add(j, t, step);
}

static void add_punctuation(struct json_pull *j, struct tok *t, const struct tokcomp *c)
{
    struct pretok_step step = {.kind = PRETOK_CHARS, .cls = PRETOK_PUNCTUATION, .behavior = PRETOK_ISOLATED};

    if (!c->behavior.s || take_behavior(j, c, &step.behavior))
        add(j, t, step);
}

static void member(struct json_pull *j, void *ctx)
{
    tokjsonpre_read(j, ctx);
}

void tokjsonpre_read(struct json_pull *j, struct tok *t)
{
    static const struct pretok_step blanks = {
        .kind = PRETOK_CHARS, .cls = PRETOK_BLANK, .behavior = PRETOK_REMOVED};
    struct tokcomp c;

    if (json_pull_null(j))
        return;
    tokcomp_read(j, &c);
    if (j->rc)
        return;
    if (json_str_is(&c.type, "Sequence")) {
        tokcomp_each(j, &c, member, t);
    } else if (json_str_is(&c.type, "ByteLevel")) {
        tokcomp_stop(j,
                     pretok_add_byte_level(&t->pre, c.add_prefix_space == TOKCOMP_YES,
                                           c.use_regex != TOKCOMP_NO, j->e),
                     section);
    } else if (json_str_is(&c.type, "Split")) {
        add_split(j, t, &c);
    } else if (json_str_is(&c.type, "Metaspace")) {
        add_metaspace(j, t, &c);
    } else if (json_str_is(&c.type, "Digits")) {
        add(j, t,
            (struct pretok_step){.kind = PRETOK_CHARS,
                                 .cls = PRETOK_NUMERIC,
                                 .behavior = c.individual_digits == TOKCOMP_YES ? PRETOK_ISOLATED
                                                                                : PRETOK_CONTIGUOUS});
    } else if (json_str_is(&c.type, "Punctuation")) {
        add_punctuation(j, t, &c);
    } else if (json_str_is(&c.type, "Whitespace")) {
        add(j, t, (struct pretok_step){.kind = PRETOK_RUNS});
    } else if (json_str_is(&c.type, "WhitespaceSplit")) {
        add(j, t, blanks);
    } else if (json_str_is(&c.type, "BertPreTokenizer")) {
        add(j, t, blanks);
        add(j, t,
            (struct pretok_step){
                .kind = PRETOK_CHARS, .cls = PRETOK_PUNCTUATION, .behavior = PRETOK_ISOLATED});
    } else if (json_str_is(&c.type, "CharDelimiterSplit") && c.delimiter.s && c.delimiter.n) {
        add_literal(j, t, (struct pretok_step){.behavior = PRETOK_REMOVED}, &c.delimiter);
    } else {
        tokcomp_unknown(j, section, &c);
    }
}
