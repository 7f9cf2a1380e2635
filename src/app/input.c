/* input.c - reads the user's input: files, text, lists of token ids, and chat messages, which it renders with
 * a template. */
#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/input.h"
#include "base/buf.h"
#include "base/json/json_pull.h"
#include "base/mem.h"
#include "ckpt/checkpoint.h"
#include "engine/constraints/constrain.h"
#include "gallop.h"
#include "text/chat.h"
#include "text/jinja/jinja.h"
#include "text/tok/tok.h"

/* ---- files and text ---- */

int input_file(const char *path, struct buf *out, struct err *e)
{
    FILE *f = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    char chunk[65536];
    size_t n, len = 0;
    int rc = 0;

    if (!f)
        return err_os(e, "open", path);
    while (len <= INPUT_MAX_BYTES && (n = fread(chunk, 1, sizeof(chunk), f)) > 0) {
        buf_add(out, chunk, n);
        len += n;
    }
    buf_str(out, ""); /* an empty file is an empty string */
    if (ferror(f))
        rc = err_os(e, "read", path);
    else if (len > INPUT_MAX_BYTES)
        rc = err_set(e, ERR_INPUT, "%s: the file is longer than the maximum of %d MiB", path,
                     INPUT_MAX_BYTES >> 20);
    else if (out->oom)
        rc = err_nomem(e, path);
    if (f != stdin)
        fclose(f);
    return rc;
}

int input_text(const char *path, struct buf *out, struct err *e)
{
    int rc = input_file(path, out, e);

    return rc ? rc : err_utf8(e, path, out->data, out->len);
}

int input_lines(const char *path, int (*each)(void *ctx, const char *line, size_t n, const char *what),
                void *ctx, struct err *e)
{
    struct buf text = {.tag = MEM_APP};
    size_t number = 0;
    int rc = input_text(path, &text, e);

    for (char *p = text.data, *end; rc == 0 && p && p < text.data + text.len; p = end + 1) {
        char what[256];

        end = memchr(p, '\n', (size_t)(text.data + text.len - p));
        end = end ? end : text.data + text.len;
        snprintf(what, sizeof(what), "%s: line %zu", path, ++number);
        if (end > p)
            rc = each(ctx, p, (size_t)(end - p) - (end[-1] == '\r'), what);
    }
    buf_fini(&text);
    return rc;
}

int input_json(const char *path, json_t **out, struct err *e)
{
    struct buf text;
    int rc;

    *out = NULL;
    buf_init(&text, MEM_APP);
    if ((rc = input_text(path, &text, e)) == 0)
        rc = json_pull_load_exact(out, text.data, text.len, path, e);
    buf_fini(&text);
    return rc;
}

/* ---- token ids ---- */

bool input_add_id(struct tok_ids *ids, int32_t id)
{
    if (!mem_grow((void **)&ids->id, &ids->cap, ids->n + 1, sizeof(*ids->id), MEM_TEXT))
        return false;
    ids->id[ids->n++] = id;
    return true;
}

/* Returns the position in P after the separator of two ids: white space with at most one comma. */
static const char *skip_separator(const char *p)
{
    p += strspn(p, " \t\r\n");
    if (*p == ',')
        p++;
    return p + strspn(p, " \t\r\n");
}

int input_ids(const char *text, struct tok_ids *ids, struct err *e)
{
    const char *p = text + strspn(text, " \t\r\n");

    *ids = (struct tok_ids){0};
    do {
        char *end;
        long id;

        errno = 0;
        id = strtol(p, &end, 10);
        if (end == p || errno || id < INT32_MIN || id > INT32_MAX || (*end && !strchr(", \t\r\n", *end))) {
            tok_ids_fini(ids);
            return err_set(e, ERR_USAGE, "--ids: found '%.40s', expected token ids such as 1,2,3", p);
        }
        if (!input_add_id(ids, (int32_t)id)) {
            tok_ids_fini(ids);
            return err_nomem(e, "token ids");
        }
        p = skip_separator(end);
    } while (*p);
    return 0;
}

