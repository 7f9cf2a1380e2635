/* tool_calls.h - grammars of answers with tool calls. The calls use the markup of the model, and their arguments
 * are valid under the functions' JSON Schemas.
 *
 * A mark that is a control token of the vocabulary must be generated as this token; other marks may be generated
 * as any tokens with the same text. These grammars include harmony's messages, but no reasoning between marks
 * (preface.h adds it).
 */
#ifndef GALLOP_TEXT_GRAMMAR_TOOL_CALLS_H
#define GALLOP_TEXT_GRAMMAR_TOOL_CALLS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "text/grammar/automata/grammar.h"
#include "text/grammar/token_trie.h"
#include "text/markup/markup.h"

/* How a model writes tool calls: a row of the table of markup (markup.h), and values derived from the row. */
struct tool_calls_markup {
    const struct markup_calls *row;
    const char *name;          /* name of the row; NULL: no markup */
    const char *separator;     /* text between two parallel tool calls */
    const char *comma, *quote; /* separator of values that are not JSON, and the mark around their strings */
    /* The prefix of the row's texts OPEN and BEFORE that announces tool calls. Free text is allowed before the mark
     * and after the tool calls. NULL: an answer is either tool calls or text, and the row's BARE tells them apart. */
    const char *mark;
    /* Nothing may follow tool calls: they have no closing mark, so a parser would take text after them for another
     * call. */
    bool is_last;
    const char *spaced;     /* free text must not contain this text followed by blanks and '['; or NULL */
    const char *value_mark; /* the mark that ends or changes a value, cut before MARKUP_ANY */
};

/* Sets *MARKUP to that of the row called NAME. Returns false if there is no such row. */
bool tool_calls_markup_named(const char *name, struct tool_calls_markup *markup);

struct tool_calls_function {
    const char *name;
    const json_t *parameters; /* JSON Schema of the arguments; NULL: any object */
    const char *pointer;      /* JSON pointer to PARAMETERS in the request, for error messages; or NULL */
    /* If not NULL, PARAMETERS are the schema of a single value of any type, whose strings must not contain this mark */
    const char *value_close;
    bool is_lax; /* unsupported keywords are ignored with a warning instead of refused */
};

/* The functions that an answer may call, and whether and how often it must call them. */
struct tool_calls {
    struct tool_calls_markup markup;
    const struct tool_calls_function *function; /* [n] */
    size_t n;
    bool is_free;     /* text beside or instead of tool calls is allowed (tool_choice auto) */
    bool is_parallel; /* several tool calls are allowed, if the markup supports them */
    /* If IS_FREE, the grammar expression of an answer without tool calls. GRAMMAR_NEVER: any text. */
    uint32_t content;
};

/* Adds a grammar of FUNCTION's arguments to G, and sets *START to its expression. Returns 0 or an error code. */
typedef int tool_calls_schema(void *context, struct grammar *g, const struct tool_calls_function *function,
                              uint32_t *start, struct err *e);

/* Adds a grammar of answers with tool calls to G, and sets *START to its expression. At least one tool call is
 * required unless CALLS->is_free. SCHEMA compiles the functions' parameters. TRIE contains the control tokens; NULL:
 * there are none. Returns ERR_UNSUPPORTED also if the markup cannot express a function's name. Error messages name
 * the function. */
int tool_calls_grammar(struct grammar *g, const struct tool_calls *calls, const struct token_trie *trie,
                       tool_calls_schema *schema, void *context, uint32_t *start, struct err *e);

/* Returns the regular expression of the marks that announce tool calls of FORM, as plain text. */
uint32_t tool_calls_marks(struct regex_store *s, const struct tool_calls_markup *markup);

/* Reads CALLS from the JSON object V, and then does what tool_calls_grammar() does. V is
 *
 *     {"markup": name of a row, "functions": [{"name", "parameters", "strict", "pointer"}], "required", "parallel"}
 *
 * A function without "parameters" accepts any object, and one with "strict": false is lax. "required" and "parallel"
 * are booleans (default: false). The caller sets CALLS->content; this function sets the other members, and frees the
 * array of functions before it returns. Returns ERR_INPUT if V does not have this form. */
int tool_calls_read(struct grammar *g, const json_t *v, const struct token_trie *trie,
                    tool_calls_schema *schema, void *context, struct tool_calls *calls, uint32_t *start,
                    struct err *e);

#endif
