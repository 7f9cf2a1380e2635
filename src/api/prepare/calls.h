/* calls.h - what the tool calls of a request must look like: tool_choice, parallel_tool_calls and functions with
 * `strict`.
 */
#ifndef GALLOP_API_PREPARE_CALLS_H
#define GALLOP_API_PREPARE_CALLS_H

#include <stddef.h>

struct err;
struct request;

/* Sets the member tool_calls of q->structured, after choose_structured(), where Q forces tool calls, limits them to
 * some functions, has functions with `strict`, or constrains its answers in another way beside tools. ERR_INPUT,
 * ERR_UNSUPPORTED: the subject of *E is the field; ERR_NOMEM. */
int calls_choose(struct request *q, struct err *e);

/* Sets the members of q->structured that say where the constraint begins in the answer to PROMPT [n], which ends
 * inside reasoning, or before it. ERR_UNSUPPORTED: PROMPT ends inside a message of harmony. */
int calls_place(struct request *q, const char *prompt, size_t n, struct err *e);

#endif
