/* constrain.c - writes the constraint on tool calls in the engine's format. */
#include "engine/constraints/constrain.h"

#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json/json_tree.h"
#include "engine/constraints/structured.h"
#include "gallop.h"
#include "text/markup/tools.h"
#include "text/tok/tok.h"

/* ---- the functions that may be called ---- */

/* Returns the member `strict` of function I as the client sent it; NULL: it is absent. */
static const json_t *strict_of(const struct constrain_calls *c, size_t i)
{
    const json_t *own = json_array_get(c->origins, i),
                 *function = json_object_get(json_array_get(c->tools, i), "function");

    return json_object_get(own ? own : function, "strict");
}

static const char *name_of(const struct constrain_calls *c, size_t i)
{
    const json_t *function = json_object_get(json_array_get(c->tools, i), "function");

    return json_string_value(json_object_get(function, "name"));
}

/* Returns whether tool_choice allows calls of the function NAME. */
static bool may_call(const struct constrain_calls *c, const char *name)
{
    const json_t *named = c->names;

    for (size_t i = 0; i < json_array_size(named); i++)
        if (strcmp(json_string_value(json_array_get(named, i)), name) == 0)
            return true;
    return !named;
}

static int check_names(const struct constrain_calls *c, struct err *e)
{
    const json_t *named = c->names;
    size_t n = json_array_size(c->tools);

    for (size_t i = 0; i < json_array_size(named); i++) {
        const char *name = json_string_value(json_array_get(named, i));
        size_t k = 0;

        while (k < n && strcmp(name_of(c, k), name) != 0)
            k++;
        if (k == n)
            return err_about(e, ERR_INPUT, "tool_choice",
                             "found the function '%.100s', expected the name of one of the request's tools",
                             name);
    }
    return 0;
}

static bool is_required(const struct constrain_calls *c)
{
    return tools_forces(c->choice);
}

/* ---- the constraint ---- */

