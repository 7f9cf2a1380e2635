/* gallop_parser.c - the functions of gallop.h that separate generated text into content, reasoning and tool calls. */
#include <jansson.h>
#include <string.h>

#include "base/json/json_pull.h"
#include "engine/engine.h"
#include "engine/engine_priv.h"
#include "engine/texts/texts.h"
#include "gallop.h"
#include "text/markup/parser.h"

_Static_assert((int)GALLOP_PIECE_CONTENT == (int)PARSER_CONTENT &&
                   (int)GALLOP_PIECE_CALL_END == (int)PARSER_CALL_END &&
                   (int)GALLOP_PARSER_ENDED == (int)PARSER_ENDED &&
                   (int)GALLOP_PARSER_STOPPED == (int)PARSER_STOPPED,
               "kinds of pieces and ends are returned unchanged");
_Static_assert((int)PARSER_ID_SIZE <= (int)GALLOP_CALL_ID_SIZE, "ids fit the caller's struct");

struct gallop_parser {
    struct parser *parser;
    struct arena arena; /* the names of functions */
};

void gallop_parser_options_init(struct gallop_parser_options *o)
{
    *o = (struct gallop_parser_options){.prompt_len = SIZE_MAX};
}

/* Sets the names of the functions TOOLS in P and O. */
static int read_names(struct gallop_parser *p, const json_t *tools, struct parser_options *o, struct err *e)
{
    const char **names;
    int rc;

    if (!json_is_array(tools))
        return err_about(e, ERR_INPUT, "tools", "expected a JSON array");
    o->n_names = json_array_size(tools);
    names = arena_zalloc(&p->arena, o->n_names, sizeof(*names));
    if (!names)
        return err_nomem(e, "a parser");
    if ((rc = tools_check(tools, names, e)) != 0)
        return rc;
    for (size_t i = 0; i < o->n_names; i++) {
        names[i] = arena_strndup(&p->arena, names[i], strlen(names[i]));
        if (!names[i])
            return err_nomem(e, "a parser");
    }
    o->names = names;
    return 0;
}

static int open_parser(struct gallop_parser *p, const struct texts *t, const struct gallop_parser_options *o,
                       struct err *e)
{
    struct parser_options own = {
        .tok = t->tok, .prompt = o->prompt ? o->prompt : "", .one_call = o->one_call != 0, .seed = o->seed};
    struct texts_tools choice = {0};
    struct buf continued = {.tag = MEM_ENGINE};
    struct markup markup;
    json_t *tools = NULL;
    int rc = texts_markup(t, o->tool_call_parser, o->reasoning_parser, o->chat_template, &markup, e);

    own.prompt_len = o->prompt ? (o->prompt_len == SIZE_MAX ? strlen(o->prompt) : o->prompt_len) : 0;
    mem_lib_failed(); /* resets the flag of an earlier failure */
    if (rc == 0 && o->tools)
        rc = json_pull_load_exact(&tools, o->tools, strlen(o->tools), "tools", e);
    if (rc == 0 && tools)
        rc = read_names(p, tools, &own, e);
    own.tools = tools;
    if (mem_lib_failed()) /* a failure inside jansson may have been missed until here */
        rc = err_nomem(e, "tools");
    own.calls = own.n_names ? markup.calls : NULL;
    own.reasoning = markup.reasoning;
    if (rc == 0 && o->messages)
        rc = texts_last_message(o->messages, &continued, e);
    if (rc == 0)
        rc = texts_tool_choice(o->tool_choice, &choice, e);
    own.one_call |= choice.choice == TOOLS_NAMED;
    own.is_forced = tools_forces(choice.choice);
    own.continued = continued.data;
    own.n_continued = continued.len;
    rc = rc ? rc : parser_open(&p->parser, &own, e);
    json_decref(tools);
    buf_fini(&continued);
    texts_tools_close(&choice);
    return rc;
}

static int new_parser(struct gallop_parser **out, const struct texts *t,
                      const struct gallop_parser_options *o, struct err *e)
{
    struct gallop_parser *p = mem_zalloc(1, sizeof(*p), MEM_ENGINE);
    int rc;

    *out = NULL;
    if (!p)
        return err_nomem(e, "a parser");
    arena_init(&p->arena, MEM_ENGINE);
    if ((rc = open_parser(p, t, o, e)) != 0)
        gallop_parser_close(p);
    else
        *out = p;
    return rc;
}

int gallop_parser_open(struct gallop_parser **out, const struct gallop *g,
                       const struct gallop_parser_options *o, char *err)
{
    struct err e = {0};
    int rc = new_parser(out, engine_texts(g), o, &e);

    return engine_give(err, &e, rc);
}

void gallop_parser_close(struct gallop_parser *p)
{
    if (!p)
        return;
    parser_close(p->parser);
    arena_fini(&p->arena);
    mem_free(p);
}

static int feed(struct gallop_parser *p, const char *text, const char *special, size_t len, struct err *e)
{
    int rc;

    if (len == SIZE_MAX)
        len = strlen(text);
    rc = err_utf8(e, "the text", text, len);
    return rc ? rc : parser_feed(p->parser, text, special, len, e);
}

int gallop_parser_feed(struct gallop_parser *p, const char *text, size_t len, char *err)
{
    struct err e = {0};

    return engine_give(err, &e, feed(p, text, NULL, len, &e));
}

int gallop_parser_feed_special(struct gallop_parser *p, const char *text, const char *special, size_t len,
                               char *err)
{
    struct err e = {0};

    return engine_give(err, &e, feed(p, text, special, len, &e));
}

