/* tool_calls.c - the table of tool call formats, and a grammar for each. */
#include "text/grammar/tool_calls.h"

#include <string.h>

#include "base/mem.h"
#include "text/grammar/automata/pattern.h"
#include "text/grammar/free_text.h"
#include "text/grammar/preface.h"

static const struct tool_calls_form forms[] = {
    {.name = "hermes",
     .open = "",
     .before = "<tool_call>\n{\"name\": \"",
     .between = "\", \"arguments\": ",
     .after = "}\n</tool_call>",
     .separator = "\n",
     .close = "",
     .is_json_name = true,
     .mark = "<tool_call>"},
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

const struct tool_calls_form *tool_calls_form_named(const char *name)
{
    for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++)
        if (strcmp(forms[i].name, name) == 0)
            return &forms[i];
    return NULL;
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
    code = code ? code : schema(context, g, f, &arguments, e);
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
    calls->form = markup ? tool_calls_form_named(markup) : NULL;
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
