/* choose.h - from the fields of a request to the sampling record of the engine. */
#ifndef GALLOP_API_PREPARE_CHOOSE_H
#define GALLOP_API_PREPARE_CHOOSE_H

#include <stdbool.h>

#include "engine/sampling/sampling.h"

struct arena;
struct err;
struct request;
struct seeds;

/* Sets *S to what Q asks for, with its lists in M. A request without a seed gets the next of SEEDS, unless
 * the server has one for all. False: out of memory. */
bool choose_sampling(struct request *q, struct seeds *seeds, struct arena *m, struct sampling *s);

/* Sets q->structured to what the answers to Q must look like: response_format, structured_outputs and older
 * names; text.format of Responses; Ollama's format. ERR_INPUT names the field; ERR_NOMEM. */
int choose_structured(struct request *q, struct err *e);

/* The field of Q that sets MEMBER of a sampling record, or what its answers must look like
 * (structured_outputs). */
const char *choose_field(const struct request *q, const char *member);

#endif
