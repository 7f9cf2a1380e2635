/* tool_choice.h - constrains tool calls in the answers to lines of OpenAI's batch files, as the server does. */
#ifndef GALLOP_APP_BATCH_TOOL_CHOICE_H
#define GALLOP_APP_BATCH_TOOL_CHOICE_H

#include <jansson.h>
#include <stdbool.h>

#include "app/batch/requests.h"
#include "app/input.h"
#include "base/err.h"

/* Returns whether BODY says that the model must not call functions; its template then gets no tools. */
bool tool_choice_is_none(const json_t *body);

/* Takes tool_choice and parallel_tool_calls out of BODY, and sets q->structured.tool_calls if they, a strict function
 * or the constraint of Q need it. Q has its tools and its constraint; T is the template that rendered it. */
int tool_choice_read(struct request *q, json_t *body, struct input_template *t, struct err *e);

#endif
