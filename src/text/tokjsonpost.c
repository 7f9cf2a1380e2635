/* tokjsonpost.c - templates and the fixed forms of RoBERTa and BERT, nested by Sequence. */
#include "text/tokjsonpost.h"

#include <string.h>

#include "text/tokcomp.h"
#include "text/tokids.h"

static const char section[] = "post_processor";

static void append(struct json_pull *j, struct tok_ids *to, const struct tok_ids *ids)
{
    if (ids->n && !tokids_add(to, (const uint32_t *)ids->id, ids->n))
        tokcomp_stop(j, err_nomem(j->e, section), section);
}

static void open_part(struct json_pull *part, const struct json_pull *j, const struct json_str *text)
{
    json_pull_open(part, text->s, text->n, j->path, j->arena, j->e);
}

static void close_part(struct json_pull *j, const struct json_pull *part)
{
    if (part->rc && !j->rc) {
        j->rc = part->rc;
        j->p = j->end;
    }
}

static void read_ids(struct json_pull *j, struct tok_ids *to)
{
    for (json_pull_enter_array(j); json_pull_elem(j);) {
        int64_t v;
        uint32_t id;

        if (!json_pull_i64(j, &v))
            break;
        id = (uint32_t)v;
        if (v < 0 || v > TOKVOCAB_MAX_ID)
            json_pull_fail(j, "the id %lld is outside 0..%d", (long long)v, (int)TOKVOCAB_MAX_ID);
        else if (!tokids_add(to, &id, 1))
            tokcomp_stop(j, err_nomem(j->e, section), section);
    }
}

/* Appends the ids that the table of special tokens has for NAME. */
static void look_up(struct json_pull *j, const struct tokcomp *c, const struct json_str *name,
                    struct tok_ids *to)
{
    struct json_pull table;
    struct json_str key;
    bool found = false;

    if (!c->special_tokens.s) {
        json_pull_fail(j, "a template without special_tokens");
        return;
    }
    open_part(&table, j, &c->special_tokens);
    for (json_pull_enter_object(&table); json_pull_key(&table, &key);) {
        bool is_it = key.n == name->n && memcmp(key.s, name->s, key.n) == 0;

        for (json_pull_enter_object(&table); json_pull_key(&table, &key);) {
            if (is_it && json_str_is(&key, "ids"))
                read_ids(&table, to);
            else
                json_pull_skip(&table);
        }
        found = found || is_it;
    }
    close_part(j, &table);
    if (!found)
        json_pull_fail(j, "the template's token \"%.*s\" is not among its special_tokens",
                       (int)(name->n < 60 ? name->n : 60), name->s);
}

/* {"SpecialToken": {"id": name}} or {"Sequence": {"id": "A"}}. */
static void read_piece(struct json_pull *j, struct json_str *token, struct json_str *sequence)
{
    struct json_str key, inner;

    *token = *sequence = (struct json_str){NULL, 0};
    for (json_pull_enter_object(j); json_pull_key(j, &key);) {
        struct json_str *to = json_str_is(&key, "SpecialToken") ? token
                              : json_str_is(&key, "Sequence")   ? sequence
                                                                : NULL;

        if (!to) {
            json_pull_fail(j, "a template piece is a SpecialToken or a Sequence, not a \"%.*s\"",
                           (int)(key.n < 60 ? key.n : 60), key.s);
            return;
        }
        for (json_pull_enter_object(j); json_pull_key(j, &inner);) {
            if (json_str_is(&inner, "id"))
                json_pull_string(j, to);
            else
                json_pull_skip(j);
        }
    }
}

static void read_template(struct json_pull *j, struct tok *t, const struct tokcomp *c)
{
    struct tok_ids before = {0}, after = {0};
    struct json_pull list;
    bool text = false;

    if (!c->single.s) {
        json_pull_fail(j, "a TemplateProcessing needs the field single");
        return;
    }
    open_part(&list, j, &c->single);
    for (json_pull_enter_array(&list); json_pull_elem(&list);) {
        struct json_str token, sequence;

        read_piece(&list, &token, &sequence);
        if (list.rc)
            break;
        if (sequence.s && (text || !json_str_is(&sequence, "A")))
            json_pull_fail(&list, "a template for one text must have the sequence A once");
        else if (sequence.s)
            text = true;
        else if (token.s)
            look_up(&list, c, &token, text ? &after : &before);
    }
    if (!text)
        json_pull_fail(&list, "a template for one text must have the sequence A once");
    close_part(j, &list);
    append(j, &before, &t->prefix); /* what earlier processors put around the text stays nearer to it */
    append(j, &t->suffix, &after);
    tok_ids_fini(&t->prefix);
    t->prefix = before;
    tok_ids_fini(&after);
}

/* ["</s>", 2] */
static void read_pair(struct json_pull *j, const struct json_str *text, struct tok_ids *to)
{
    struct json_pull pair;
    struct json_str name;
    int64_t v = -1;
    uint32_t id;

    if (!text->s) {
        json_pull_fail(j, "a post_processor without its sep or cls");
        return;
    }
    open_part(&pair, j, text);
    json_pull_enter_array(&pair);
    if (json_pull_elem(&pair) && json_pull_string(&pair, &name) && json_pull_elem(&pair) &&
        json_pull_i64(&pair, &v))
        json_pull_elem(&pair);
    if (v < 0 || v > TOKVOCAB_MAX_ID)
        json_pull_fail(&pair, "sep and cls are a token and its id");
    close_part(j, &pair);
    id = (uint32_t)v;
    if (!j->rc && !tokids_add(to, &id, 1))
        tokcomp_stop(j, err_nomem(j->e, section), section);
}

static void read_fixed(struct json_pull *j, struct tok *t, const struct tokcomp *c)
{
    struct tok_ids before = {0};

    read_pair(j, &c->cls, &before);
    append(j, &before, &t->prefix);
    tok_ids_fini(&t->prefix);
    t->prefix = before;
    read_pair(j, &c->sep, &t->suffix);
}

static void member(struct json_pull *j, void *ctx)
{
    tokjsonpost_read(j, ctx);
}

void tokjsonpost_read(struct json_pull *j, struct tok *t)
{
    struct tokcomp c;

    if (json_pull_null(j))
        return;
    tokcomp_read(j, &c);
    if (j->rc || json_str_is(&c.type, "ByteLevel")) /* ByteLevel moves offsets only */
        return;
    if (json_str_is(&c.type, "Sequence"))
        tokcomp_each(j, &c, member, t);
    else if (json_str_is(&c.type, "TemplateProcessing"))
        read_template(j, t, &c);
    else if (json_str_is(&c.type, "RobertaProcessing") || json_str_is(&c.type, "BertProcessing"))
        read_fixed(j, t, &c);
    else
        tokcomp_unknown(j, section, &c);
}
