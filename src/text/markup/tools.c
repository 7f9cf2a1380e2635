/* tools.c - detects how a template expects tools, and reads and converts the tools of requests. */
#include "text/markup/tools.h"

#include <string.h>
#include <xxhash.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json/json_pull.h"
#include "base/json/json_tree.h"
#include "base/log.h"
#include "text/markup/parser.h"
#include "text/markup/probe.h"

enum { SHORT_ID = 9 };

/* ---- the tools that a template supports ---- */

static const char probe_id[] = "abcdefgh1", probe_long_id[] = "call_abcdefghijklmn1";

/* Returns whether the template writes TOOL from the variable `tools`. Releases TOOL. */
static bool writes(struct probe *p, json_t *tool)
{
    return probe_render(p, json_pack("{s:[{s:s,s:s}],s:[o]}", "messages", "role", "user", "content", "u",
                                     "tools", tool)) &&
           probe_shows(p, PROBE_NAME);
}

/* Returns whether the template refuses a tool whose function, or whose parameters, lack MEMBER. */
static bool needs(struct probe *p, const char *member)
{
    json_t *tool = probe_tool(), *function = json_object_get(tool, "function"),
           *parameters = json_object_get(function, "parameters");

    json_object_del(strcmp(member, "properties") == 0 ? parameters : function, member);
    return !writes(p, tool);
}

static enum tools_place probe_place(struct probe *p)
{
    json_t *given;

    if (writes(p, probe_tool()))
        return TOOLS_IN_VARIABLE;
    given = json_pack("{s:[{s:s,s:s,s:s},{s:s,s:s}]}", "messages", "role", "system", "content", "s", "tools",
                      PROBE_NAME, "role", "user", "content", "u");
    return probe_render(p, given) && probe_shows(p, PROBE_NAME) ? TOOLS_IN_SYSTEM : TOOLS_NOWHERE;
}

/* Renders a conversation with a call of a tool, which has the id ID and the arguments ARGUMENTS, and its
 * result. Releases ARGUMENTS. Returns false if the template refuses the conversation. */
static bool render_call(struct probe *p, json_t *arguments, const char *id)
{
    json_t *call = json_pack("{s:s,s:s,s:{s:s,s:o}}", "id", id, "type", "function", "function", "name",
                             PROBE_NAME, "arguments", arguments);

    return probe_render(p, json_pack("{s:[{s:s,s:s},{s:s,s:s,s:[o]},{s:s,s:s,s:s,s:s}],s:[o]}", "messages",
                                     "role", "user", "content", "u", "role", "assistant", "content", "",
                                     "tool_calls", call, "role", "tool", "tool_call_id", id, "name",
                                     PROBE_NAME, "content", "r", "tools", probe_tool()));
}

static bool takes_object(struct probe *p, const char *id)
{
    /* a template that writes an object in Python's syntax expects JSON text */
    return render_call(p, json_pack("{s:s}", PROBE_KEY, "v"), id) && probe_shows(p, PROBE_KEY) &&
           !probe_shows(p, "'probe_key'");
}

static bool takes_text(struct probe *p)
{
    return render_call(p, json_string("{\"probe_key\": \"v\"}"), probe_id) && probe_shows(p, "\"probe_key\"");
}

int tools_probe(const struct chat *chat, const struct jinja *template, struct tools_style *out, struct err *e)
{
    struct probe p = {.chat = chat, .template = template, .out = {.tag = MEM_TEXT}, .e = e};

    *out = (struct tools_style){.place = probe_place(&p)};
    if (out->place == TOOLS_IN_VARIABLE) {
        out->needs_description = needs(&p, "description");
        out->needs_parameters = needs(&p, "parameters");
        out->needs_properties = needs(&p, "properties");
    }
    out->text_arguments = !takes_object(&p, probe_id) && takes_text(&p);
    out->short_ids =
        render_call(&p, json_object(), probe_id) && !render_call(&p, json_object(), probe_long_id);
    buf_fini(&p.out);
    return p.rc;
}

/* ---- fields ---- */

