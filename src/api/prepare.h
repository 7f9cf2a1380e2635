/* prepare.h - the work on a request before the engine has it, on a worker thread. */
#ifndef GALLOP_API_PREPARE_H
#define GALLOP_API_PREPARE_H

#include <stdint.h>

#include "api/request.h"
#include "api/workers.h"

/* Reads, renders, tokenizes and submits the call of JOB, or leaves a status and a reply. */
void prepare_request(struct workers_job *job);
void prepare_cancel(struct request *c); /* what was submitted of it */
void prepare_waits_no_more(struct request_prompt *p);
/* Logs that something called NAME was left out, once for each name. SENTENCE has a %s for the name. */
void prepare_say_once(struct request *c, const char *name, const char *sentence)
    __attribute__((format(printf, 3, 0)));
int64_t prepare_max_tokens(const struct request *c);

#endif
