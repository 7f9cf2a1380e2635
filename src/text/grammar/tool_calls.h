/* tool_calls.h - grammars of answers with tool calls in the markup of a model, whose arguments are valid
 * under the functions' schemas.
 *
 * A mark that is a control token of the vocabulary is that token; other marks are spelled out. Reasoning between
 * marks is not part of these grammars (preface.h); the messages of harmony are.
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

/* How a model writes tool calls:
 *
 *     OPEN (BEFORE name BETWEEN arguments AFTER) SEPARATOR (BEFORE name ...) CLOSE
 *
 * A tab stands for a blank that may be missing.
 */
struct tool_calls_form {
    /* The name of the parser (docs/TOOLS.md) and, if it has several spellings, of the spelling. */
    const char *name;
    const char *open, *before, *between, *after;
    const char *separator; /* between two tool calls */
    const char *close;
    bool is_json_name; /* the name is inside a JSON string and must be escaped */
    /* A tool call is a message of harmony, and an answer has at most one. The strings above are unused. */
    bool has_channels;
    /* The prefix of OPEN and BEFORE that begins tool calls in free text; text is free before the mark and
     * after the tool calls. NULL: tool calls are the whole answer, and BARE is set. */
    const char *mark;
    const char *bare;     /* a text that begins with BARE after white space must be a tool call; or NULL */
    const char *optional; /* a mark that may precede OPEN, or NULL */
    /* A regular expression that must not match in free text, because it begins tool calls in another
     * spelling; or NULL. */
    const char *excluded;
};

/* The form called NAME: hermes, llama3_json, mistral, mistral_list, phi4_mini_json, openai. NULL: none is. */
const struct tool_calls_form *tool_calls_form_named(const char *name);

struct tool_calls_function {
    const char *name;
    const json_t *parameters; /* a JSON Schema; NULL: any object */
    const char *pointer;      /* JSON pointer to PARAMETERS, for messages; or NULL */
    bool is_lax;              /* unsupported keywords are ignored with a warning instead of refused */
};

/* The functions that an answer may call, and in which way. */
struct tool_calls {
    const struct tool_calls_form *form;
    const struct tool_calls_function *function; /* [n] */
    size_t n;
    bool is_free;     /* text beside or instead of tool calls is allowed (tool_choice auto) */
    bool is_parallel; /* several tool calls are allowed, if the form supports them */
    /* With IS_FREE: the expression of answers without tool calls. GRAMMAR_NEVER: such answers are free text. */
    uint32_t content;
};

/* Adds the arguments of FUNCTION to G, and sets *START to their expression. Returns 0 or the code of an error. */
typedef int tool_calls_schema(void *context, struct grammar *g, const struct tool_calls_function *function,
                              uint32_t *start, struct err *e);

/* Adds the answers with CALLS to G, and sets *START to their expression. At least one tool call is required unless
 * CALLS are free. SCHEMA compiles the functions' parameters. TRIE has the control tokens; NULL: there are none.
 * ERR_UNSUPPORTED also where the markup cannot write a name. Error messages name the function. */
int tool_calls_grammar(struct grammar *g, const struct tool_calls *calls, const struct token_trie *trie,
                       tool_calls_schema *schema, void *context, uint32_t *start, struct err *e);

/* Returns the regular expression of the marks that begin tool calls of FORM, spelled out. */
uint32_t tool_calls_marks(struct regex_store *s, const struct tool_calls_form *form);

/* Does the same with CALLS from the JSON object V:
 *
 *     {"markup": name of a form, "functions": [{"name", "parameters", "strict", "pointer"}], "required", "parallel"}
 *
 * Functions without "parameters" take any object, "strict" false makes a function lax, and the last two are booleans
 * [false]. The caller sets CALLS->content; the other members are set here, and the functions are gone on return.
 * ERR_INPUT: V has another form. */
int tool_calls_read(struct grammar *g, const json_t *v, const struct token_trie *trie,
                    tool_calls_schema *schema, void *context, struct tool_calls *calls, uint32_t *start,
                    struct err *e);

#endif
