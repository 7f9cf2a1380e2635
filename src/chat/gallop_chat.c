/* gallop_chat.c - the functions of gallop.h that render conversations. */
#include <jansson.h>
#include <string.h>
#include <time.h>

#include "base/json/json_pull.h"
#include "chat/texts.h"
#include "engine/engine.h"
#include "gallop.h"
#include "text/markup/conversation.h"
#include "text/tok/ids.h"
#include "text/tok/tok.h"

void gallop_chat_init(struct gallop_chat *c)
{
    *c = (struct gallop_chat){0};
}

/* The JSON of a conversation. */
struct inputs {
    json_t *messages, *variables; /* owned; NULL: not given */
    struct texts_tools tools;
};

static void close_inputs(struct inputs *in)
{
    json_decref(in->messages);
    json_decref(in->variables);
    texts_tools_close(&in->tools);
}

/* Reads TEXT, the JSON of the member NAME, unless it is NULL. */
static int read_json(const char *text, const char *name, json_t **out, struct err *e)
{
    return text ? json_pull_load_exact(out, text, strlen(text), name, e) : 0;
}

static int read_inputs(const struct gallop_chat *c, struct inputs *in, struct err *e)
{
    int rc;

    if (!c->messages)
        return err_about(e, ERR_INPUT, "messages", "found NULL, expected a JSON array of messages");
    if ((rc = read_json(c->messages, "messages", &in->messages, e)) != 0 ||
        (rc = texts_tools_read(c, &in->tools, e)) != 0 ||
        (rc = read_json(c->variables, "variables", &in->variables, e)) != 0)
        return rc;
    if (!json_is_array(in->messages))
        return err_about(e, ERR_INPUT, "messages", "expected a JSON array");
    if (in->variables && !json_is_object(in->variables))
        return err_about(e, ERR_INPUT, "variables", "expected a JSON object");
    if (c->continue_final_message && (!c->no_generation_prompt || c->verbatim))
        return err_about(e, ERR_INPUT, "continue_final_message",
                         "expected no_generation_prompt 1 and verbatim 0 beside it");
    return 0;
}

/* Reads and renders the conversation C with the template X. */
static int render(const struct gallop_chat *c, const struct template *x, struct inputs *in, struct buf *out,
                  struct buf *origin, struct err *e)
{
    time_t seconds = (time_t)c->now_s;
    struct conversation conversation = {.template = x,
                                        .template_name = c->template_name,
                                        .verbatim = c->verbatim != 0,
                                        .add_generation_prompt = !c->no_generation_prompt,
                                        .is_open = c->continue_final_message != 0,
                                        .origin = c->plain_user_text ? origin : NULL};
    struct tm now;
    int rc = read_inputs(c, in, e);

    if (rc)
        return rc;
    if (in->tools.list && !c->verbatim && x->tools.place == TOOLS_NOWHERE)
        return err_about(e, ERR_UNSUPPORTED, "tools", "the chat template does not write them");
    conversation.variables = in->variables;
    conversation.tools = in->tools.list;
    conversation.messages = in->messages;
    conversation.now = c->now_s ? localtime_r(&seconds, &now) : NULL;
    return conversation_render(&conversation, out, e);
}

/* Reads and renders the conversation C. */
static int render_chat(struct texts *t, const struct gallop_chat *c, struct buf *out, struct buf *origin,
                       struct err *e)
{
    struct texts_use use = {0};
    struct inputs in = {0};
    int rc;

    if ((rc = texts_template_open(t, c->chat_template, &use, e)) != 0)
        return rc;
    mem_lib_failed(); /* resets the flag of an earlier failure */
    rc = render(c, use.template, &in, out, origin, e);
    close_inputs(&in);
    texts_template_close(t, &use);
    /* a failed allocation in jansson may have gone unnoticed until here, or caused an error about a field */
    return mem_lib_failed() ? err_nomem(e, "messages") : rc;
}

int gallop_render(const struct gallop *g, const struct gallop_chat *c, struct gallop_prompt *p, char *err)
{
    struct texts *t = engine_texts(g);
    struct buf text = {.tag = MEM_ENGINE}, origin = {.tag = MEM_ENGINE};
    struct tok_ids ids = {0};
    struct err e = {0};
    int rc;

    *p = (struct gallop_prompt){0};
    rc = render_chat(t, c, &text, &origin, &e);
    if (rc == 0 && t->tok && !c->text_only)
        rc = tok_encode_marked(t->tok, text.data ? text.data : "", origin.data, text.len, 0, &ids, &e);
    if (rc == 0)
        rc = texts_give(&text, &p->text, &p->text_len, &e);
    if (rc == 0) {
        p->ids = ids.id;
        p->n_ids = ids.n;
    } else {
        tok_ids_fini(&ids);
    }
    buf_fini(&text);
    buf_fini(&origin);
    return engine_give(err, &e, rc);
}

void gallop_prompt_fini(struct gallop_prompt *p)
{
    mem_free(p->text);
    mem_free(p->ids);
    if (p->memory)
        arena_fini(p->memory);
    mem_free(p->memory);
    *p = (struct gallop_prompt){0};
}
