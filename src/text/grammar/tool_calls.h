/* tool_calls.h - grammars of answers with tool calls in the markup of a model, whose arguments are valid
 * under the functions' schemas.
 *
 * All marks are plain text here; the caller that turns a grammar into token masks handles marks that are
 * special tokens. Reasoning before an answer is not part of these grammars.
 */
#ifndef GALLOP_TEXT_GRAMMAR_TOOL_CALLS_H
#define GALLOP_TEXT_GRAMMAR_TOOL_CALLS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "text/grammar/automata/grammar.h"
#include "text/grammar/tags.h"

/* How a model writes tool calls:
 *
 *     OPEN (BEFORE name BETWEEN arguments AFTER) SEPARATOR (BEFORE name ...) CLOSE
 */
struct tool_calls_form {
    /* The name of the parser (docs/TOOLS.md) and, if it has several spellings, of the spelling. */
    const char *name;
    const char *open, *before, *between, *after;
    const char *separator; /* between two tool calls; NULL: an answer has at most one */
    const char *close;
    bool is_json_name; /* the name is inside a JSON string and must be escaped */
    /* The prefix of OPEN and BEFORE that begins tool calls in free text; text is free before the mark and
     * after the tool calls. NULL: tool calls are the whole answer, and BARE is set. */
    const char *mark;
    const char *bare;     /* a text that begins with BARE after white space must be a tool call; or NULL */
    const char *optional; /* a mark that may precede OPEN, or NULL */
    /* Must not occur in free text, because it begins tool calls in another spelling; or NULL. */
    const char *excluded;
};

/* Returns the form hermes, llama3_json, mistral, mistral_list, phi4_mini_json or openai; else NULL. */
const struct tool_calls_form *tool_calls_form_named(const char *name);

struct tool_calls_function {
    const char *name;
    const json_t *parameters; /* a JSON Schema; NULL: any object */
};

struct tool_calls_options {
    bool is_free;     /* text beside or instead of tool calls is allowed (tool_choice auto) */
    bool is_parallel; /* several tool calls are allowed, if the form supports them */
};

/* Adds the answers that call FUNCTION [n] to G, and sets *START to their expression. At least one tool call
 * is required unless O->is_free. SCHEMA compiles the functions' schemas. Error messages name the function. */
int tool_calls_grammar(struct grammar *g, const struct tool_calls_form *form,
                       const struct tool_calls_function *function, size_t n,
                       const struct tool_calls_options *o, tags_schema *schema, void *context,
                       uint32_t *start, struct err *e);

#endif