int input_json_ids(const json_t *list, const char *key, int32_t least, struct tok_ids *ids, struct err *e)
{
    size_t i;
    json_t *v;

    if (!json_is_array(list))
        return err_set(e, ERR_INPUT, "%s is not a list", key);
    json_array_foreach(list, i, v)
    {
        json_int_t id = json_integer_value(v);

        if (!json_is_integer(v) || id > INT32_MAX || id < least)
            return err_set(e, ERR_INPUT, "%s[%zu] is not a token id", key, i);
        if (!input_add_id(ids, (int32_t)id))
            return err_nomem(e, "token ids");
    }
    return 0;
}

int input_bos(const struct tok *t, struct tok_ids *prefix, struct err *e)
{
    struct tok_ids one = {0}, plain = {0};
    int rc = tok_encode(t, "a", 1, TOK_ADD_SPECIAL, &one, e);

    if (rc == 0)
        rc = tok_encode(t, "a", 1, 0, &plain, e);
    for (size_t i = 0; rc == 0 && plain.n && i < one.n && one.id[i] != plain.id[0]; i++)
        if (!input_add_id(prefix, one.id[i]))
            rc = err_nomem(e, "a window");
    tok_ids_fini(&one);
    tok_ids_fini(&plain);
    return rc;
}

int input_check_window(size_t ctx, size_t prefix, size_t context, struct err *e)
{
    if (ctx > context)
        return err_set(e, ERR_INPUT, "--ctx %zu exceeds the context length of %zu tokens", ctx, context);
    return prefix < ctx
               ? 0
               : err_set(e, ERR_INPUT,
                         "--ctx: found %zu, expected more than the %zu special tokens that begin a window",
                         ctx, prefix);
}

/* ---- templates ---- */

int input_jinja(const char *path, struct jinja **j, struct err *e)
{
    struct buf text;
    int rc;

    buf_init(&text, MEM_APP);
    if ((rc = input_text(path, &text, e)) == 0)
        rc = jinja_parse(j, text.data, text.len, path, NULL, e);
    buf_fini(&text);
    return rc;
}

int input_template_open(struct input_template *t, struct checkpoint *model, const char *file, struct err *e)
{
    int rc;

    if (t->is_open)
        return 0;
    input_template_close(t); /* closes a template that an earlier, failed call opened */
    if ((rc = checkpoint_chat(&t->chat, model, e)) != 0)
        return rc;
    t->text.tag = MEM_APP;
    if (file && (rc = input_text(file, &t->text, e)) == 0)
        rc = jinja_parse(&t->template.jinja, t->text.data, t->text.len, file, NULL, e);
    if (!file && !chat_has_template(t->chat))
        rc = err_set(e, ERR_INPUT,
                     "%s: this model has no chat template; --chat-template names a file with one, and "
                     "`gallop run` continues a text without one",
                     model->in.path);
    t->template.source = t->text.data;
    t->template.chat = rc == 0 ? t->chat : NULL;
    t->is_open = rc == 0;
    return rc;
}

void input_template_close(struct input_template *t)
{
    jinja_free(t->template.jinja);
    chat_close(t->chat);
    buf_fini(&t->text);
    *t = (struct input_template){0};
}

int input_template_examine(struct input_template *t, struct err *e)
{
    int rc = t->is_examined || !t->is_open ? 0 : template_examine(&t->template, e);

    t->is_examined = t->is_open && rc == 0;
    return rc;
}

int input_reasoning(struct input_template *t, const struct buf *text, struct gallop_request *r, struct err *e)
{
    const struct markup_reasoning *reasoning;
    int rc = input_template_examine(t, e);

    if (rc || !(reasoning = t->template.markup.reasoning))
        return rc;
    constrain_set_marks(
        reasoning, t->template.markup.calls,
        text ? markup_place(reasoning, text->data ? text->data : "", text->len, NULL, 0) : MARKUP_CONTENT, r);
    return 0;
}

int input_render(struct input_template *t, struct conversation *c, json_t *given, struct buf *out,
                 struct err *e)
{
    bool is_object = json_is_object(given);
    int rc = c->verbatim ? 0 : input_template_examine(t, e);

    c->template = &t->template;
    c->variables = is_object ? given : NULL;
    c->tools = is_object ? json_object_get(given, "tools") : NULL;
    c->messages = is_object ? json_object_get(given, "messages") : given;
    return rc ? rc : conversation_render(c, out, e);
}
