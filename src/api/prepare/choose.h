/* choose.h - from the fields of a request to the sampling record of the engine. */
#ifndef GALLOP_API_PREPARE_CHOOSE_H
#define GALLOP_API_PREPARE_CHOOSE_H

#include <stdbool.h>

#include "engine/sampling.h"

struct arena;
struct request;
struct seeds;

/* Sets *S to what Q asks for, with its lists in M. A request without a seed gets the next of SEEDS, unless
 * the server has one for all. False: out of memory. */
bool choose_sampling(struct request *q, struct seeds *seeds, struct arena *m, struct sampling *s);

/* The field of a request that sets MEMBER of a sampling record. */
const char *choose_field(const char *member);

#endif