int tools_check(const json_t *list, const char **names, struct err *e)
{
    const json_t *tool;
    size_t i;

    json_array_foreach(list, i, tool)
    {
        const char *type = json_string_value(json_object_get(tool, "type"));
        const json_t *function = json_object_get(tool, "function"), *name = json_object_get(function, "name"),
                     *parameters = json_object_get(function, "parameters");

        if (!json_is_object(tool) || !type)
            return err_set(e, ERR_INPUT, "tools[%zu]: expected an object with a type", i);
        if (strcmp(type, "function") != 0)
            return err_set(e, ERR_UNSUPPORTED, "tools[%zu].type: '%.40s' is not supported, expected function",
                           i, type);
        if (!json_is_string(name) || json_string_length(name) == 0 ||
            json_string_length(name) > PARSER_MAX_NAME ||
            strlen(json_string_value(name)) != json_string_length(name))
            return err_set(e, ERR_INPUT, "tools[%zu].function.name: expected a string of 1 to %d bytes", i,
                           PARSER_MAX_NAME);
        if (parameters && !json_is_object(parameters) && !json_is_null(parameters))
            return err_set(e, ERR_INPUT, "tools[%zu].function.parameters: expected an object", i);
        if (names)
            names[i] = json_string_value(name);
    }
    return 0;
}

int tools_copy_names(const json_t *list, struct arena *a, const char *const **names, size_t *n, struct err *e)
{
    const char **copy = arena_zalloc(a, json_array_size(list), sizeof(*copy));
    int rc = copy ? tools_check(list, copy, e) : err_nomem(e, "tools");

    *n = rc ? 0 : json_array_size(list);
    *names = copy;
    for (size_t i = 0; i < *n && rc == 0; i++)
        if (!(copy[i] = arena_strndup(a, copy[i], strlen(copy[i]))))
            rc = err_nomem(e, "tools");
    return rc;
}

/* Removes the member KEY of O if it is null. If it is missing and FILLS, sets it to VALUE, which is released. 0, or -1:
 * out of memory. */
static int complete(json_t *o, const char *key, bool fills, json_t *value)
{
    int rc = 0;

    if (json_is_null(json_object_get(o, key)))
        json_object_del(o, key);
    if (fills && !json_object_get(o, key))
        rc = json_object_set(o, key, value);
    json_decref(value);
    return rc;
}

/* Returns a copy of TOOL as tools_complete() does; NULL: out of memory. */
static json_t *complete_tool(const struct tools_style *s, const json_t *tool)
{
    json_t *copy = json_copy((json_t *)(uintptr_t)tool),
           *function = json_copy(json_object_get(tool, "function")), *parameters;
    int bad = !copy || !function;

    bad = bad || complete(function, "description", s->needs_description, json_string("")) != 0 ||
          complete(function, "parameters", s->needs_parameters, json_pack("{s:s}", "type", "object")) != 0;
    parameters = json_copy(json_object_get(function, "parameters"));
    if (parameters)
        bad = bad ||
              complete(parameters, "properties", s->needs_properties || s->needs_parameters, json_object()) !=
                  0 ||
              json_object_set(function, "parameters", parameters) != 0;
    bad = bad || json_object_set(copy, "function", function) != 0;
    json_decref(parameters);
    json_decref(function);
    if (!bad)
        return copy;
    json_decref(copy);
    return NULL;
}

int tools_complete(const struct tools_style *s, const json_t *tools, json_t **out, struct err *e)
{
    const json_t *tool;
    json_t *list = json_array();
    int bad = !list;
    size_t i;

    json_array_foreach(tools, i, tool)
    {
        bad = bad || json_array_append_new(list, complete_tool(s, tool)) != 0;
    }
    if (bad)
        json_decref(list);
    *out = bad ? NULL : list;
    return bad ? err_nomem(e, "tools") : 0;
}

/* Sets *OUT to the choice named WORD. Returns false if the word is unknown. */
static bool read_word(const char *word, enum tools_choice *out)
{
    static const char *const words[] = {
        [TOOLS_AUTO] = "auto", [TOOLS_NONE] = "none", [TOOLS_REQUIRED] = "required"};

    for (size_t i = 0; word && i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(word, words[i]) == 0) {
            *out = (enum tools_choice)i;
            return true;
        }
    return false;
}

/* Appends the name of the function object V to NAMES. */
static int add_name(const json_t *v, json_t *names, struct err *e)
{
    const char *type = json_string_value(json_object_get(v, "type"));
    json_t *function = json_object_get(v, "function"),
           *name = json_object_get(function ? function : v, "name");

    if (type && strcmp(type, "function") != 0)
        return err_set(e, ERR_UNSUPPORTED,
                       "tool_choice: the type '%.40s' is not supported, expected function or allowed_tools",
                       type);
    if (json_string_length(name) == 0)
        return err_set(e, ERR_INPUT, "tool_choice: expected a function with a name");
    return json_array_append(names, name) == 0 ? 0 : err_nomem(e, "tool_choice");
}

