/* prepare.h - the work on a request before the engine gets it: parse, render, tokenize, submit.
 *
 * prepare_read(), prepare_check(), prepare_prompts() and prepare_submit() are called in this order. Each returns 0, or
 * not 0 after it has set the status and the reply of the request, which is then answered or refused.
 */
#ifndef GALLOP_CHAT_PREPARE_PREPARE_H
#define GALLOP_CHAT_PREPARE_PREPARE_H

#include <stdbool.h>
#include <stddef.h>

#include "chat/request.h"

/* Reads BODY [n], a JSON object, into the fields of Q, and chooses its id. */
int prepare_read(struct request *q, const char *body, size_t n);

/* For callers that only return whole answers. Refuses Q if its body asks for a stream, and turns off streaming that is
 * the default of its API. Call it between prepare_read() and prepare_check(). */
int prepare_whole(struct request *q);

/* Checks the fields, answers a request that needs no engine, and sets the numbers of prompts and answers. */
int prepare_check(struct request *q);

/* Reads the constraint and the prompts of Q. */
int prepare_prompts(struct request *q);

/* Returns whether prepare_submit() compiles a constraint, which may take seconds. */
bool prepare_compiles(const struct request *q);

/* Submits the prompts of Q to the engine, whose events have the address of the prompt as their user pointer.
 * HAS_ROOM is called before each prompt is submitted; if it returns false, the request is refused. NULL:
 * there is always room. After an error some prompts may have been submitted. */
int prepare_submit(struct request *q, bool (*has_room)(struct request_prompt *p));

/* Cancels the sequences of Q in the engine. False: the engine could not accept all cancellations now. */
bool prepare_cancel(struct request *q);

#endif
