/* messages.h - converts a conversation for the chat template, and renders the prompt. */
#ifndef GALLOP_API_PREPARE_MESSAGES_H
#define GALLOP_API_PREPARE_MESSAGES_H

#include <jansson.h>

struct buf;
struct err;
struct request;

/* Returns the text of PART, an element of a message's content, borrowed: a JSON string or null; another
 * JSON value if the text is missing or has a wrong type; NULL if parts of this type have no text. */
const json_t *messages_part_text(const json_t *part);

/* Renders the conversation of Q with the model's chat template and appends it to OUT. With --user-text plain,
 * ORIGIN gets one byte for each byte of the prompt, which states the origin of that byte; otherwise ORIGIN
 * stays empty. */
int messages_render(struct request *q, struct buf *out, struct buf *origin, struct err *e);

#endif
