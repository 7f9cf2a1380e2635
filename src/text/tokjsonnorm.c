/* tokjsonnorm.c - each type becomes one or a few steps of normalize.h. */
#include "text/tokjsonnorm.h"

#include <string.h>

#include "text/tokbase64.h"
#include "text/tokcomp.h"

static const char section[] = "normalizer";

static void add(struct json_pull *j, struct tok *t, struct normalize_step step)
{
    tokcomp_stop(j, normalize_add(&t->norm, step, j->e), section);
}

static void add_replace(struct json_pull *j, struct tok *t, const struct tokcomp *c)
{
    struct normalize_step step = {.kind = NORMALIZE_REPLACE};
    int rc = 0;

    if ((!c->literal.s && !c->regex.s) || !c->content.s || (c->literal.s && c->literal.n == 0)) {
        json_pull_fail(j, "a Replace needs a pattern and a content");
        return;
    }
    if (c->regex.s)
        rc = pretokre_new(&step.re, c->regex.s, c->regex.n, true, j->e);
    else if (!normalize_copy(&step.find, &step.n_find, c->literal.s, c->literal.n))
        rc = err_nomem(j->e, section);
    if (rc == 0 && !normalize_copy(&step.text, &step.n_text, c->content.s, c->content.n))
        rc = err_nomem(j->e, section);
    if (rc == 0) {
        add(j, t, step);
        return;
    }
    mem_free(step.find);
    pretokre_free(step.re);
    tokcomp_stop(j, rc, section);
}

static void add_prepend(struct json_pull *j, struct tok *t, const struct tokcomp *c)
{
    struct normalize_step step = {.kind = NORMALIZE_PREPEND};

    if (!c->prepend.s)
        json_pull_fail(j, "a Prepend needs the field prepend");
    else if (!normalize_copy(&step.text, &step.n_text, c->prepend.s, c->prepend.n))
        tokcomp_stop(j, err_nomem(j->e, section), section);
    else
        add(j, t, step);
}

static void add_bert(struct json_pull *j, struct tok *t, const struct tokcomp *c)
{
    bool lower = c->lowercase != TOKCOMP_NO;

    if (c->clean_text != TOKCOMP_NO)
        add(j, t, (struct normalize_step){.kind = NORMALIZE_CLEAN});
    if (c->handle_chinese_chars != TOKCOMP_NO)
        add(j, t, (struct normalize_step){.kind = NORMALIZE_IDEOGRAPHS});
    if (c->strip_accents == TOKCOMP_YES || (c->strip_accents == TOKCOMP_UNSET && lower)) {
        add(j, t, (struct normalize_step){.kind = NORMALIZE_FORM, .form = NORMALIZEUNI_NFD});
        add(j, t, (struct normalize_step){.kind = NORMALIZE_DROP_MN});
    }
    if (lower)
        add(j, t, (struct normalize_step){.kind = NORMALIZE_LOWERCASE});
}

static void add_map(struct json_pull *j, struct tok *t, const struct tokcomp *c)
{
    struct normalize_step step = {.kind = NORMALIZE_MAP_HF};
    char *bytes;
    size_t n;
    int rc;

    if (!c->charsmap.s || c->charsmap.n == 0)
        return; /* a map of nothing */
    bytes = mem_alloc(c->charsmap.n, MEM_TEXT);
    if (!bytes)
        rc = err_nomem(j->e, section);
    else if (!tokbase64_read(c->charsmap.s, c->charsmap.n, bytes, &n))
        rc = err_set(j->e, ERR_INPUT, "the precompiled_charsmap is not base64");
    else
        rc = spmmap_new(&step.map, bytes, n, j->e);
    mem_free(bytes);
    if (rc)
        tokcomp_stop(j, rc, section);
    else
        add(j, t, step);
}

/* The types that need nothing but their name. */
static bool add_simple(struct json_pull *j, struct tok *t, const struct tokcomp *c)
{
    static const struct {
        const char *type;
        struct normalize_step step;
    } simple[] = {
        {"NFC", {.kind = NORMALIZE_FORM, .form = NORMALIZEUNI_NFC}},
        {"NFD", {.kind = NORMALIZE_FORM, .form = NORMALIZEUNI_NFD}},
        {"NFKC", {.kind = NORMALIZE_FORM, .form = NORMALIZEUNI_NFKC}},
        {"NFKD", {.kind = NORMALIZE_FORM, .form = NORMALIZEUNI_NFKD}},
        {"Lowercase", {.kind = NORMALIZE_LOWERCASE}},
        {"StripAccents", {.kind = NORMALIZE_DROP_MARKS}},
        {"Nmt", {.kind = NORMALIZE_NMT}},
    };

    for (size_t i = 0; i < sizeof(simple) / sizeof(*simple); i++)
        if (json_str_is(&c->type, simple[i].type))
            return add(j, t, simple[i].step), true;
    return false;
}

static void member(struct json_pull *j, void *ctx)
{
    tokjsonnorm_read(j, ctx);
}

void tokjsonnorm_read(struct json_pull *j, struct tok *t)
{
    struct tokcomp c;

    if (json_pull_null(j))
        return;
    tokcomp_read(j, &c);
    if (j->rc || add_simple(j, t, &c))
        return;
    if (t->spelled) {
        json_pull_fail(j, "a normalizer behind ByteLevel is not understood");
    } else if (json_str_is(&c.type, "Sequence")) {
        tokcomp_each(j, &c, member, t);
    } else if (json_str_is(&c.type, "Replace")) {
        add_replace(j, t, &c);
    } else if (json_str_is(&c.type, "Prepend")) {
        add_prepend(j, t, &c);
    } else if (json_str_is(&c.type, "Strip")) {
        add(j, t,
            (struct normalize_step){.kind = NORMALIZE_STRIP,
                                    .left = c.strip_left != TOKCOMP_NO,
                                    .right = c.strip_right != TOKCOMP_NO});
    } else if (json_str_is(&c.type, "BertNormalizer")) {
        add_bert(j, t, &c);
    } else if (json_str_is(&c.type, "Precompiled")) {
        add_map(j, t, &c);
    } else if (json_str_is(&c.type, "ByteLevel")) {
        t->spelled = true;
        add(j, t, (struct normalize_step){.kind = NORMALIZE_SPELL});
    } else {
        tokcomp_unknown(j, section, &c);
    }
}
