/* tool_calls.c - the table of forms of tool calls, and the grammars for them. */
#include "text/grammar/tool_calls.h"

#include <string.h>

#include "base/mem.h"
#include "text/grammar/free_text.h"

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
     .mark = "[TOOL_CALLS]"},
    {.name = "mistral_list",
     .open = "[TOOL_CALLS][",
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
     .excluded = "<|tool_call|>"},
    {.name = "openai",
     .open = "",
     .before = "<|channel|>commentary to=functions.",
     .between = " <|constrain|>json<|message|>",
     .after = "<|call|>",
     .close = "",
     .mark = "<|channel|>commentary to=functions.",
     .excluded = "<|start|>assistant to=functions."},
};

const struct tool_calls_form *tool_calls_form_named(const char *name)
{
    for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++)
        if (strcmp(forms[i].name, name) == 0)
            return &forms[i];
    return NULL;
}

static uint32_t text_regex(struct grammar *g, const char *text)
{
    return regex_literal(&g->regex, text, strlen(text));
}

/* Returns NAME in the spelling of FORM. */
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
        x = regex_concat(&g->regex, x, text_regex(g, c < 0x20 || c == '"' || c == '\\' ? escaped : plain));
    }
    return grammar_term(g, x);
}

/* Sets *OUT to "NAME BETWEEN arguments AFTER" for one of the functions. */
static int add_functions(struct grammar *g, const struct tool_calls_form *form,
                         const struct tool_calls_function *function, size_t n, tags_schema *schema,
                         void *context, uint32_t *out, struct err *e)
{
    uint32_t *of = mem_zalloc(n, sizeof(*of), MEM_TEXT);
    json_t *any = json_pack("{s:s}", "type", "object");
    int code = of && any ? 0 : err_nomem(e, "a grammar of tool calls");

    for (size_t i = 0; i < n && code == 0; i++) {
        uint32_t arguments = GRAMMAR_NEVER;

        code = schema(context, g, function[i].parameters ? function[i].parameters : any, &arguments, e);
        if (code && code != ERR_NOMEM && e)
            err_prefix(e, "function \"%s\"", function[i].name);
        of[i] =
            grammar_sequence(g, name_text(g, form, function[i].name),
                             grammar_sequence(g, grammar_text(g, form->between),
                                              grammar_sequence(g, arguments, grammar_text(g, form->after))));
    }
    *out = code ? GRAMMAR_NEVER : grammar_choice(g, of, n);
    json_decref(any);
    mem_free(of);
    return code;
}

/* Returns one or (IS_PARALLEL) more tool calls, without the first SKIPPED bytes of OPEN and BEFORE. */
static uint32_t calls(struct grammar *g, const struct tool_calls_form *form, uint32_t function,
                      size_t skipped, bool is_parallel)
{
    size_t in_open = strlen(form->open) < skipped ? strlen(form->open) : skipped;
    uint32_t more, x = grammar_sequence(g, grammar_text(g, form->before + (skipped - in_open)), function);

    if (is_parallel && form->separator) {
        more = grammar_sequence(g, grammar_text(g, form->separator),
                                grammar_sequence(g, grammar_text(g, form->before), function));
        x = grammar_sequence(g, x, grammar_repeat(g, more, 0, GRAMMAR_NO_LIMIT));
    }
    return grammar_sequence(g, grammar_text(g, form->open + in_open),
                            grammar_sequence(g, x, grammar_text(g, form->close)));
}

/* Returns tool calls as the whole answer. */
static uint32_t whole(struct grammar *g, const struct tool_calls_form *form, uint32_t function,
                      bool is_parallel)
{
    uint32_t x = calls(g, form, function, 0, is_parallel);

    if (!form->optional)
        return x;
    return grammar_sequence(g, grammar_either(g, GRAMMAR_END, grammar_text(g, form->optional)), x);
}

/* Returns tool calls as the whole answer, or a text that does not begin like one. */
static uint32_t whole_or_text(struct grammar *g, const struct tool_calls_form *form, uint32_t function,
                              bool is_parallel)
{
    struct regex_store *s = &g->regex;
    uint32_t blank = regex_repeat(s, regex_or(s, regex_range(s, '\t', '\r'), regex_range(s, ' ', ' ')), 0,
                                  REGEX_NO_LIMIT),
             bare = regex_concat(s, blank, regex_concat(s, text_regex(g, form->bare), REGEX_ANYTHING)),
             marks = form->optional ? text_regex(g, form->optional) : REGEX_NOTHING;

    return grammar_either(g, whole(g, form, function, is_parallel),
                          grammar_term(g, regex_and(s, free_text(s, marks), regex_not(s, bare))));
}

/* Returns free text in which each mark begins tool calls. */
static uint32_t among_text(struct grammar *g, const struct tool_calls_form *form, uint32_t function,
                           bool is_parallel)
{
    struct regex_store *s = &g->regex;
    uint32_t mark = text_regex(g, form->mark),
             excluded = form->excluded ? text_regex(g, form->excluded) : REGEX_NOTHING,
             until = grammar_term(g, free_text_until(s, mark, mark, excluded)),
             text = grammar_term(g, free_text(s, regex_or(s, mark, excluded))), rule = grammar_rule(g),
             more = is_parallel && form->separator ? grammar_call(g, rule) : text;

    /* A further tool call begins with the mark again, unless the form has a list of tool calls. */
    grammar_define(
        g, rule,
        grammar_either(
            g, text,
            grammar_sequence(
                g, until,
                grammar_sequence(g, calls(g, form, function, strlen(form->mark), is_parallel && *form->close),
                                 form->separator ? more : GRAMMAR_END))));
    return grammar_call(g, rule);
}

int tool_calls_grammar(struct grammar *g, const struct tool_calls_form *form,
                       const struct tool_calls_function *function, size_t n,
                       const struct tool_calls_options *o, tags_schema *schema, void *context,
                       uint32_t *start, struct err *e)
{
    uint32_t x;
    int code = add_functions(g, form, function, n, schema, context, &x, e);

    *start = GRAMMAR_NEVER;
    if (code)
        return code;
    if (!o->is_free)
        x = whole(g, form, x, o->is_parallel);
    else if (form->mark)
        x = among_text(g, form, x, o->is_parallel);
    else
        x = whole_or_text(g, form, x, o->is_parallel);
    code = grammar_fault(g, e);
    *start = code ? GRAMMAR_NEVER : x;
    return code;
}
