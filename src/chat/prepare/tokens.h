/* tokens.h - the endpoints that are answered with the tokenizer alone, without the engine. */
#ifndef GALLOP_CHAT_PREPARE_TOKENS_H
#define GALLOP_CHAT_PREPARE_TOKENS_H

struct request;

/* Each sets the status and reply of Q: to the answer, or to an error. */
void tokens_encode(struct request *q);
void tokens_decode(struct request *q);
void tokens_count(struct request *q);

#endif