/* Reads the mode and functions of CHOICE, a tool_choice of type allowed_tools. */
static int read_allowed(const json_t *choice, enum tools_choice *out, json_t *names, struct err *e)
{
    const json_t *inner = json_object_get(choice, "allowed_tools"), *list, *v;
    size_t i;
    int rc = 0;

    inner = inner ? inner : choice;
    list = json_object_get(inner, "tools");
    if (!read_word(json_string_value(json_object_get(inner, "mode")), out) || *out == TOOLS_NONE)
        return err_set(e, ERR_INPUT, "tool_choice: expected the mode auto or required beside allowed_tools");
    if (json_array_size(list) == 0)
        return err_set(e, ERR_INPUT,
                       "tool_choice: expected a list of one or more functions as allowed_tools");
    json_array_foreach(list, i, v)
    {
        rc = rc ? rc : add_name(v, names, e);
    }
    return rc;
}

bool tools_forces(enum tools_choice choice)
{
    return choice == TOOLS_REQUIRED || choice == TOOLS_NAMED;
}

int tools_choose(const json_t *choice, enum tools_choice *out, json_t **names, struct err *e)
{
    const char *word = json_string_value(choice), *type = json_string_value(json_object_get(choice, "type"));
    int rc;

    *out = TOOLS_AUTO;
    *names = NULL;
    if (!choice || json_is_null(choice) || read_word(word, out) || read_word(type, out))
        return 0;
    if (word)
        return err_set(e, ERR_INPUT, "tool_choice: '%.40s' is none of auto, none, required", word);
    if (!json_is_object(choice))
        return err_set(e, ERR_INPUT, "tool_choice: expected auto, none, required or an object");
    *names = json_array();
    *out = TOOLS_NAMED;
    if (!*names)
        rc = err_nomem(e, "tool_choice");
    else
        rc = type && strcmp(type, "allowed_tools") == 0 ? read_allowed(choice, out, *names, e)
                                                        : add_name(choice, *names, e);
    if (rc) {
        json_decref(*names);
        *names = NULL;
    }
    return rc;
}

/* ---- messages ---- */

static bool is_short(const char *id)
{
    return strlen(id) == SHORT_ID &&
           strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") == SHORT_ID;
}

/* Replaces the member KEY of O, an id, by 9 letters and digits computed from it. 0, or -1: out of memory. */
static int shorten(json_t *o, const char *key)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    const char *id = json_string_value(json_object_get(o, key));
    char brief[SHORT_ID + 1] = "";
    uint64_t hash;

    if (!id || is_short(id))
        return 0;
    hash = XXH3_64bits(id, strlen(id));
    for (int i = 0; i < SHORT_ID; i++, hash /= 36)
        brief[i] = letters[hash % 36];
    return json_object_set_new(o, key, json_string(brief));
}

/* Returns a new string with VALUE as JSON text; NULL: out of memory. */
static json_t *as_text(const json_t *value)
{
    struct buf text = {.tag = MEM_TEXT};
    json_t *out;

    buf_json_tree(&text, value, true);
    out = text.oom ? NULL : json_stringn(text.data, text.len);
    buf_fini(&text);
    return out;
}

/* Returns a new reference to ARGUMENTS in the format that the template expects; NULL: out of memory. Sets
 * *BROKEN if they are not a JSON object. */
static json_t *fit_arguments(const struct tools_style *s, json_t *arguments, bool *broken)
{
    json_t *object = NULL;

    if (json_is_object(arguments))
        return s->text_arguments ? as_text(arguments) : json_incref(arguments);
    if (json_string_length(arguments) &&
        json_pull_load_exact(&object, json_string_value(arguments), json_string_length(arguments), "",
                             NULL) == ERR_NOMEM)
        return NULL;
    if (json_is_object(object)) {
        if (!s->text_arguments)
            return object;
        json_decref(object);
        return json_incref(arguments);
    }
    json_decref(object);
    *broken |= json_string_length(arguments) > 0;
    return s->text_arguments ? json_string("{}") : json_object();
}

/* Sets *OUT to a copy of CALL, tool call K of message I, in the format that the template expects. */
static int fit_call(const struct tools_style *s, json_t *call, size_t i, size_t k, json_t **out, bool *broken,
                    struct err *e)
{
    json_t *function = json_object_get(call, "function"), *arguments = json_object_get(function, "arguments");
    json_t *copy, *inner, *fit;
    int rc;

