/* prepare.h - the work on a request before the engine gets it: parse, render, tokenize, submit. */
#ifndef GALLOP_API_PREPARE_PREPARE_H
#define GALLOP_API_PREPARE_PREPARE_H

struct flight;
struct flight_prompt;
struct workers_job;

/* On a worker thread: parses, renders, tokenizes and submits a request, or sets its status and reply. */
void prepare_request(struct workers_job *job);

/* Cancels the sequences of F in the engine. */
void prepare_cancel(struct flight *f);

/* Removes the tokens of P from the number of waiting prompt tokens, if they are counted there. */
void prepare_waits_no_more(struct flight_prompt *p);

#endif
