/* refuse.h - refuses a request: makes an error its reply. */
#ifndef GALLOP_CHAT_PREPARE_REFUSE_H
#define GALLOP_CHAT_PREPARE_REFUSE_H

#include <stdbool.h>

struct err;
struct request;

extern const char refuse_over_memory[]; /* error message: the memory limit for all requests is exceeded */

/* Sets the status and reply of Q to an error with STATUS and SENTENCE. The error is about the field set by
 * fields_blame(). Returns ERR_INPUT. */
int refuse(struct request *q, int status, const char *sentence);

/* Refuses Q, because memory ran out: with 429 if the memory limit for all requests is exceeded, otherwise
 * with 503. */
int refuse_memory(struct request *q);

/* Refuses Q with 400 and names FIELD. */
int refuse_field(struct request *q, const char *field, const char *sentence);

/* Refuses Q with 429 or 400 and the sentence of E, or like refuse_memory() if memory ran out. */
int refuse_error(struct request *q, const struct err *e);

/* Refuses Q if its client has left, the server is shutting down, or its time limit has passed. Returns
 * whether it was refused. */
bool refuse_late(struct request *q);

#endif
