/* messages.h - a conversation as the chat template gets it, and the prompt that the template renders. */
#ifndef GALLOP_API_PREPARE_MESSAGES_H
#define GALLOP_API_PREPARE_MESSAGES_H

#include <jansson.h>

struct buf;
struct err;
struct request;

/* The text of PART of a message's content: a string, or null; something else if the part lacks the text that
 * its type has; NULL: its type has no text. Borrowed. */
const json_t *messages_part_text(const json_t *part);

/* Renders the conversation by the model's template. With --user-text plain ORIGIN says where each byte of the
 * text came from; otherwise it stays empty. */
int messages_render(struct request *q, struct buf *out, struct buf *origin, struct err *e);

#endif
