/* prepare.h - what happens to a request before the engine has it. */
#ifndef GALLOP_API_PREPARE_PREPARE_H
#define GALLOP_API_PREPARE_PREPARE_H

struct flight;
struct flight_prompt;
struct workers_job;

/* On a worker thread: reads, renders, tokenizes and submits the flight of JOB, or leaves a status and a
 * reply. */
void prepare_request(struct workers_job *job);

/* Tells the engine to end the sequences of F where they are. */
void prepare_cancel(struct flight *f);

/* The tokens of P do not count among those that wait any more. */
void prepare_waits_no_more(struct flight_prompt *p);

#endif
