/* ask.h - reads from a request whether it asks for beam search, and refuses what beam search does not support. */
#ifndef GALLOP_ENGINE_BEAMS_ASK_H
#define GALLOP_ENGINE_BEAMS_ASK_H

#include "engine/executor.h"
#include "engine/sampling/sampling.h"
#include "gallop.h"

/* If USER asks for beam search for R, whose n is valid, sets *WIDTH to the number of beams, and MERGED to greedy
 * decoding. Otherwise sets *WIDTH to 0. CAPS and MOST are the limits of the executor and the maximum number of
 * sequences of a step. Returns 0, or ERR_INPUT or ERR_UNSUPPORTED and the field at fault. */
int ask_read(const struct gallop_request *r, const struct sampling *user, struct sampling *merged,
             const struct executor_caps *caps, size_t most, size_t *width, struct err *e);

/* Returns ERR_INPUT if WIDTH beams of N_NEW tokens each, behind a prompt of N_PROMPT, do not fit into an empty KV
 * cache. */
int ask_fits(const struct executor_caps *caps, size_t n_prompt, size_t n_new, size_t width, struct err *e);

#endif
