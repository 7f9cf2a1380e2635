/* constrain.h - where and how an answer with tools or reasoning is constrained: writes the constraint on tool calls in
 * the engine's format (struct gallop_structured_outputs), and says where in the answer constraints begin. */
#ifndef GALLOP_ENGINE_CONSTRAIN_H
#define GALLOP_ENGINE_CONSTRAIN_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text/markup/markup.h"
#include "text/markup/tools.h"

struct arena;
struct err;
struct gallop_request;
struct gallop_structured_outputs;
struct tok;

/* What a request says about tool calls. All pointers are borrowed. */
struct constrain_calls {
    const struct markup *markup;
    const char *template; /* source of the chat template; NULL: none */
    const json_t *tools;  /* functions in the chat format; NULL: none */
    /* If TOOLS were converted from another format: an array of objects, one for each tool, with `pointer`, the JSON
     * pointer to its schema in the request, and `strict` as the client sent it. NULL: TOOLS are as sent. */
    const json_t *origins;
    const json_t *names; /* names of the functions that tool_choice allows; NULL: all */
    enum tools_choice choice;
    bool is_parallel;
    /* name of the field of the request that constrains the text of the answer, for messages */
    const char *field;
};

/* Returns whether a tool of C has a `strict` that is neither null nor false. */
bool constrain_is_strict(const struct constrain_calls *c);

/* Sets s->tool_calls, allocated in A, if C has tools and at least one of these holds: tool calls are forced, or limited
 * to some functions, a function is strict, or S constrains the answer. It is not set if the model has no markup for
 * tool calls; forced or limited calls are then an error if the user has switched the parser of tool calls off.
 * ERR_INPUT, ERR_UNSUPPORTED: the subject of *E is the field; ERR_NOMEM. */
int constrain_calls(struct gallop_structured_outputs *s, const struct constrain_calls *c, struct arena *a,
                    struct err *e);

/* Sets the members of S that say where in the answer its constraint begins: after reasoning, or in a message of
 * harmony. R and CALLS are the markup of the answer; NULL: none. PLACE: whether the answer to PROMPT [n] begins before,
 * inside or after reasoning. ERR_UNSUPPORTED: the prompt ends inside a message of harmony. */
int constrain_place(struct gallop_structured_outputs *s, const struct markup_reasoning *r,
                    const struct markup_calls *calls, enum markup_place place, const char *prompt, size_t n,
                    struct err *e);

/* Sets the members of R that name the opening and closing strings of REASONING and of CALLS, as borrowed strings. PLACE
 * says where the answers begin. Either row may be NULL. If tool calls begin with more than a fixed string, their
 * strings are not set. */
void constrain_set_marks(const struct markup_reasoning *reasoning, const struct markup_calls *calls,
                         enum markup_place place, struct gallop_request *r);

/* Writes the ids of the tokens that end an answer after a tool call of CALLS to IDS, and returns their number. CALLS
 * and TOK may be NULL. */
size_t constrain_stop_tokens(const struct markup_calls *calls, const struct tok *tok,
                             int32_t ids[MARKUP_MAX_STOP]);

#endif
