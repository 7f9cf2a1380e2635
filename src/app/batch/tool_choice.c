/* tool_choice.c - reads the fields tool_choice and parallel_tool_calls, and `strict` of functions. */
#include "app/batch/tool_choice.h"

#include <string.h>

#include "engine/constraints/constrain.h"
#include "engine/constraints/structured.h"
#include "text/markup/markup.h"
#include "text/markup/tools.h"

bool tool_choice_is_none(const json_t *body)
{
    const json_t *choice = json_object_get(body, "tool_choice");
    const char *word = json_string_value(json_is_object(choice) ? json_object_get(choice, "type") : choice);

    return word && strcmp(word, "none") == 0;
}

/* Constrains the tool calls of Q as C says, with the markup that T shows. */
static int constrain(struct request *q, struct constrain_calls *c, struct input_template *t, struct err *e)
{
    struct markup markup;
    int rc = input_template_markup(t, &markup, e);

    if (rc)
        return rc;
    if (!markup.calls && (tools_forces(c->choice) || c->names || constrain_is_strict(c)))
        return err_about(e, ERR_UNSUPPORTED, "tool_choice",
                         "the chat template shows no markup of tool calls");
    c->markup = &markup;
    c->template = input_template_source(t);
    return constrain_calls(&q->structured, c, &q->arena, e);
}

int tool_choice_read(struct request *q, json_t *body, struct input_template *t, struct err *e)
{
    json_t *choice = requests_take(body, "tool_choice"),
           *parallel = requests_take(body, "parallel_tool_calls"), *names = NULL;
    struct constrain_calls c = {.tools = q->tools,
                                .is_parallel = !json_is_false(parallel),
                                .field = structured_is_given(&q->structured) ? "response_format" : ""};
    int rc = parallel && !json_is_boolean(parallel)
                 ? err_set(e, ERR_INPUT, "parallel_tool_calls: expected true or false")
                 : tools_choose(choice, &c.choice, &names, e);

    c.names = names;
    q->one_call = !c.is_parallel;
    q->is_forced = tools_forces(c.choice);
    if (rc == 0 && (q->tools || q->is_forced || names))
        rc = constrain(q, &c, t, e);
    json_decref(choice);
    json_decref(parallel);
    json_decref(names);
    return rc;
}