/* Returns the end that the parser knows; a number that is no end counts as ENDED. */
static enum parser_end end_of(enum gallop_parser_end end)
{
    return end == GALLOP_PARSER_CUT || end == GALLOP_PARSER_STOPPED ? (enum parser_end)end : PARSER_ENDED;
}

int gallop_parser_finish(struct gallop_parser *p, enum gallop_parser_end end, char *err)
{
    struct err e = {0};

    return engine_give(err, &e, parser_finish(p->parser, end_of(end), &e));
}

int gallop_parser_take(struct gallop_parser *p, struct gallop_piece *piece)
{
    struct parser_piece own;

    if (!parser_take(p->parser, &own))
        return 0;
    *piece = (struct gallop_piece){.kind = (enum gallop_piece_kind)own.kind,
                                   .call = own.call,
                                   .text = own.text,
                                   .len = own.len,
                                   .complete = own.kind == PARSER_CALL_END && own.complete};
    if (own.kind == PARSER_CALL)
        memcpy(piece->id, own.id, sizeof(own.id));
    return 1;
}

/* ---- whole texts ---- */

/* The parts of a message. */
struct message {
    struct buf content, reasoning, calls;
    struct buf name, arguments; /* of the tool call that has begun */
    char id[PARSER_ID_SIZE];
    bool has_reasoning, has_calls;
};

/* Writes the tool call that has ended. */
static void add_call(struct message *m)
{
    struct buf *out = &m->calls;

    m->has_calls = true;
    buf_json_begin(out, '{');
    buf_json_key(out, "id");
    buf_json_str(out, m->id, strlen(m->id));
    buf_json_key(out, "type");
    buf_json_str(out, "function", strlen("function"));
    buf_json_key(out, "function");
    buf_json_begin(out, '{');
    buf_json_key(out, "name");
    buf_json_str(out, m->name.data ? m->name.data : "", m->name.len);
    buf_json_key(out, "arguments");
    buf_json_str(out, m->arguments.data ? m->arguments.data : "", m->arguments.len);
    buf_json_end(out, '}');
    buf_json_end(out, '}');
    out->oom |= m->name.oom || m->arguments.oom;
}

static void add_piece(struct message *m, const struct parser_piece *p)
{
    switch (p->kind) {
    case PARSER_CONTENT: buf_add(&m->content, p->text, p->len); break;
    case PARSER_REASONING:
        m->has_reasoning = true;
        buf_add(&m->reasoning, p->text, p->len);
        break;
    case PARSER_CALL:
        m->calls.oom |= m->name.oom || m->arguments.oom;
        buf_clear(&m->name);
        buf_clear(&m->arguments);
        buf_add(&m->name, p->text, p->len);
        memcpy(m->id, p->id, sizeof(m->id));
        break;
    case PARSER_ARGUMENTS: buf_add(&m->arguments, p->text, p->len); break;
    case PARSER_CALL_END: add_call(m);
    }
}

/* Writes M as JSON. */
static void write_message(const struct message *m, struct buf *out)
{
    buf_str(out, "{\"role\":\"assistant\"");
    buf_json_key(out, "content");
    if (m->has_calls && m->content.len == 0)
        buf_json_null(out);
    else
        buf_json_str(out, m->content.data ? m->content.data : "", m->content.len);
    if (m->has_reasoning) {
        buf_json_key(out, "reasoning");
        buf_json_str(out, m->reasoning.data ? m->reasoning.data : "", m->reasoning.len);
    }
    if (m->has_calls) {
        buf_json_key(out, "tool_calls");
        buf_char(out, '[');
        buf_add(out, m->calls.data, m->calls.len);
        buf_char(out, ']');
    }
    buf_char(out, '}');
    out->oom |= m->content.oom || m->reasoning.oom || m->calls.oom;
}

static int parse(struct gallop_parser *p, const char *text, const char *special, size_t len,
                 enum gallop_parser_end end, struct buf *out, struct err *e)
{
    struct message m = {.content = {.tag = MEM_ENGINE},
                        .reasoning = {.tag = MEM_ENGINE},
                        .calls = {.tag = MEM_ENGINE},
                        .name = {.tag = MEM_ENGINE},
                        .arguments = {.tag = MEM_ENGINE}};
    struct parser_piece piece;
    int rc = feed(p, text, special, len, e);

    if (rc == 0)
        rc = parser_finish(p->parser, end_of(end), e);
    while (rc == 0 && parser_take(p->parser, &piece))
        add_piece(&m, &piece);
    if (rc == 0)
        write_message(&m, out);
    buf_fini(&m.content);
    buf_fini(&m.reasoning);
    buf_fini(&m.calls);
    buf_fini(&m.name);
    buf_fini(&m.arguments);
    return rc;
}

int gallop_parse(const struct gallop *g, const struct gallop_parser_options *o, const char *text, size_t len,
                 enum gallop_parser_end end, char **json, char *err)
{
    struct buf out = {.tag = MEM_ENGINE};
    struct gallop_parser *p = NULL;
    struct err e = {0};
    size_t n;
    int rc = new_parser(&p, engine_texts(g), o, &e);

    *json = NULL;
    if (rc == 0)
        rc = parse(p, text, o->special, len, end, &out, &e);
    if (rc == 0)
        rc = texts_give(&out, json, &n, &e);
    gallop_parser_close(p);
    buf_fini(&out);
    return engine_give(err, &e, rc);
}
