/* tokjsondec.c - each type becomes one step of detokchain.h. */
#include "text/tokjsondec.h"

#include <string.h>

#include "text/tokcomp.h"

enum { MAX_STRIP = 1 << 20 };

static const char section[] = "decoder";

static void add(struct json_pull *j, struct tok *t, struct detokchain_step step)
{
    tokcomp_stop(j, detokchain_add(&t->chain, step, j->e), section);
}

static bool copy(struct json_pull *j, char **to, size_t *n_to, const struct json_str *s)
{
    *n_to = s->n;
    *to = mem_strndup(s->s, s->n, MEM_TEXT);
    if (!*to)
        tokcomp_stop(j, err_nomem(j->e, section), section);
    return *to != NULL;
}

static void add_replace(struct json_pull *j, struct tok *t, const struct tokcomp *c)
{
    struct detokchain_step step = {.kind = DETOKCHAIN_REPLACE};
    int rc;

    if (!c->content.s || (!c->regex.s && (!c->literal.s || c->literal.n == 0))) {
        json_pull_fail(j, "a Replace needs a pattern and a content");
        return;
    }
    if (!copy(j, &step.text, &step.n_text, &c->content))
        return;
    if (c->regex.s) {
        rc = pretokre_new(&step.re, c->regex.s, c->regex.n, true, j->e);
        tokcomp_stop(j, rc, section);
    } else {
        copy(j, &step.find, &step.n_find, &c->literal);
    }
    if (j->rc)
        mem_free(step.text);
    else
        add(j, t, step);
}

static void add_strip(struct json_pull *j, struct tok *t, const struct tokcomp *c)
{
    struct detokchain_step step = {
        .kind = DETOKCHAIN_STRIP, .start = (size_t)c->start, .stop = (size_t)c->stop};

    if (!tokcomp_char(&c->content, &step.ch))
        json_pull_fail(j, "the content of a Strip is one character");
    else if (c->start < 0 || c->start > MAX_STRIP || c->stop < 0 || c->stop > MAX_STRIP)
        json_pull_fail(j, "start and stop of a Strip are 0..%d", (int)MAX_STRIP);
    else
        add(j, t, step);
}

static void add_metaspace(struct json_pull *j, struct tok *t, const struct tokcomp *c)
{
    struct detokchain_step step = {.kind = DETOKCHAIN_METASPACE, .drop_first = true};

    if (!tokcomp_char(&c->replacement, &step.ch)) {
        json_pull_fail(j, "the replacement of a Metaspace is one character");
        return;
    }
    if (c->prepend_scheme.s ? json_str_is(&c->prepend_scheme, "never") : c->add_prefix_space == TOKCOMP_NO)
        step.drop_first = false;
    add(j, t, step);
}

static void add_suffix(struct json_pull *j, struct tok *t, const struct tokcomp *c)
{
    static const struct json_str usual = {"</w>", 4};
    struct detokchain_step step = {.kind = DETOKCHAIN_SUFFIX};

    if (c->suffix.s && c->suffix.n == 0)
        json_pull_fail(j, "the suffix of a BPEDecoder is empty");
    else if (copy(j, &step.find, &step.n_find, c->suffix.s ? &c->suffix : &usual))
        add(j, t, step);
}

static void one(struct json_pull *j, struct tok *t);

static void member(struct json_pull *j, void *ctx)
{
    one(j, ctx);
}

static void one(struct json_pull *j, struct tok *t)
{
    struct tokcomp c;

    tokcomp_read(j, &c);
    if (j->rc)
        return;
    if (json_str_is(&c.type, "Sequence"))
        tokcomp_each(j, &c, member, t);
    else if (json_str_is(&c.type, "ByteLevel"))
        add(j, t, (struct detokchain_step){.kind = DETOKCHAIN_BYTE_LEVEL});
    else if (json_str_is(&c.type, "ByteFallback"))
        add(j, t, (struct detokchain_step){.kind = DETOKCHAIN_BYTE_FALLBACK});
    else if (json_str_is(&c.type, "Fuse"))
        add(j, t, (struct detokchain_step){.kind = DETOKCHAIN_FUSE});
    else if (json_str_is(&c.type, "Replace"))
        add_replace(j, t, &c);
    else if (json_str_is(&c.type, "Strip"))
        add_strip(j, t, &c);
    else if (json_str_is(&c.type, "Metaspace"))
        add_metaspace(j, t, &c);
    else if (json_str_is(&c.type, "BPEDecoder"))
        add_suffix(j, t, &c);
    else
        tokcomp_unknown(j, section, &c);
}

void tokjsondec_read(struct json_pull *j, struct tok *t)
{
    if (json_pull_null(j))
        add(j, t, (struct detokchain_step){.kind = DETOKCHAIN_JOIN});
    else
        one(j, t);
}