    *out = NULL;
    if (!json_is_object(function) || !json_is_string(json_object_get(function, "name")))
        return err_set(e, ERR_INPUT, "messages[%zu].tool_calls[%zu].function: expected an object with a name",
                       i, k);
    if (arguments && !json_is_string(arguments) && !json_is_object(arguments) && !json_is_null(arguments))
        return err_set(e, ERR_INPUT,
                       "messages[%zu].tool_calls[%zu].function.arguments: expected JSON in a string", i, k);
    if (arguments && !json_is_null(arguments))
        fit = fit_arguments(s, arguments, broken);
    else
        fit = s->text_arguments ? json_string("{}") : json_object();
    copy = json_copy(call);
    inner = json_copy(function);
    rc = copy && inner && fit ? 0 : -1;
    if (rc == 0)
        rc = json_object_set(inner, "arguments", fit);
    if (rc == 0)
        rc = json_object_set(copy, "function", inner);
    if (rc == 0 && s->short_ids)
        rc = shorten(copy, "id");
    json_decref(inner);
    json_decref(fit);
    if (rc == 0)
        *out = copy;
    else
        json_decref(copy);
    return rc ? err_nomem(e, "messages") : 0;
}

static int fit_message(const struct tools_style *s, json_t *message, size_t i, bool *broken, struct err *e)
{
    json_t *calls = json_object_get(message, "tool_calls"), *list, *call, *fit;
    size_t k;
    int rc;

    if (s->short_ids && shorten(message, "tool_call_id") != 0)
        return err_nomem(e, "messages");
    if (!calls || json_is_null(calls))
        return 0;
    if (!json_is_array(calls))
        return err_set(e, ERR_INPUT, "messages[%zu].tool_calls: expected a list", i);
    if (json_array_size(calls) == 0) /* removes an empty list: templates test only whether it exists */
        return json_object_del(message, "tool_calls");
    list = json_array();
    rc = list ? 0 : err_nomem(e, "messages");
    json_array_foreach(calls, k, call)
    {
        if (rc == 0 && (rc = fit_call(s, call, i, k, &fit, broken, e)) == 0 &&
            json_array_append_new(list, fit) != 0)
            rc = err_nomem(e, "messages");
    }
    if (rc == 0 && json_object_set(message, "tool_calls", list) != 0)
        rc = err_nomem(e, "messages");
    json_decref(list);
    return rc;
}

/* Puts the functions of TOOLS as JSON text into the system message, which is added if it is missing. 0, or
 * -1 if memory runs out. */
static int fill_system(json_t *list, const json_t *tools)
{
    json_t *functions = json_array(), *tool, *text, *message = json_array_get(list, 0);
    const char *role = json_string_value(json_object_get(message, "role"));
    bool there = role && strcmp(role, "system") == 0;
    int rc = functions ? 0 : -1;
    size_t i;

    json_array_foreach(tools, i, tool)
    {
        if (rc == 0)
            rc = json_array_append(functions, json_object_get(tool, "function"));
    }
    text = as_text(functions);
    message = there ? json_copy(message) : json_pack("{s:s,s:s}", "role", "system", "content", "");
    if (rc == 0)
        rc = json_object_set(message, "tools", text);
    if (rc == 0)
        rc = there ? json_array_set(list, 0, message) : json_array_insert(list, 0, message);
    json_decref(text);
    json_decref(message);
    json_decref(functions);
    return rc;
}

int tools_fit(const struct tools_style *s, json_t *list, const json_t *tools, struct err *e)
{
    size_t n = json_array_size(list);
    bool broken = false;
    int rc = 0;

    for (size_t i = 0; i < n && rc == 0; i++) {
        json_t *copy = json_copy(json_array_get(list, i));

        rc = copy ? fit_message(s, copy, i, &broken, e) : err_nomem(e, "messages");
        if (rc == 0 && json_array_set(list, i, copy) != 0)
            rc = err_nomem(e, "messages");
        json_decref(copy);
    }
    if (broken) /* one log line for all calls */
        log_warn("the arguments of an earlier tool call in messages are no JSON object; {} is used instead");
    if (rc == 0 && s->place == TOOLS_IN_SYSTEM && json_array_size(tools) && fill_system(list, tools) != 0)
        rc = err_nomem(e, "messages");
    return rc;
}
