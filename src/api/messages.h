/* messages.h - a conversation as the chat template gets it, and the prompt that the template renders. */
#ifndef GALLOP_API_MESSAGES_H
#define GALLOP_API_MESSAGES_H

#include <jansson.h>
#include <stdbool.h>

#include "api/request.h"
#include "base/buf.h"
#include "base/err.h"

bool messages_have_tools(const struct request *c); /* and the template is to be given them */

/* The text of PART of a message's content: a string or null; something else where it has none as it should;
 * NULL: its type has no text. Borrowed. */
const json_t *messages_part_text(const json_t *part);

/* The text of a conversation, by the model's template; with --user-text plain ORIGIN says where each byte of
 * it came from, else it stays empty. */
int messages_render(struct request *c, struct buf *out, struct buf *origin, struct err *e);

#endif
