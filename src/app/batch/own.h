/* own.h - the peculiarities of requests in Gallop's own format: lines such as {"prompt": "...", "temperature": 1}, and
 * prompts of the command line.
 *
 * Their fields are the rows of chat/fields.def with the letter B, and the sampling parameters in the names of
 * sampling.def. Options of the command line are the values that a line does not give, and the model's
 * generation_config.json applies as to options. The answer is the generated text as it is: no markup of tool
 * calls or reasoning is parsed.
 */
#ifndef GALLOP_APP_BATCH_OWN_H
#define GALLOP_APP_BATCH_OWN_H

#include <stdbool.h>

struct batch_request;
struct gallop;
struct request;
struct served;

/* Sets the service of own requests. S has the options of the command line; PLAIN_USER_TEXT: --user-text plain. */
void own_init(struct served *s, bool plain_user_text);

/* Opens the zeroed Q as an own request. */
void own_open(const struct served *s, struct request *q);

/* Checks the fields of B together, and gives those that it lacks the values of the command line. */
void own_set_given(const struct served *s, struct batch_request *b);

/* Completes B when ENGINE is known: its limit of tokens and, if it needs one, the chat template. */
void own_begin(struct served *s, struct batch_request *b, struct gallop *engine);

/* Sets whether the tokens of the submitted B are drawn at random, and its seed. */
void own_set_seed(struct batch_request *b, const struct gallop *engine);

/* Sets b->fault to the reason why B was refused or has failed. */
void own_set_fault(struct batch_request *b);

/* Prints the result of B, or its error, as a line of JSON. If B has several answers, `choices` contains all of them,
 * and the fields beside it are those of the first; a beam search has a line for each beam, best first. */
void own_print(const struct batch_request *b);

#endif
