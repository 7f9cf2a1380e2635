/* gallop_in.h - what the floors above may see of an opened engine beyond gallop.h: its parts, and a submit
 * that takes a sampling record as it is read from JSON. And what the engine and the public executor do alike:
 * reading options and sampling, opening the model. */
#ifndef GALLOP_ENGINE_GALLOP_IN_H
#define GALLOP_ENGINE_GALLOP_IN_H

#include "base/arena.h"
#include "engine/llm.h"
#include "engine/step.h"
#include "gallop.h"

/* gallop_open() of the model at o->model, which C is, open; C outlives the engine, which lets go of its
 * files. NULL: as gallop_open(). */
int gallop_open_checkpoint(struct gallop **out, const struct gallop_options *o, struct checkpoint *c,
                           char *err);

struct llm *gallop_llm(struct gallop *g);
const struct step *gallop_scheduling(const struct gallop *g);
struct step *gallop_loop(struct gallop *g); /* tests: to put another executor in the model's place */
const struct sampling *gallop_config(const struct gallop *g); /* what generation_config.json says */

/* gallop_submit() with USER in place of r->sampling. */
int gallop_submit_sampling(struct gallop *g, const struct gallop_request *r, const struct sampling *user,
                           uint64_t *id, struct err *e);

/* Waits up to WAIT_S seconds until something is submitted: what gallop_step() does where there is nothing to
 * compute, for those who tell the two apart. */
void gallop_await(struct gallop *g, double wait_s);

/* ---- for gallop_executor.c ---- */

/* O as the llm's options, which borrow from it; the model's path to PATH, where it lies by now. */
int gallop_read_options(const struct gallop_options *o, struct llm_options *l, char path[FOLDER_PATH_MAX],
                        struct err *e);

/* llm_open(), and what generation_config.json says, with the end tokens of config.json; the arrays lie in A,
 * which the caller ends. */
int gallop_open_llm(struct llm *m, const struct llm_options *o, struct sampling *config, struct arena *a,
                    struct err *e);

/* What P gives, as the layer above generation_config.json; the arrays lie in A (NULL: P has none). */
int gallop_read_sampling(const struct gallop_sampling *p, struct sampling *s, struct arena *a, struct err *e);

/* RC, with the sentence of E in ERR [GALLOP_ERR_SIZE] (or NULL) where that is not 0. */
int gallop_give(char *err, const struct err *e, int rc);

#endif
