/* tool_calls.c - the formats of tool calls that grammars can write, and a grammar for each. */
#include "text/grammar/tool_calls.h"

#include <string.h>

#include "base/mem.h"
#include "text/grammar/automata/pattern.h"
#include "text/grammar/free_text.h"
#include "text/grammar/preface.h"
#include "text/markup/markup.h"

static const struct tool_calls_form forms[] = {
    {.name = "llama3_json",
     .open = "",
     .before = "{\"name\": \"",
     .between = "\", \"parameters\": ",
     .after = "}",
     .separator = "; ",
     .close = "",
     .is_json_name = true,
     .bare = "{",
     .optional = "<|python_tag|>"},
    {.name = "mistral",
     .open = "",
     .before = "[TOOL_CALLS]",
     .between = "[ARGS]",
     .after = "",
     .separator = "",
     .close = "",
     .mark = "[TOOL_CALLS]",
     .is_last = true},
    {.name = "mistral_list",
     .open = "[TOOL_CALLS]\t[",
     .before = "{\"name\": \"",
     .between = "\", \"arguments\": ",
     .after = "}",
     .separator = ", ",
     .close = "]",
     .is_json_name = true,
     .mark = "[TOOL_CALLS]"},
    {.name = "phi4_mini_json",
     .open = "functools[",
     .before = "{\"name\": \"",
     .between = "\", \"arguments\": ",
     .after = "}",
     .separator = ", ",
     .close = "]",
     .is_json_name = true,
     .mark = "functools[",
     .excluded = "functools\\s+\\[|<\\|tool_call\\|>"},
    {.name = "openai", .has_channels = true},
};

/* ---- forms made from rows ---- */

static const char example_arguments[] = "{\"a\": 1}";

/* Appends S [n] to the text of MADE at *AT, as a string. Returns it. */
static const char *keep_text(struct tool_calls_made *made, size_t *at, const char *s, size_t n)
{
    char *to = made->text + *at;

    ASSERT(*at + n < sizeof(made->text));
    memcpy(to, s, n);
    to[n] = 0;
    *at += n + 1;
    return to;
}

/* Returns the end of the last of MARKS that stand at S one after another, with line ends between them. */
static const char *behind_marks(const char *s, const char *const *marks)
{
    for (const char *p = s;;) {
        size_t n = 0;

        p += strspn(p, "\n");
        for (size_t i = 0; i < MARKUP_MAX_MARKS && marks[i] && !n; i++)
            n = strncmp(p, marks[i], strlen(marks[i])) == 0 ? strlen(marks[i]) : 0;
        if (!n)
            return s;
        s = p += n;
    }
}

/* Where the parts of a row's example are. */
struct parts {
    const char *item, *name, *arguments, *behind; /* BEHIND: the end of the call */
};

/* Finds the parts of the example of ROW. Returns false if a grammar cannot write calls as in the example. */
static bool find_parts(const struct markup_calls *row, struct parts *p)
{
    const char *mark = row->call[0] ? row->call[0] : row->open[0], *e = row->example;

    p->arguments = strstr(e, example_arguments);
    if (!p->arguments || row->channels || row->name_key || row->args_key ||
        row->shapes & ~(unsigned)(MARKUP_OBJECT | MARKUP_LIST | MARKUP_KEYED | MARKUP_NAMED))
        return false;
    p->behind = p->arguments + strlen(example_arguments);
    if (!(row->shapes & MARKUP_NAMED)) {
        p->name = strstr(e, "\"f\"");
        if (!p->name)
            return false;
        p->item = ++p->name;
        while (p->item > e && *p->item != '{')
            p->item--;
        p->behind++; /* the bracket of the object */
        return true;
    }
    if (!mark || !markup_is_fixed(mark) || !(p->item = strstr(e, mark)))
        return false;
    p->name = p->item + strlen(mark);
    if (row->name_open && strncmp(p->name, row->name_open, strlen(row->name_open)) == 0)
        p->name += strlen(row->name_open);
    p->behind = behind_marks(p->behind, row->call_close);
    return *p->name == 'f';
}

/* Adds the marks to FORM that the parser of ROW reads besides form->mark. */
static void add_others(const struct markup_calls *row, struct tool_calls_form *form)
{
    size_t n = 0;

    for (size_t i = 0; i < MARKUP_MAX_OPEN; i++)
        if (row->open[i] && row->open[i] != form->mark)
            form->others[n++] = row->open[i];
    for (size_t i = 0; i < MARKUP_MAX_MARKS; i++)
        if (row->call[i] && row->call[i] != form->mark)
            form->others[n++] = row->call[i];
}

