/* calls.h - builds the constraint on tool calls in the answer, from tool_choice, parallel_tool_calls and
 * the member `strict` of functions.
 */
#ifndef GALLOP_CHAT_PREPARE_CALLS_H
#define GALLOP_CHAT_PREPARE_CALLS_H

#include <stddef.h>

struct err;
struct request;

/* Sets q->structured.tool_calls if Q has tools and at least one of these holds: Q forces tool calls, limits
 * them to some functions, has functions with `strict`, or constrains the answer by a different field. Call it
 * after choose_structured(). ERR_INPUT, ERR_UNSUPPORTED: the subject of *E is the field; ERR_NOMEM. */
int calls_choose(struct request *q, struct err *e);

/* Sets the members of q->structured that say where in the answer the constraint begins: after reasoning, or
 * in a message of harmony. ERR_UNSUPPORTED: the rendered PROMPT [n] ends inside a message of harmony. */
int calls_place(struct request *q, const char *prompt, size_t n, struct err *e);

#endif
