/* gallop_ask.c - implements gallop_ask() of gallop.h: makes a request from a rendered conversation. */
#include <jansson.h>
#include <string.h>

#include "chat/texts.h"
#include "engine/constraints/constrain.h"
#include "engine/engine.h"
#include "gallop.h"
#include "text/tok/tok.h"

/* Returns the arena of P, which is created by the first call. NULL: out of memory. */
static struct arena *memory_of(struct gallop_prompt *p)
{
    struct arena *a = p->memory;

    if (a)
        return a;
    if ((a = mem_zalloc(1, sizeof(*a), MEM_ENGINE)) != NULL)
        arena_init(a, MEM_ENGINE);
    return p->memory = a;
}

/* Appends the tokens that end an answer after a tool call in the markup CALLS to the stop tokens of R. */
static int add_stop_tokens(struct texts *t, const struct markup_calls *calls, struct arena *a,
                           struct gallop_request *r, struct err *e)
{
    struct gallop_sampling *s = &r->sampling;
    size_t n = s->n_stop_token;
    int32_t *list;

    if (!calls || !calls->stop[0])
        return 0;
    list = arena_zalloc(a, n + MARKUP_MAX_STOP, sizeof(*list));
    if (!list)
        return err_nomem(e, "a request");
    if (n)
        memcpy(list, s->stop_token, n * sizeof(*list));
    s->stop_token = list;
    s->n_stop_token = n + constrain_stop_tokens(calls, t->tok, list + n);
    return 0;
}

/* Sets *OUT to whether answers to P begin in reasoning or in content. */
static int place(const struct gallop_chat *c, const struct gallop_prompt *p, const struct markup *m,
                 enum markup_place *out, struct err *e)
{
    struct buf continued = {.tag = MEM_ENGINE};
    int rc = c->continue_final_message ? texts_last_message(c->messages, &continued, e) : 0;

    *out = markup_place(m->reasoning, p->text, p->text_len, continued.data, continued.len);
    buf_fini(&continued);
    return rc;
}

/* Adds the constraint on tool calls to the structured outputs of R, and sets where in an answer the
 * constraint begins. */
static int constrain(struct texts *t, const struct gallop_chat *c, const struct gallop_prompt *p,
                     const struct markup *m, enum markup_place begin, const struct texts_tools *tools,
                     struct arena *a, struct gallop_request *r, struct err *e)
{
    const struct constrain_calls calls = {.markup = m,
                                          .template = c->chat_template ? c->chat_template : t->own.source,
                                          .tools = tools->list,
                                          .names = tools->names,
                                          .choice = tools->choice,
                                          .is_parallel = !c->one_call,
                                          .field = "structured_outputs"};
    int rc = constrain_calls(&r->structured_outputs, &calls, a, e);

    return rc ? rc
              : constrain_place(&r->structured_outputs, m->reasoning, tools->list ? m->calls : NULL, begin,
                                p->text, p->text_len, e);
}

/* Sets the prompt, the constraint, the stop tokens and the reasoning marks of R. */
static int ask(struct texts *t, const struct gallop_chat *c, struct gallop_prompt *p,
               const struct texts_tools *tools, struct gallop_request *r, struct err *e)
{
    const struct markup_calls *calls;
    struct arena *a = memory_of(p);
    enum markup_place begin;
    struct markup m;
    int rc = a ? 0 : err_nomem(e, "a request");

    if (rc || (rc = texts_markup(t, c->tool_call_parser, c->reasoning_parser, c->chat_template, &m, e)) != 0)
        return rc;
    if (tools->list && !m.calls && !m.plain_calls)
        return err_about(e, ERR_UNSUPPORTED, "tools",
                         "the chat template does not show how this model writes tool calls; tool_call_parser "
                         "takes the name of their markup, or \"none\"");
    calls = tools->list ? m.calls : NULL;
    if ((rc = place(c, p, &m, &begin, e)) != 0 || (rc = constrain(t, c, p, &m, begin, tools, a, r, e)) != 0 ||
        (rc = add_stop_tokens(t, calls, a, r, e)) != 0)
        return rc;
    r->text = NULL;
    r->ids = p->ids;
    r->n_ids = p->n_ids;
    r->keep_special |= (calls && calls->special) || (m.reasoning && m.reasoning->special);
    constrain_set_marks(m.reasoning, calls, begin, r);
    return 0;
}

int gallop_ask(const struct gallop *g, const struct gallop_chat *c, struct gallop_prompt *p,
               struct gallop_request *r, char *err)
{
    struct texts *t = engine_texts(g);
    struct gallop_request changed = *r;
    struct texts_tools tools;
    struct err e = {0};
    int rc;

    mem_lib_failed(); /* resets the flag of an earlier failure */
    rc = p->ids ? texts_tools_read(c, &tools, &e)
                : err_about(&e, ERR_INPUT, "ids",
                            "the prompt has no tokens, expected a prompt of gallop_render()");
    if (p->ids) {
        rc = rc ? rc : ask(t, c, p, &tools, &changed, &e);
        texts_tools_close(&tools);
    }
    /* a failed allocation in jansson may have gone unnoticed until here, or caused an error about a field */
    if (mem_lib_failed())
        rc = err_nomem(&e, "tools");
    if (rc == 0)
        *r = changed;
    return engine_give(err, &e, rc);
}
