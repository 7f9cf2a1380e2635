/* gallop_parser.c - the functions of gallop.h that separate generated text into content, reasoning and tool calls. */
#include <jansson.h>
#include <string.h>

#include "base/json/json_pull.h"
#include "chat/dialect/openai.h"
#include "chat/texts.h"
#include "engine/engine.h"
#include "gallop.h"
#include "text/markup/message.h"

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

static int open_parser(struct gallop_parser *p, struct texts *t, const struct gallop_parser_options *o,
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
    if (rc == 0 && tools && !json_is_array(tools))
        rc = err_about(e, ERR_INPUT, "tools", "expected a JSON array");
    rc = rc ? rc : tools_copy_names(tools, &p->arena, &own.names, &own.n_names, e);
    own.tools = tools;
    if (mem_lib_failed()) /* a failed allocation in jansson may have gone unnoticed until here */
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

static int new_parser(struct gallop_parser **out, struct texts *t, const struct gallop_parser_options *o,
                      struct err *e)
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

/* Converts END to the parser's enum. A number that is not in the enum of gallop.h counts as ENDED. */
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

/* Writes M as a message of OpenAI's API. Empty content is null if there are tool calls, else "". */
static void write_message(struct message *m, struct buf *out)
{
    m->calls.n_ready = m->calls.n;
    buf_str(out, "{\"role\":\"assistant\"");
    if (m->text.len == 0)
        buf_str(out, m->calls.n ? ",\"content\":null" : ",\"content\":\"\"");
    openai_put_message(m, "reasoning", false, false, out);
    buf_char(out, '}');
}

static int parse(struct gallop_parser *p, const char *text, const char *special, size_t len,
                 enum gallop_parser_end end, struct buf *out, struct err *e)
{
    struct message m;
    int rc = feed(p, text, special, len, e);

    message_init(&m, MEM_ENGINE);
    m.calls.when = MESSAGE_CALLS_AT_END;
    m.calls.whole = true;
    rc = rc ? rc : message_take(&m, p->parser, false);
    rc = rc ? rc : parser_finish(p->parser, end_of(end), e);
    rc = rc ? rc : message_take(&m, p->parser, end == GALLOP_PARSER_STOPPED);
    if (rc == 0)
        write_message(&m, out);
    message_fini(&m);
    return rc == ERR_NOMEM ? err_nomem(e, "a text") : rc;
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
