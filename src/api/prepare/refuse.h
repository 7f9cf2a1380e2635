/* refuse.h - error replies that a worker leaves in a flight. */
#ifndef GALLOP_API_PREPARE_REFUSE_H
#define GALLOP_API_PREPARE_REFUSE_H

#include <stdbool.h>

struct err;
struct flight;

extern const char refuse_over_memory[]; /* message for a request over max_request_bytes */

/* Sets the status and reply of F to an error with STATUS and SENTENCE. The error is about the field set by
 * fields_blame(). Returns ERR_INPUT. */
int refuse(struct flight *f, int status, const char *sentence);

/* Refuses F with 429 if requests hold more than max_request_bytes, otherwise with 503. */
int refuse_memory(struct flight *f);

/* Refuses F with 400 and names FIELD. */
int refuse_field(struct flight *f, const char *field, const char *sentence);

/* Refuses F with 429 or 400 and the sentence of E, or like refuse_memory() if memory ran out. */
int refuse_error(struct flight *f, const struct err *e);

/* Refuses F if its client has left, the server is shutting down, or its time limit has passed. Returns
 * whether it was refused. */
bool refuse_late(struct flight *f);

#endif
