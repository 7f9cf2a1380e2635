/* choose.h - converts the fields of a request to the engine's sampling parameters and output constraint.
 */
#ifndef GALLOP_CHAT_PREPARE_CHOOSE_H
#define GALLOP_CHAT_PREPARE_CHOOSE_H

#include <stdbool.h>

#include "engine/sampling/sampling.h"

struct arena;
struct err;
struct request;
struct rng_seeds;

/* Sets *S to the sampling parameters of Q; entries that it adds to their lists are allocated in M. A request without a
 * seed gets the next seed of SEEDS, unless the server was started with a seed. Returns false if memory runs out. */
bool choose_sampling(struct request *q, struct rng_seeds *seeds, struct arena *m, struct sampling *s);

/* Sets q->structured, the constraint on the answers, from response_format, structured_outputs and the older
 * guided_* fields; from text.format of Responses; or from Ollama's format. ERR_INPUT names the field;
 * ERR_NOMEM. */
int choose_structured(struct request *q, struct err *e);

/* Sets q->structured.tool_calls if Q has tools and at least one of these holds: Q forces tool calls, limits
 * them to some functions, has functions with `strict`, or constrains the answer by a different field. Call it
 * after choose_structured(). ERR_INPUT, ERR_UNSUPPORTED: the subject of *E is the field; ERR_NOMEM. */
int choose_calls(struct request *q, struct err *e);

/* Returns the name of the request field that sets MEMBER of the sampling parameters. MEMBER
 * "structured_outputs": the field that constrains the answer. */
const char *choose_field(const struct request *q, const char *member);

#endif
