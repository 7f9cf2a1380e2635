/* tool_calls.h - grammars of answers that call functions: one or several tool calls in the markup of a model,
 * whose arguments are valid under the functions' schemas.
 *
 * All marks are plain text here. Whether some are special tokens is the matter of whoever turns the grammar into
 * masks of tokens. Reasoning in front of an answer is not part of these grammars.
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
    const char *name; /* of the parser (docs/TOOLS.md), and of its spelling where there are two */
    const char *open, *before, *between, *after;
    const char *separator; /* between two tool calls; NULL: an answer has one */
    const char *close;
    bool is_json_name; /* the name stands in a JSON string */
    /* Where a model may choose to call a function: text is free until MARK, with which OPEN and BEFORE begin, and
     * free again behind the tool calls. NULL: tool calls are the whole answer, which begins with BARE then. */
    const char *mark;
    const char *bare;     /* a text that does not begin so (behind white space) is no tool call; or NULL */
    const char *optional; /* a mark that may stand before OPEN, or NULL */
    const char *excluded; /* stands in no free text: another way to begin a tool call; or NULL */
};

/* The form called NAME: hermes, llama3_json, mistral, mistral_list, phi4_mini_json, openai. NULL: none is. */
const struct tool_calls_form *tool_calls_form_named(const char *name);

struct tool_calls_function {
    const char *name;
    const json_t *parameters; /* a JSON Schema; NULL: any object */
};

struct tool_calls_options {
    bool is_free;     /* the answer may be, or have, text beside tool calls (tool_choice auto) */
    bool is_parallel; /* there may be several tool calls, where the form knows that */
};

/* Adds to G the answers that call FUNCTION [n], at least once or, if O->is_free, at will. *START is their
 * expression. SCHEMA reads the functions' schemas. An error names the function. */
int tool_calls_grammar(struct grammar *g, const struct tool_calls_form *form,
                       const struct tool_calls_function *function, size_t n,
                       const struct tool_calls_options *o, tags_schema *schema, void *context,
                       uint32_t *start, struct err *e);

#endif
