/* gallop_in.h - what the floors above may see of an opened engine beyond gallop.h: its parts, and a submit
 * that takes a sampling record as it is read from JSON. */
#ifndef GALLOP_ENGINE_GALLOP_IN_H
#define GALLOP_ENGINE_GALLOP_IN_H

#include "engine/llm.h"
#include "engine/step.h"
#include "gallop.h"

/* gallop_open() of the model at o->model, which C is, open; C outlives the engine, which lets go of its
 * files. NULL: as gallop_open(). */
int gallop_open_checkpoint(struct gallop **out, const struct gallop_options *o, struct checkpoint *c,
                           char *err);

struct llm *gallop_llm(struct gallop *g);
struct step *gallop_loop(struct gallop *g);
const struct sampling *gallop_config(const struct gallop *g); /* what generation_config.json says */

/* gallop_submit() with USER in place of r->sampling. */
int gallop_submit_sampling(struct gallop *g, const struct gallop_request *r, const struct sampling *user,
                           uint64_t *id, struct err *e);

#endif
