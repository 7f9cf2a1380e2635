/* messages.c - renders the conversation of a request with the model's chat template. */
#include "chat/prepare/messages.h"

#include "base/buf.h"
#include "base/err.h"
#include "chat/request.h"
#include "chat/service.h"
#include "text/markup/conversation.h"
#include "text/markup/template.h"

/* Sets in O the variables that the service and the request Q give. Later ones replace earlier ones. */
static int set_variables(const struct request *q, json_t *o)
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
    if (f->input.documents)
        bad |= json_object_set(o, "documents", (json_t *)(uintptr_t)f->input.documents);
    return bad;
}

int messages_render(struct request *q, struct buf *out, struct buf *origin, struct err *e)
{
    const struct fields *f = &q->field;
    struct conversation c = {.template = q->service->template,
                             .tools = request_has_tools(q) ? (json_t *)(uintptr_t)f->input.tools : NULL,
                             .messages = (json_t *)(uintptr_t)f->input.messages,
                             .add_generation_prompt = f->input.add_generation_prompt,
                             .is_open = f->input.continue_final_message,
                             .origin = q->service->plain_user_text ? origin : NULL};
    int rc;

    if (c.is_open && c.add_generation_prompt)
        return fields_blame(
            &q->field, "continue_final_message",
            err_set(e, ERR_INPUT, "continue_final_message and add_generation_prompt cannot both be true"));
    if (!c.template->chat)
        return err_set(e, ERR_INPUT, "%s", q->service->chat_missing);
    c.variables = json_object();
    rc = c.variables && set_variables(q, c.variables) == 0 ? conversation_render(&c, out, e)
                                                           : err_nomem(e, "messages");
    json_decref(c.variables);
    return rc;
}