/* Makes the form of ROW, which has keys and values between marks, from its example. Each call has all marks. */
static bool make_values_form(const struct markup_calls *row, struct tool_calls_made *made)
{
    const char *e = row->example, *name = strstr(e, row->call[0]), *key, *value, *close;
    struct tool_calls_form *f = &made->form;
    size_t at = 0;

    if (!name || row->type_attribute || row->shapes & MARKUP_TREE || !markup_is_fixed(row->call[0]) ||
        (row->open[0] && !markup_is_fixed(row->open[0])))
        return false;
    name += strlen(row->call[0]);
    name += *name == '"';
    key = strstr(name, row->key_open[0]);
    value = key ? strstr(key, row->value_open ? row->value_open : row->key_end) : NULL;
    close = value ? strstr(value, row->call_close[0]) : NULL;
    if (!close || *name != 'f')
        return false;
    *f = (struct tool_calls_form){.name = row->name, .open = "", .close = "", .separator = "\n"};
    f->before = keep_text(made, &at, e, (size_t)(name - e));
    f->between = keep_text(made, &at, name + 1, (size_t)(key - name) - 1);
    name = key;
    key += strlen(row->key_open[0]);
    key += *key == '"';
    f->key_before = keep_text(made, &at, name, (size_t)(key - name));
    value += strcspn(value, "1");
    f->key_between = keep_text(made, &at, key + 1, (size_t)(value - key) - 1);
    f->value_after = keep_text(made, &at, value + 1, (size_t)(close - value) - 1);
    f->after = keep_text(made, &at, close, strlen(close));
    f->value_marks[0] = row->value_close;
    f->value_marks[1] = "<![CDATA[";
    f->mark = row->open[0] ? row->open[0] : row->call[0];
    add_others(row, f);
    return true;
}

/* Makes the form of ROW from its example. */
static bool make_form(const struct markup_calls *row, struct tool_calls_made *made)
{
    const char *e = row->example, *end = e + strlen(e), *arguments_end;
    struct tool_calls_form *f = &made->form;
    struct parts p;
    bool is_list, is_named = row->shapes & MARKUP_NAMED;
    size_t at = 0;

    if (row->shapes & MARKUP_XML)
        return make_values_form(row, made);
    if (!find_parts(row, &p))
        return false;
    is_list = !is_named && p.item > e && p.item[-1] == '[';
    if (!is_list && !(is_named && row->open[0])) { /* each call has all marks */
        p.item = e;
        p.behind = end;
    }
    arguments_end = p.arguments + strlen(example_arguments);
    *f = (struct tool_calls_form){.name = row->name, .is_json_name = !is_named};
    f->open = keep_text(made, &at, e, (size_t)(p.item - e));
    f->before = keep_text(made, &at, p.item, (size_t)(p.name - p.item));
    f->between = keep_text(made, &at, p.name + 1, (size_t)(p.arguments - p.name) - 1);
    f->after = keep_text(made, &at, arguments_end, (size_t)(p.behind - arguments_end));
    f->close = keep_text(made, &at, p.behind, (size_t)(end - p.behind));
    f->separator = is_list ? ", " : is_named ? "" : "\n";
    if (row->bare)
        f->bare = keep_text(made, &at, &row->bare, 1);
    else
        f->mark = row->open[0] ? row->open[0] : row->call[0];
    add_others(row, f);
    return true;
}

const struct tool_calls_form *tool_calls_form_named(const char *name, struct tool_calls_made *made)
{
    const struct markup_calls *row = markup_calls_named(name);

    for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++)
        if (strcmp(forms[i].name, name) == 0)
            return &forms[i];
    return row && make_form(row, made) ? &made->form : NULL;
}

/* The state of writing the grammar of one answer. */
struct writer {
    struct grammar *g;
    const struct token_trie *trie;
    const struct tool_calls *calls;
    const struct tool_calls_form *form;
    uint32_t function; /* expression of a call of any function, from the function's name on */
};

static uint32_t literal(struct regex_store *s, const char *text)
{
    return regex_literal(s, text, strlen(text));
}

static uint32_t mark(const struct writer *w, const char *text)
{
    return preface_mark(&w->g->regex, w->trie, text);
}

