/* tokens.h - the endpoints that a worker answers with the tokenizer alone, without the engine. */
#ifndef GALLOP_API_PREPARE_TOKENS_H
#define GALLOP_API_PREPARE_TOKENS_H

struct flight;

/* Each sets the status and reply of F: to the answer, or to an error. */
void tokens_encode(struct flight *f);
void tokens_decode(struct flight *f);
void tokens_count(struct flight *f);

#endif
