/* tokens.h - what a worker answers about tokens, without the engine. */
#ifndef GALLOP_API_PREPARE_TOKENS_H
#define GALLOP_API_PREPARE_TOKENS_H

struct flight;

/* Leave the answer of F as its reply, or refuse it. */
void tokens_encode(struct flight *f);
void tokens_decode(struct flight *f);
void tokens_count(struct flight *f);

#endif
