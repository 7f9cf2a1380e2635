/* prompt.h - the prompts of a request, read on a worker thread. */
#ifndef GALLOP_API_PREPARE_PROMPT_H
#define GALLOP_API_PREPARE_PROMPT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct answer;
struct err;
struct flight;
struct request;
struct seeds;
struct tok_ids;

/* The name of the field that the prompt of Q is in. */
const char *prompt_field(const struct request *q);

/* PROMPT is a list of prompts, and not one. */
bool prompt_is_list(const json_t *prompt);

/* The tokenizer adds BOS and the like; OTHERWISE: what holds if the request does not say. */
bool prompt_adds_special(const struct request *q, bool otherwise);

/* Appends the token ids of LIST. 0 or ERR_NOMEM. */
int prompt_add_ids(struct tok_ids *ids, const json_t *list, struct err *e);

/* Appends the tokens of TEXT [n]. ORIGIN [n]: where each byte came from, or NULL. */
int prompt_encode(const struct request *q, const char *text, const char *origin, size_t n, bool special,
                  struct tok_ids *ids, struct err *e);

/* Appends the tokens of the messages of Q. A: its answers, which get parsers; NULL: there will be none. */
int prompt_read_messages(struct request *q, struct answer *a, struct seeds *seeds, struct tok_ids *ids,
                         struct err *e);

/* Reads all prompts of F, for which there is room. 0, or F is refused. */
int prompt_read_all(struct flight *f, struct seeds *seeds);

#endif
