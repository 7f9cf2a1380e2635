/* answer.h - what the engine says, taken apart, and as JSON in the forms of chat and of completions. */
#ifndef GALLOP_API_ANSWER_H
#define GALLOP_API_ANSWER_H

#include <stdbool.h>
#include <stddef.h>

#include "api/dialect.h"
#include "api/request.h"
#include "gallop.h"

/* Takes TEXT, the next of choice H, apart. 0 or ERR_NOMEM. */
int answer_take(const struct request *c, struct request_choice *h, const char *text, size_t n);
/* The same of what was held back; FINISH: how it ended. */
int answer_take_end(const struct request *c, struct request_choice *h, enum gallop_finish finish,
                    bool stopped);
/* Writes P->lists. */
void answer_list_prompt(const struct request *c, struct request_prompt *p);

/* There is something to show. */
bool answer_has_news(const struct request *c, const struct request_choice *h);

/* The call that is being taken comes to an end for now: H->calls are whole elements. */
void answer_end_call(struct request_choice *h);

extern const struct dialect answer_completions_form, answer_chat_form;

#endif
