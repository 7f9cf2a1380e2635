/* prompt.h - reads the prompts of a request into token ids. */
#ifndef GALLOP_CHAT_PREPARE_PROMPT_H
#define GALLOP_CHAT_PREPARE_PROMPT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct answer;
struct err;
struct request;
struct rng_seeds;
struct tok_ids;

/* Returns the name of the request field that holds the prompt of Q. */
const char *prompt_field(const struct request *q);

/* Returns whether PROMPT is a list of prompts; false for one string or one list of token ids. */
bool prompt_is_list(const json_t *prompt);

/* Returns whether the tokenizer adds special tokens such as BOS. OTHERWISE: the default. */
bool prompt_adds_special(const struct request *q, bool otherwise);

/* Appends the token ids in LIST to IDS. 0 or ERR_NOMEM. */
int prompt_add_ids(struct tok_ids *ids, const json_t *list, struct err *e);

/* Tokenizes TEXT [n] and appends the tokens to IDS. ORIGIN [n]: as in tok_encode_marked(), or NULL.
 * SPECIAL: add BOS and similar special tokens. */
int prompt_encode(const struct request *q, const char *text, const char *origin, size_t n, bool special,
                  struct tok_ids *ids, struct err *e);

/* Renders and tokenizes the messages of Q and appends the tokens to IDS. Opens the parsers of the answers A;
 * NULL: the request generates no answers. */
int prompt_read_messages(struct request *q, struct answer *a, struct rng_seeds *seeds, struct tok_ids *ids,
                         struct err *e);

/* Reads all prompts of Q into the allocated q.prompt. Returns 0, or an error after Q was refused. */
int prompt_read_all(struct request *q, struct rng_seeds *seeds);

#endif