/* Appends tool I to LIST, in the format of gallop_structured_outputs.tool_calls. */
static int add_function(const struct constrain_calls *c, size_t i, json_t *list, struct err *e)
{
    const json_t *function = json_object_get(json_array_get(c->tools, i), "function"),
                 *origin = json_object_get(json_array_get(c->origins, i), "pointer"),
                 *strict = strict_of(c, i);
    json_t *parameters = json_object_get(function, "parameters"), *v;
    char pointer[64];
    int bad = 0;

    if (strict && !json_is_null(strict) && !json_is_boolean(strict))
        return err_about(e, ERR_INPUT, "tools",
                         "found a wrong type of `strict` in function \"%.100s\", expected true or false",
                         name_of(c, i));
    snprintf(pointer, sizeof(pointer), "/tools/%zu/function/parameters", i);
    v = json_pack("{s:s,s:s}", "name", name_of(c, i), "pointer",
                  origin ? json_string_value(origin) : pointer);
    if (json_is_object(parameters) && (is_required(c) || json_is_true(strict)))
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
static const char *markup_of(const struct constrain_calls *c)
{
    const char *name = c->markup->calls->name, *source = c->template;

    return strcmp(name, "mistral") == 0 && !(source && strstr(source, "[ARGS]")) ? "mistral_v3" : name;
}

static int write_calls(struct gallop_structured_outputs *s, const struct constrain_calls *c, struct arena *a,
                       struct err *e)
{
    struct buf text = {.tag = MEM_ENGINE};
    json_t *list = json_array(), *v;
    int rc = list ? 0 : err_nomem(e, "tools");

    for (size_t i = 0; i < json_array_size(c->tools) && rc == 0; i++)
        if (may_call(c, name_of(c, i)))
            rc = add_function(c, i, list, e);
    v = rc ? NULL
           : json_pack("{s:s,s:b,s:b,s:O}", "markup", markup_of(c), "required", is_required(c), "parallel",
                       c->is_parallel && c->choice != TOOLS_NAMED, "functions", list);
    if (v)
        buf_json_tree(&text, v, false);
    if (v && !text.oom)
        s->tool_calls = arena_strndup(a, text.data, text.len);
    json_decref(v);
    json_decref(list);
    buf_fini(&text);
    return rc || s->tool_calls ? rc : err_nomem(e, "tools");
}

bool constrain_is_strict(const struct constrain_calls *c)
{
    bool is_strict = false;

    for (size_t i = 0; i < json_array_size(c->tools); i++)
        is_strict |= strict_of(c, i) && !json_is_null(strict_of(c, i)) && !json_is_false(strict_of(c, i));
    return is_strict;
}

int constrain_calls(struct gallop_structured_outputs *s, const struct constrain_calls *c, struct arena *a,
                    struct err *e)
{
    bool is_chosen = is_required(c) || c->names;

    if (c->choice == TOOLS_NONE)
        return 0;
    if (is_chosen && json_array_size(c->tools) == 0)
        return err_about(e, ERR_INPUT, "tool_choice", "found no `tools`, from which functions are chosen");
    if (json_array_size(c->tools) == 0 || (!is_chosen && !constrain_is_strict(c) && !structured_is_given(s)))
        return 0;
    /* tools that the chat template gets unchanged have not been checked before */
    if (tools_check(c->tools, NULL, e) != 0 || check_names(c, e) != 0)
        return e->code;
    if (is_required(c) && structured_is_given(s))
        return err_about(e, ERR_INPUT, "tool_choice",
                         "tool calls are forced, and %s constrains the answer; expected one of the two",
                         c->field);
    if (c->markup->calls)
        return write_calls(s, c, a, e);
    if (is_chosen && c->markup->plain_calls)
        return err_about(
            e, ERR_UNSUPPORTED, "tool_choice",
            "found a choice of tools, but this server does not parse tool calls (its tool-call-parser is none)");
    return 0;
}

/* ---- the start of the constraint ---- */

/* Makes the constraint of S apply to a message in harmony's channels (GPT-OSS). The prompt must end with the header of
 * the answer's message. */
static int place_in_channels(struct gallop_structured_outputs *s, const char *prompt, size_t n, struct err *e)
{
    static const char header[] = "<|start|>assistant";

    if (n < sizeof(header) - 1 || memcmp(prompt + n - (sizeof(header) - 1), header, sizeof(header) - 1) != 0)
        return err_set(e, ERR_UNSUPPORTED,
                       "the answer cannot be constrained: its prompt ends inside a message of the model");
    s->has_channels = 1;
    return 0;
}

int constrain_place(struct gallop_structured_outputs *s, const struct markup_reasoning *r,
                    const struct markup_calls *calls, enum markup_place place, const char *prompt, size_t n,
                    struct err *e)
{
    if (!structured_is_given(s) && !s->tool_calls)
        return 0;
    if ((r && r->channels) || (calls && calls->channels))
        return place_in_channels(s, prompt, n, e);
    if (!r)
        return 0;
    if (markup_reasons(place) || place == MARKUP_BEFORE)
        s->begins_after = r->close;
    if (place == MARKUP_BEFORE)
        s->may_begin_with = r->open;
    return 0;
}

/* ---- marks ---- */

/* Returns whether the JSON or the name of a tool call directly follows the opening mark of ROW, as the engine expects
 * it. */
static bool has_head(const struct markup_calls *row)
{
    return row && !row->call[0] && !row->name_key && !row->args_key &&
           !(row->shapes & ~(unsigned)(MARKUP_OBJECT | MARKUP_LIST | MARKUP_NAMED));
}

void constrain_set_marks(const struct markup_reasoning *reasoning, const struct markup_calls *row,
                         enum markup_place place, struct gallop_request *r)
{
    bool is_known = has_head(row);

    if (reasoning) {
        r->reasoning_open = markup_fixed(reasoning->open);
        r->reasoning_close = markup_fixed(reasoning->close);
        r->reasoning_begun = markup_reasons(place);
    }
    for (size_t i = 0; i < sizeof(r->tool_call_open) / sizeof(r->tool_call_open[0]); i++)
        r->tool_call_open[i] = is_known ? row->open[i] : NULL;
    r->tool_call_close = is_known ? row->close[0] : NULL;
}

size_t constrain_stop_tokens(const struct markup_calls *calls, const struct tok *tok,
                             int32_t ids[MARKUP_MAX_STOP])
{
    size_t n = 0;

    for (size_t i = 0; calls && tok && i < MARKUP_MAX_STOP && calls->stop[i]; i++)
        n += tok_id_of(tok, calls->stop[i], strlen(calls->stop[i]), &ids[n]);
    return n;
}
