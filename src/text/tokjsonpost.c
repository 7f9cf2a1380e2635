/* tokjsonpost.c - templates and the fixed forms of RoBERTa and BERT, nested by Sequence. */
#include "text/tokjsonpost.h"

#include <string.h>

#include "text/tokcomp.h"
#include "text/tokids.h"

static const char section[] = "post_processor";

static void append(struct jp *j, struct tok_ids *to, const struct tok_ids *ids)
{
    if (ids->n && !tokids_add(to, (const uint32_t *)ids->id, ids->n))
        tokcomp_stop(j, err_nomem(j->e, section), section);
}

static void open_part(struct jp *part, const struct jp *j, const struct jp_str *text)
{
    jp_open(part, text->s, text->n, j->path, j->arena, j->e);
}

static void close_part(struct jp *j, const struct jp *part)
{
    if (part->rc && !j->rc) {
        j->rc = part->rc;
        j->p = j->end;
    }
}

static void read_ids(struct jp *j, struct tok_ids *to)
{
    for (jp_enter_array(j); jp_elem(j);) {
        int64_t v;
        uint32_t id;

        if (!jp_i64(j, &v))
            break;
        id = (uint32_t)v;
        if (v < 0 || v > TOKVOCAB_MAX_ID)
            jp_fail(j, "the id %lld is outside 0..%d", (long long)v, (int)TOKVOCAB_MAX_ID);
        else if (!tokids_add(to, &id, 1))
            tokcomp_stop(j, err_nomem(j->e, section), section);
    }
}

/* Appends the ids that the table of special tokens has for NAME. */
static void look_up(struct jp *j, const struct tokcomp *c, const struct jp_str *name, struct tok_ids *to)
{
    struct jp table;
    struct jp_str key;
    bool found = false;

    if (!c->special_tokens.s) {
        jp_fail(j, "a template without special_tokens");
        return;
    }
    open_part(&table, j, &c->special_tokens);
    for (jp_enter_object(&table); jp_key(&table, &key);) {
        bool is_it = key.n == name->n && memcmp(key.s, name->s, key.n) == 0;

        for (jp_enter_object(&table); jp_key(&table, &key);) {
            if (is_it && jp_is(&key, "ids"))
                read_ids(&table, to);
            else
                jp_skip(&table);
        }
        found = found || is_it;
    }
    close_part(j, &table);
    if (!found)
        jp_fail(j, "the template's token \"%.*s\" is not among its special_tokens",
                (int)(name->n < 60 ? name->n : 60), name->s);
}

/* {"SpecialToken": {"id": name}} or {"Sequence": {"id": "A"}}. */
static void read_piece(struct jp *j, struct jp_str *token, struct jp_str *sequence)
{
    struct jp_str key, inner;

    *token = *sequence = (struct jp_str){NULL, 0};
    for (jp_enter_object(j); jp_key(j, &key);) {
        struct jp_str *to = jp_is(&key, "SpecialToken") ? token : jp_is(&key, "Sequence") ? sequence : NULL;

        if (!to) {
            jp_fail(j, "a template piece is a SpecialToken or a Sequence, not a \"%.*s\"",
                    (int)(key.n < 60 ? key.n : 60), key.s);
            return;
        }
        for (jp_enter_object(j); jp_key(j, &inner);) {
            if (jp_is(&inner, "id"))
                jp_string(j, to);
            else
                jp_skip(j);
        }
    }
}

static void read_template(struct jp *j, struct tok *t, const struct tokcomp *c)
{
    struct tok_ids before = {0}, after = {0};
    struct jp list;
    bool text = false;

    if (!c->single.s) {
        jp_fail(j, "a TemplateProcessing needs the field single");
        return;
    }
    open_part(&list, j, &c->single);
    for (jp_enter_array(&list); jp_elem(&list);) {
        struct jp_str token, sequence;

        read_piece(&list, &token, &sequence);
        if (list.rc)
            break;
        if (sequence.s && (text || !jp_is(&sequence, "A")))
            jp_fail(&list, "a template for one text must have the sequence A once");
        else if (sequence.s)
            text = true;
        else if (token.s)
            look_up(&list, c, &token, text ? &after : &before);
    }
    if (!text)
        jp_fail(&list, "a template for one text must have the sequence A once");
    close_part(j, &list);
    append(j, &before, &t->prefix); /* what earlier processors put around the text stays nearer to it */
    append(j, &t->suffix, &after);
    tok_ids_fini(&t->prefix);
    t->prefix = before;
    tok_ids_fini(&after);
}

/* ["</s>", 2] */
static void read_pair(struct jp *j, const struct jp_str *text, struct tok_ids *to)
{
    struct jp pair;
    struct jp_str name;
    int64_t v = -1;
    uint32_t id;

    if (!text->s) {
        jp_fail(j, "a post_processor without its sep or cls");
        return;
    }
    open_part(&pair, j, text);
    jp_enter_array(&pair);
    if (jp_elem(&pair) && jp_string(&pair, &name) && jp_elem(&pair) && jp_i64(&pair, &v))
        jp_elem(&pair);
    if (v < 0 || v > TOKVOCAB_MAX_ID)
        jp_fail(&pair, "sep and cls are a token and its id");
    close_part(j, &pair);
    id = (uint32_t)v;
    if (!j->rc && !tokids_add(to, &id, 1))
        tokcomp_stop(j, err_nomem(j->e, section), section);
}

static void read_fixed(struct jp *j, struct tok *t, const struct tokcomp *c)
{
    struct tok_ids before = {0};

    read_pair(j, &c->cls, &before);
    append(j, &before, &t->prefix);
    tok_ids_fini(&t->prefix);
    t->prefix = before;
    read_pair(j, &c->sep, &t->suffix);
}

static void member(struct jp *j, void *ctx)
{
    tokjsonpost_read(j, ctx);
}

void tokjsonpost_read(struct jp *j, struct tok *t)
{
    struct tokcomp c;

    if (jp_null(j))
        return;
    tokcomp_read(j, &c);
    if (j->rc || jp_is(&c.type, "ByteLevel")) /* ByteLevel moves offsets only */
        return;
    if (jp_is(&c.type, "Sequence"))
        tokcomp_each(j, &c, member, t);
    else if (jp_is(&c.type, "TemplateProcessing"))
        read_template(j, t, &c);
    else if (jp_is(&c.type, "RobertaProcessing") || jp_is(&c.type, "BertProcessing"))
        read_fixed(j, t, &c);
    else
        tokcomp_unknown(j, section, &c);
}
