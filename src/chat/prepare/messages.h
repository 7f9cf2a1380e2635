/* messages.h - renders the conversation of a request with the chat template. */
#ifndef GALLOP_CHAT_PREPARE_MESSAGES_H
#define GALLOP_CHAT_PREPARE_MESSAGES_H

struct buf;
struct err;
struct request;

/* Renders the conversation of Q with the model's chat template and appends it to OUT. With --user-text plain,
 * ORIGIN gets one byte for each byte of the prompt, which states the origin of that byte; otherwise ORIGIN
 * stays empty. */
int messages_render(struct request *q, struct buf *out, struct buf *origin, struct err *e);

#endif
