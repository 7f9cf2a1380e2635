/* calls.c - writes the constraint on tool calls in the engine's format (struct gallop_structured_outputs).
 */
#include "api/prepare/calls.h"

#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "api/markup/markup.h"
#include "api/once.h"
#include "api/prepare/choose.h"
#include "api/request.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json/json_tree.h"
#include "engine/constraints/structured.h"

/* ---- which functions ---- */

/* Returns the member `strict` of function I as the client sent it; NULL: it is absent. */
static const json_t *strict_of(const struct request *q, size_t i)
{
    const json_t *own = json_array_get(q->field.input.tool_origins, i),
                 *function = json_object_get(json_array_get(q->field.input.tools, i), "function");

    return json_object_get(own ? own : function, "strict");
}

static const char *name_of(const struct request *q, size_t i)
{
    const json_t *function = json_object_get(json_array_get(q->field.input.tools, i), "function");

    return json_string_value(json_object_get(function, "name"));
}

/* Returns whether tool_choice allows calls of the function NAME. */
static bool may_call(const struct request *q, const char *name)
{
    const json_t *named = q->field.tool_names;

    for (size_t i = 0; i < json_array_size(named); i++)
        if (strcmp(json_string_value(json_array_get(named, i)), name) == 0)
            return true;
    return !named;
}

static int check_names(const struct request *q, struct err *e)
{
    const json_t *named = q->field.tool_names;
    size_t n = json_array_size(q->field.input.tools);

    for (size_t i = 0; i < json_array_size(named); i++) {
        const char *name = json_string_value(json_array_get(named, i));
        size_t k = 0;

        while (k < n && strcmp(name_of(q, k), name) != 0)
            k++;
        if (k == n)
            return err_about(e, ERR_INPUT, "tool_choice",
                             "found the function '%.100s', expected the name of one of the request's tools",
                             name);
    }
    return 0;
}

static bool is_required(const struct request *q)
{
    return q->field.input.tool_choice == TOOLS_REQUIRED;
}

/* ---- the constraint ---- */

/* Appends function I to LIST in the engine's format. */
static int add_function(const struct request *q, size_t i, json_t *list, struct err *e)
{
    const json_t *function = json_object_get(json_array_get(q->field.input.tools, i), "function"),
                 *origin = json_object_get(json_array_get(q->field.input.tool_origins, i), "pointer"),
                 *strict = strict_of(q, i);
    json_t *parameters = json_object_get(function, "parameters"), *v;
    char pointer[64];
    int bad = 0;

    if (strict && !json_is_null(strict) && !json_is_boolean(strict))
        return err_about(e, ERR_INPUT, "tools",
                         "found a wrong type of `strict` in function \"%.100s\", expected true or false",
                         name_of(q, i));
    snprintf(pointer, sizeof(pointer), "/tools/%zu/function/parameters", i);
    v = json_pack("{s:s,s:s}", "name", name_of(q, i), "pointer",
                  origin ? json_string_value(origin) : pointer);
    if (json_is_object(parameters) && (is_required(q) || json_is_true(strict)))
        bad |= json_object_set(v, "parameters", parameters);
    if (json_is_false(strict))
        bad |= json_object_set_new(v, "strict", json_false());
    if (bad || json_array_append(list, v) != 0)
        e->code = err_nomem(e, "tools");
    json_decref(v);
    return e->code;
}

/* Returns the name of the markup in which the model writes tool calls. Mistral's models have two: newer
 * ones put the function's name before [ARGS]. */
static const char *form_of(const struct request *q)
{
    const char *name = q->server->markup->calls->name, *source = q->server->template_text;

    return strcmp(name, "mistral") == 0 && !(source && strstr(source, "[ARGS]")) ? "mistral_list" : name;
}

static int write_calls(struct request *q, struct err *e)
{
    struct buf text = {.tag = MEM_API};
    json_t *list = json_array(), *v;
    int rc = list ? 0 : err_nomem(e, "tools");

    for (size_t i = 0; i < json_array_size(q->field.input.tools) && rc == 0; i++)
        if (may_call(q, name_of(q, i)))
            rc = add_function(q, i, list, e);
    v = rc ? NULL
           : json_pack("{s:s,s:b,s:b,s:O}", "markup", form_of(q), "required", is_required(q), "parallel",
                       q->field.output.parallel_tool_calls, "functions", list);
    if (v)
        buf_json_tree(&text, v, false);
    if (v && !text.oom)
        q->structured.tool_calls = arena_strndup(&q->arena, text.data, text.len);
    json_decref(v);
    json_decref(list);
    buf_fini(&text);
    return rc || q->structured.tool_calls ? rc : err_nomem(e, "tools");
}

int calls_choose(struct request *q, struct err *e)
{
    const struct markup *m = q->server->markup;
    bool is_chosen = is_required(q) || q->field.tool_names, is_strict = false;

    if (q->field.input.tool_choice == TOOLS_NONE)
        return 0;
    for (size_t i = 0; i < json_array_size(q->field.input.tools); i++)
        is_strict |= strict_of(q, i) && !json_is_null(strict_of(q, i)) && !json_is_false(strict_of(q, i));
    if (is_chosen && json_array_size(q->field.input.tools) == 0)
        return err_about(e, ERR_INPUT, "tool_choice", "found no `tools`, from which functions are chosen");
    if (json_array_size(q->field.input.tools) == 0 ||
        (!is_chosen && !is_strict && !structured_is_given(&q->structured)))
        return 0;
    if (check_names(q, e) != 0)
        return e->code;
    if (is_required(q) && structured_is_given(&q->structured))
        return err_about(e, ERR_INPUT, "tool_choice",
                         "tool calls are forced, and %s constrains the answer; expected one of the two",
                         choose_field(q, "structured_outputs"));
    if (m->calls)
        return write_calls(q, e);
    if (is_chosen && m->plain_calls)
        return err_about(
            e, ERR_UNSUPPORTED, "tool_choice",
            "found a choice of tools, but this server does not parse tool calls (its tool-call-parser is none)");
    if (is_strict && m->plain_calls)
        once_warn(q->once, q->origin.route, "tools",
                  "`strict` in '%s' is not enforced, because the server's tool-call-parser is none");
    return 0; /* other requests with tools are refused by check_tools() */
}

/* ---- where the constraint begins ---- */

/* Sets the constraint for answers in harmony's channels. The prompt must end with a message header. */
static int place_in_channels(struct request *q, const char *prompt, size_t n, struct err *e)
{
    static const char header[] = "<|start|>assistant";

    if (n < sizeof(header) - 1 || memcmp(prompt + n - (sizeof(header) - 1), header, sizeof(header) - 1) != 0)
        return err_set(e, ERR_UNSUPPORTED,
                       "the answer cannot be constrained: its prompt ends inside a message of the model");
    q->structured.has_channels = 1;
    return 0;
}

int calls_place(struct request *q, const char *prompt, size_t n, struct err *e)
{
    const struct markup_reasoning *r = q->server->markup->reasoning;

    if (!structured_is_given(&q->structured) && !q->structured.tool_calls)
        return 0;
    if ((r && r->channels) || (q->calls && q->calls->channels))
        return place_in_channels(q, prompt, n, e);
    if (!r)
        return 0;
    if (q->reasons) {
        q->structured.begins_after = r->close;
    } else if (!markup_is_closed(r, prompt, n) && q->field.input.add_generation_prompt) {
        q->structured.may_begin_with = r->open;
        q->structured.begins_after = r->close;
    }
    return 0;
}