static uint32_t text_of(const struct writer *w, const char *text)
{
    return grammar_term(w->g, mark(w, text));
}

/* ---- functions ---- */

/* Returns the expression of the function name NAME in FORM: plain, or escaped as in a JSON string. */
static uint32_t name_text(struct grammar *g, const struct tool_calls_form *form, const char *name)
{
    static const char hex[] = "0123456789abcdef";
    uint32_t x = REGEX_EMPTY;

    if (!form->is_json_name)
        return grammar_text(g, name);
    for (; *name; name++) {
        char escaped[7] = {'\\', *name}, plain[2] = {*name};
        unsigned char c = (unsigned char)*name;

        if (c < 0x20)
            memcpy(escaped, (char[]){'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15], 0}, sizeof(escaped));
        x = regex_concat(&g->regex, x,
                         literal(&g->regex, c < 0x20 || c == '"' || c == '\\' ? escaped : plain));
    }
    return grammar_term(g, x);
}

/* Returns whether a parser of FORM can find the end of the function name NAME. */
static bool is_writable(const struct tool_calls_form *form, const char *name)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";

    return form->is_json_name || strspn(name, plain) == strlen(name);
}

/* ---- arguments that are no JSON ---- */

/* Sets *OUT to the expression of a string as the schema V says: text, or one of the texts of `enum`. Returns false if
 * V has a keyword that a text without quotes cannot obey. */
static bool text_value(const struct writer *w, const json_t *v, uint32_t *out)
{
    static const char *const harmless[] = {"type", "description", "title", "default", "examples", "enum"};
    struct regex_store *s = &w->g->regex;
    uint32_t marks = REGEX_NOTHING, x = REGEX_NOTHING;
    const char *keyword;
    json_t *member;
    size_t i;

    json_object_foreach((json_t *)(uintptr_t)v, keyword, member)
    {
        bool is_harmless = false;

        for (size_t k = 0; k < sizeof(harmless) / sizeof(*harmless); k++)
            is_harmless |= strcmp(keyword, harmless[k]) == 0;
        if (!is_harmless)
            return false;
    }
    for (size_t k = 0; k < 2; k++)
        marks = regex_or(s, marks, literal(s, w->form->value_marks[k]));
    json_array_foreach(json_object_get(v, "enum"), i, member)
    {
        const char *text = json_string_value(member);

        if (!text || !*text || strstr(text, w->form->value_marks[0]) ||
            strlen(text) != json_string_length(member))
            return false;
        x = regex_or(s, x, literal(s, text));
    }
    *out = grammar_term(w->g, i ? x : free_text(s, marks));
    return true;
}

/* Returns whether V, or a schema within it, refers to another one, or has a text with the mark CLOSE. */
static bool is_beyond(const json_t *v, const char *close, int depth)
{
    const char *key;
    json_t *member;
    size_t i;
    bool found = depth > 64 || json_object_get(v, "$ref") || json_object_get(v, "$dynamicRef") ||
                 (json_is_string(v) && strstr(json_string_value(v), close));

    json_object_foreach((json_t *)(uintptr_t)v, key, member) found =
        found || strstr(key, close) || is_beyond(member, close, depth + 1);
    json_array_foreach(v, i, member) found = found || is_beyond(member, close, depth + 1);
    return found;
}

/* Sets *OUT to the expression of a value of the parameter KEY of FUNCTION, whose schema is V. */
static int add_value(const struct writer *w, const struct tool_calls_function *function, const char *key,
                     const json_t *v, tool_calls_schema *schema, void *context, uint32_t *out, struct err *e)
{
    const char *type = json_string_value(json_object_get(v, "type"));
    struct tool_calls_function value = *function;

    value.parameters = v;
    value.value_close = w->form->value_marks[0];
    if (type && !is_beyond(v, value.value_close, 0) && strcspn(key, "<>\"'& \t\r\n\\") == strlen(key)) {
        if (strcmp(type, "string") != 0)
            return schema(context, w->g, &value, out, e);
        if (text_value(w, v, out))
            return 0;
    }
    return err_set(
        e, ERR_UNSUPPORTED,
        "the parameter \"%.100s\" cannot be enforced in this model's markup; expected one type, and of a "
        "string no keyword but `enum`",
        key);
}

/* Returns the expression of KEY, an expression, and VALUE with the marks around them. */
static uint32_t member_of(const struct writer *w, uint32_t key, uint32_t value)
{
    struct grammar *g = w->g;
    uint32_t x = grammar_sequence(g, value, text_of(w, w->form->value_after));

    x = grammar_sequence(g, key, grammar_sequence(g, text_of(w, w->form->key_between), x));
    return grammar_sequence(g, text_of(w, w->form->key_before), x);
}

/* Returns the expression of any keys with any texts. */
static uint32_t any_values(const struct writer *w)
{
    static const char name[] = "[A-Za-z0-9_.-]+";
    struct regex_store *s = &w->g->regex;
    uint32_t key = REGEX_NOTHING, marks = REGEX_NOTHING;

    pattern_read(s, name, strlen(name), regex_characters, PATTERN_WHOLE, &key, NULL);
    for (size_t k = 0; k < 2; k++)
        marks = regex_or(s, marks, literal(s, w->form->value_marks[k]));
    return grammar_repeat(w->g,
                          member_of(w, grammar_term(w->g, key), grammar_term(w->g, free_text(s, marks))), 0,
                          GRAMMAR_NO_LIMIT);
}

/* Sets *OUT to a new object whose members are the required parameters of F, each of which must have a schema. */
static int read_required(const struct tool_calls_function *f, json_t **out, struct err *e)
{
    const json_t *properties = json_object_get(f->parameters, "properties"), *name;
    size_t i;

    *out = json_object();
    json_array_foreach(json_object_get(f->parameters, "required"), i, name)
    {
        const char *key = json_string_value(name);

        if (!key || !json_object_get(properties, key))
            return err_set(e, ERR_UNSUPPORTED,
                           "the required parameter \"%.100s\" is not among the properties", key ? key : "");
        if (json_object_set_new(*out, key, json_true()) != 0)
            return err_nomem(e, "tool calls");
    }
    return *out ? 0 : err_nomem(e, "tool calls");
}

/* Sets *OUT to the expression of the arguments of F as keys and values: all required parameters and any others, in the
 * order of the schema. */
static int add_values(const struct writer *w, const struct tool_calls_function *f, tool_calls_schema *schema,
                      void *context, uint32_t *out, struct err *e)
{
    static const char *const others[] = {"$ref",
                                         "anyOf",
                                         "oneOf",
                                         "allOf",
                                         "if",
                                         "not",
                                         "patternProperties",
                                         "dependentRequired",
                                         "dependentSchemas",
                                         "minProperties"};
    const json_t *properties = json_object_get(f->parameters, "properties");
    struct grammar *g = w->g;
    uint32_t x = GRAMMAR_END, value;
    const char *key;
    json_t *v, *required;
    int code;

    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
        if (json_object_get(f->parameters, others[i]))
            return err_set(e, ERR_UNSUPPORTED, "`%s` of parameters cannot be enforced in this model's markup",
                           others[i]);
    code = read_required(f, &required, e);
    if (!properties && !json_is_false(json_object_get(f->parameters, "additionalProperties")))
        x = any_values(w);
    json_object_foreach((json_t *)(uintptr_t)properties, key, v)
    {
        code = code ? code : add_value(w, f, key, v, schema, context, &value, e);
        if (code)
            break;
        value = member_of(w, grammar_text(g, key), value);
        x = grammar_sequence(g, x,
                             json_object_get(required, key) ? value : grammar_either(g, GRAMMAR_END, value));
    }
    json_decref(required);
    *out = x;
    return code;
}

/* Sets *OUT to the expression of a tool call of function I: a harmony message, or the function's name, the
 * text BETWEEN, the arguments and the text AFTER of the form. */
static int add_function(const struct writer *w, size_t i, tool_calls_schema *schema, void *context,
                        uint32_t *out, struct err *e)
{
    const struct tool_calls_function *f = &w->calls->function[i];
    struct grammar *g = w->g;
    uint32_t arguments = GRAMMAR_NEVER, name;
    int code = 0;

    *out = GRAMMAR_NEVER;
    if (!is_writable(w->form, f->name))
        code = err_set(
            e, ERR_UNSUPPORTED,
            "the name has other characters than letters, digits, _, - and ., which this model's markup "
            "cannot write");
    if (code == 0)
        code = w->form->key_before ? add_values(w, f, schema, context, &arguments, e)
                                   : schema(context, g, f, &arguments, e);
    if (code && code != ERR_NOMEM && e)
        err_prefix(e, "function \"%s\"", f->name);
    if (code)
        return code;
    name = name_text(g, w->form, f->name);
    if (w->form->has_channels)
        *out = grammar_sequence(g, preface_call_header(g, w->trie, name), arguments);
    else
        *out = grammar_sequence(g, name,
                                grammar_sequence(g, text_of(w, w->form->between),
                                                 grammar_sequence(g, arguments, text_of(w, w->form->after))));
    return 0;
}

static int add_functions(struct writer *w, tool_calls_schema *schema, void *context, struct err *e)
{
    uint32_t *of = mem_zalloc(w->calls->n, sizeof(*of), MEM_TEXT);
    int code = of ? 0 : err_nomem(e, "a grammar of tool calls");

    for (size_t i = 0; i < w->calls->n && code == 0; i++)
        code = add_function(w, i, schema, context, &of[i], e);
    w->function = code ? GRAMMAR_NEVER : grammar_choice(w->g, of, w->calls->n);
    mem_free(of);
    return code;
}

/* ---- answers ---- */

/* Returns the expression of one tool call or, if IS_PARALLEL, of one or more. The first SKIPPED bytes of the
 * form's texts OPEN and BEFORE are omitted, because the caller has already matched them. */
static uint32_t some_calls(const struct writer *w, size_t skipped, bool is_parallel)
{
    const struct tool_calls_form *form = w->form;
    struct grammar *g = w->g;
    size_t in_open = strlen(form->open) < skipped ? strlen(form->open) : skipped;
    uint32_t more, x = grammar_sequence(g, text_of(w, form->before + (skipped - in_open)), w->function);

    if (is_parallel) {
        more = grammar_sequence(g, text_of(w, form->separator),
                                grammar_sequence(g, text_of(w, form->before), w->function));
        x = grammar_sequence(g, x, grammar_repeat(g, more, 0, GRAMMAR_NO_LIMIT));
    }
    return grammar_sequence(g, text_of(w, form->open + in_open),
                            grammar_sequence(g, x, text_of(w, form->close)));
}

/* Returns the expression of an answer that consists of tool calls only. */
static uint32_t whole(const struct writer *w)
{
    uint32_t x = some_calls(w, 0, w->calls->is_parallel);

    if (!w->form->optional)
        return x;
    return grammar_sequence(w->g, grammar_either(w->g, GRAMMAR_END, text_of(w, w->form->optional)), x);
}

uint32_t tool_calls_marks(struct regex_store *s, const struct tool_calls_form *form)
{
    uint32_t marks = REGEX_NOTHING, excluded = REGEX_NOTHING;

    if (form->mark)
        marks = literal(s, form->mark);
    if (form->optional)
        marks = regex_or(s, marks, literal(s, form->optional));
    if (form->excluded && pattern_read(s, form->excluded, strlen(form->excluded), regex_characters,
                                       PATTERN_WHOLE, &excluded, NULL) != 0)
        return REGEX_NOTHING; /* these patterns are constants, so only a fault of the store gets here */
    for (size_t i = 0; i < TOOL_CALLS_OTHERS && form->others[i]; i++)
        marks = regex_or(s, marks, literal(s, form->others[i]));
    return regex_or(s, marks, excluded);
}

/* Returns the expression of an answer that is either tool calls, or text that does not begin with `bare`. */
static uint32_t whole_or_text(const struct writer *w)
{
    struct regex_store *s = &w->g->regex;
    uint32_t blank = regex_repeat(s, regex_or(s, regex_range(s, '\t', '\r'), regex_range(s, ' ', ' ')), 0,
                                  REGEX_NO_LIMIT),
             bare = regex_concat(s, blank, regex_concat(s, literal(s, w->form->bare), REGEX_ANYTHING)),
             text = free_text(s, tool_calls_marks(s, w->form));

    return grammar_either(w->g, whole(w), grammar_term(w->g, regex_and(s, text, regex_not(s, bare))));
}

/* Returns the expression of free text that contains tool calls. A mark precedes each tool call. */
static uint32_t among_text(const struct writer *w)
{
    struct grammar *g = w->g;
    struct regex_store *s = &g->regex;
    const struct tool_calls_form *form = w->form;
    bool is_repeated = w->calls->is_parallel && !*form->close && !form->is_last;
    uint32_t text = free_text(s, tool_calls_marks(s, form)), rule = grammar_rule(g),
             until = grammar_term(g, regex_concat(s, text, mark(w, form->mark))),
             calls = some_calls(w, strlen(form->mark), w->calls->is_parallel && !is_repeated),
             more = form->is_last           ? GRAMMAR_END
                    : w->calls->is_parallel ? grammar_call(g, rule)
                                            : grammar_term(g, text);

    /* Each further tool call begins with the mark again, except inside a list, which `close` ends. */
    grammar_define(g, rule,
                   grammar_either(g, grammar_term(g, text),
                                  grammar_sequence(g, until, grammar_sequence(g, calls, more))));
    return grammar_call(g, rule);
}

/* Returns the expression of harmony messages. The last message is a tool call or, if tool calls are optional, a
 * message of the channel `final`. */
static uint32_t among_messages(const struct writer *w)
{
    struct grammar *g = w->g;
    bool has_content = w->calls->content != GRAMMAR_NEVER;
    uint32_t x = w->function, content;

    if (w->calls->is_free) {
        content = has_content ? w->calls->content : preface_message_text(g);
        x = grammar_either(g, x, preface_final(g, w->trie, content));
    }
    return preface_messages(g, w->trie, w->calls->is_free && !has_content, x);
}

int tool_calls_grammar(struct grammar *g, const struct tool_calls *calls, const struct token_trie *trie,
                       tool_calls_schema *schema, void *context, uint32_t *start, struct err *e)
{
    struct writer w = {.g = g, .trie = trie, .calls = calls, .form = calls->form};
    int code = add_functions(&w, schema, context, e);
    uint32_t x;

    *start = GRAMMAR_NEVER;
    if (code)
        return code;
    if (w.form->has_channels)
        x = among_messages(&w);
    else if (!calls->is_free)
        x = whole(&w);
    else if (calls->content != GRAMMAR_NEVER)
        x = grammar_either(g, whole(&w), calls->content);
    else
        x = w.form->mark ? among_text(&w) : whole_or_text(&w);
    code = grammar_fault(g, e);
    *start = code ? GRAMMAR_NEVER : x;
    return code;
}

/* ---- from JSON ---- */

static int read_function(const json_t *v, size_t i, struct tool_calls_function *out, struct err *e)
{
    const json_t *name = json_object_get(v, "name"), *parameters = json_object_get(v, "parameters");

    if (!json_is_string(name) || json_string_length(name) == 0 ||
        strlen(json_string_value(name)) != json_string_length(name))
        return err_set(e, ERR_INPUT, "functions[%zu].name: expected a text that is not empty", i);
    if (parameters && !json_is_object(parameters))
        return err_set(e, ERR_INPUT, "functions[%zu].parameters: expected a JSON Schema, an object", i);
    *out = (struct tool_calls_function){.name = json_string_value(name),
                                        .parameters = parameters,
                                        .pointer = json_string_value(json_object_get(v, "pointer")),
                                        .is_lax = json_is_false(json_object_get(v, "strict"))};
    return 0;
}

int tool_calls_read(struct grammar *g, const json_t *v, const struct token_trie *trie,
                    tool_calls_schema *schema, void *context, struct tool_calls *calls, uint32_t *start,
                    struct err *e)
{
    const char *markup = json_string_value(json_object_get(v, "markup"));
    const json_t *list = json_object_get(v, "functions");
    struct tool_calls_function *function;
    int code = 0;

    *start = GRAMMAR_NEVER;
    calls->form = markup ? tool_calls_form_named(markup, &calls->made) : NULL;
    calls->n = json_array_size(list);
    calls->is_free = !json_is_true(json_object_get(v, "required"));
    calls->is_parallel = json_is_true(json_object_get(v, "parallel"));
    if (!calls->form)
        return err_set(e, ERR_INPUT, "markup: expected the name of a tool call parser");
    if (calls->n == 0)
        return err_set(e, ERR_INPUT, "functions: expected a list of one or more functions");
    calls->function = function = mem_zalloc(calls->n, sizeof(*function), MEM_TEXT);
    if (!function)
        return err_nomem(e, "a grammar of tool calls");
    for (size_t i = 0; i < calls->n && code == 0; i++)
        code = read_function(json_array_get(list, i), i, &function[i], e);
    code = code ? code : tool_calls_grammar(g, calls, trie, schema, context, start, e);
    mem_free(function);
    calls->function = NULL;
    return code;
}
