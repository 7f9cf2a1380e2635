/* engine_priv.h - the parts of an opened engine, for measurements, `gallop inspect` and tests; and what the engine
 * and the public executor (gallop_executor.c) do alike: reading options, opening the model.
 *
 * The server does not include it (tools/lint.d/floors).
 */
#ifndef GALLOP_ENGINE_ENGINE_PRIV_H
#define GALLOP_ENGINE_ENGINE_PRIV_H

#include "engine/constraints/constraints.h"
#include "engine/engine.h"
#include "engine/llm.h"
#include "engine/step.h"

struct llm *engine_llm(struct gallop *g);
const struct constraints *engine_constraints(const struct gallop *g);
struct step *engine_loop(struct gallop *g); /* tests put another executor in the model's place */
const struct step *engine_scheduling(const struct gallop *g);

/* ---- for gallop_executor.c ---- */

/* Checks O, fetches the model if it is on a hub, and fills S. IS_EXECUTOR: O opens an executor, which has no prefix
 * cache. */
int engine_read_source(const struct gallop_options *o, bool is_executor, struct llm_source *s, struct err *e);

/* llm_open(), and CONFIG from generation_config.json with the end tokens of config.json. Its arrays lie in A,
 * which the caller ends. */
int engine_open_llm(struct llm *m, const struct gallop_options *o, const struct llm_source *s,
                    struct sampling *config, struct arena *a, struct err *e);

/* Returns RC; where it is not 0, copies the sentence of E to ERR [GALLOP_ERR_SIZE], unless that is NULL. */
int engine_give(char *err, const struct err *e, int rc);

#endif
