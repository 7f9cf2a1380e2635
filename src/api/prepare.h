/* prepare.h - prepares a request on a worker thread, before the engine gets it. */
#ifndef GALLOP_API_PREPARE_H
#define GALLOP_API_PREPARE_H

struct request_prompt;
struct workers_job;

/* Parses, renders, tokenizes and submits a request, or sets its status and reply. Runs on a worker thread. */
void prepare_request(struct workers_job *job);

/* Removes the tokens of P from the number of waiting prompt tokens, if they are counted there. */
void prepare_waits_no_more(struct request_prompt *p);

#endif
