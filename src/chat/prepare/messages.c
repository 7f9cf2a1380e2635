/* messages.c - renders the conversation of a request with the model's chat template. */
#include "chat/prepare/messages.h"

#include <time.h>

#include "base/buf.h"
#include "chat/request.h"
#include "chat/service.h"
#include "text/chat.h"
#include "text/jinja/jinja.h"
#include "text/markup/conversation.h"
#include "text/markup/tools.h"

/* Sets the template's variables in O, with LIST as its messages and TOOLS. Later variables replace earlier ones. */
static int set_variables(struct request *q, json_t *o, json_t *list, json_t *tools)
{
    const struct fields *f = &q->field;
    int bad = 0;

    if (q->service->template_kwargs)
        bad |= json_object_update(o, (json_t *)(uintptr_t)q->service->template_kwargs);
    if (f->input.reasoning_effort)
        bad |= json_object_set_new(o, "reasoning_effort", json_string(f->input.reasoning_effort));
    if (f->input.thinking != FIELDS_THINKING_UNSAID) { /* most templates read these */
        bad |=
            json_object_set_new(o, "enable_thinking", json_boolean(f->input.thinking == FIELDS_THINKING_ON));
        bad |= json_object_set_new(o, "thinking", json_boolean(f->input.thinking == FIELDS_THINKING_ON));
    }
    if (f->input.thinking == FIELDS_THINKING_OFF) { /* templates of Cohere and Seed-OSS read these */
        bad |= json_object_set_new(o, "reasoning", json_false());
        bad |= json_object_set_new(o, "thinking_budget", json_integer(0));
    }
    if (f->input.kwargs)
        bad |= json_object_update(o, (json_t *)(uintptr_t)f->input.kwargs);
    if (request_has_tools(q) && q->service->tools->place == TOOLS_IN_VARIABLE)
        bad |= json_object_set(o, "tools", tools);
    if (f->input.documents)
        bad |= json_object_set(o, "documents", (json_t *)(uintptr_t)f->input.documents);
    return bad | json_object_set(o, "messages", list);
}

/* Sets *OUT to a new object with the converted messages and the template variables of the request. */
static int make_variables(struct request *q, json_t **out, struct err *e)
{
    struct conversation c = {.messages = q->field.input.messages,
                             .roles = q->service->roles,
                             .style = q->service->tools,
                             .is_open = q->field.input.continue_final_message};
    json_t *o = json_object(), *list = NULL, *tools = NULL;
    int rc = o ? 0 : err_nomem(e, "messages");

    if (rc == 0 && request_has_tools(q))
        rc = tools_complete(c.style, q->field.input.tools, &tools, e);
    c.tools = tools;
    if (rc == 0)
        rc = conversation_fit(&c, &list, e);
    if (rc == 0 && set_variables(q, o, list, tools) != 0)
        rc = err_nomem(e, "messages");
    json_decref(tools);
    json_decref(list);
    if (rc)
        json_decref(o);
    *out = rc ? NULL : o;
    return rc;
}

int messages_render(struct request *q, struct buf *out, struct buf *origin, struct err *e)
{
    const struct service *o = q->service;
    time_t seconds = time(NULL);
    json_t *given, *variables = NULL;
    size_t from = out->len;
    struct tm now;
    int rc;

    if (q->field.input.continue_final_message && q->field.input.add_generation_prompt)
        return fields_blame(
            &q->field, "continue_final_message",
            err_set(e, ERR_INPUT, "continue_final_message and add_generation_prompt cannot both be true"));
    if (!o->chat)
        return err_set(e, ERR_INPUT, "%s", o->chat_missing);
    if ((rc = make_variables(q, &given, e)) != 0)
        return rc;
    localtime_r(&seconds, &now);
    if ((rc = chat_variables(o->chat, given, q->field.input.add_generation_prompt, &variables, e)) == 0)
        rc = o->plain_user_text
                 ? chat_render_marked(o->chat, o->template, variables, NULL, &now, out, origin, e)
             : o->template ? jinja_render(o->template, variables, &now, NULL, out, e)
                           : chat_render(o->chat, variables, NULL, &now, out, e);
    if (rc == 0 && q->field.input.continue_final_message)
        rc = conversation_leave_open(out, from, e);
    json_decref(variables);
    json_decref(given);
    return rc;
}
