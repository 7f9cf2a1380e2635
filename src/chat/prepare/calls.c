/* calls.c - the constraint on tool calls of a request. */
#include "chat/prepare/calls.h"

#include "chat/once.h"
#include "chat/prepare/choose.h"
#include "chat/request.h"
#include "chat/service.h"
#include "engine/constraints/constrain.h"

int calls_choose(struct request *q, struct err *e)
{
    const struct constrain_calls c = {.markup = q->service->markup,
                                      .template = q->service->template_text,
                                      .tools = q->field.input.tools,
                                      .origins = q->field.input.tool_origins,
                                      .names = q->field.tool_names,
                                      .choice = q->field.input.tool_choice,
                                      .is_parallel = q->field.output.parallel_tool_calls,
                                      .field = choose_field(q, "structured_outputs")};
    int rc = constrain_calls(&q->structured, &c, &q->arena, e);

    if (rc == 0 && c.choice != TOOLS_NONE && c.markup->plain_calls && constrain_is_strict(&c))
        once_warn(q->once, q->origin.route, "tools",
                  "`strict` in '%s' is not enforced, because the server's tool-call-parser is none");
    return rc; /* other requests with tools are refused by check_tools() */
}

int calls_place(struct request *q, const char *prompt, size_t n, struct err *e)
{
    return constrain_place(&q->structured, q->service->markup->reasoning, q->calls, q->place, prompt, n, e);
}
