/* ask.h - finds out whether a request asks for beam search, and refuses fields that beam search does not support. */
#ifndef GALLOP_ENGINE_BEAMS_ASK_H
#define GALLOP_ENGINE_BEAMS_ASK_H

#include <stddef.h>

struct err;
struct executor_caps;
struct gallop_request;
struct sampling;

/* If the request R, with the parameters USER and a valid n, asks for beam search, sets *WIDTH to the number of beams
 * and changes MERGED to greedy decoding. Otherwise sets *WIDTH to 0. CAPS are the limits of the executor, and MOST is
 * the maximum number of sequences of a step. ERR_INPUT, ERR_UNSUPPORTED: the subject of *E is the faulty field. */
int ask_read(const struct gallop_request *r, const struct sampling *user, struct sampling *merged,
             const struct executor_caps *caps, size_t most, size_t *width, struct err *e);

/* Returns ERR_INPUT if WIDTH beams of N_NEW tokens each, after a prompt of N_PROMPT tokens, do not fit into an empty KV
 * cache. */
int ask_fits(const struct executor_caps *caps, size_t n_prompt, size_t n_new, size_t width, struct err *e);

#endif
