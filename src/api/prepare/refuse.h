/* refuse.h - how a worker refuses a request. */
#ifndef GALLOP_API_PREPARE_REFUSE_H
#define GALLOP_API_PREPARE_REFUSE_H

#include <stdbool.h>

struct err;
struct flight;

extern const char refuse_over_memory[]; /* why a request beyond --max-request-memory is refused */

/* Leaves an error with STATUS and SENTENCE as the reply to F. It is about the field that fields_blame()
 * named. Returns ERR_INPUT. */
int refuse(struct flight *f, int status, const char *sentence);

/* Refuses F for lack of memory: that of the machine, or that which requests may hold together. */
int refuse_memory(struct flight *f);

/* Refuses F with 400 because of FIELD. */
int refuse_field(struct flight *f, const char *field, const char *sentence);

/* Refuses F with the error E. */
int refuse_error(struct flight *f, const struct err *e);

/* F is not worth its next stage: its client has left, the server ends, or its time is over. It is refused
 * then. */
bool refuse_late(struct flight *f);

#endif
