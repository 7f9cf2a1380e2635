/* goldens.h - engines on the small checkpoints of test/golden, and requests that decode greedily. */
#ifndef GALLOP_TEST_ENGINE_GOLDENS_H
#define GALLOP_TEST_ENGINE_GOLDENS_H

#include "gallop.h"

/* Opens the golden NAME with options O, of which only the model is filled in here; as gallop_open(). */
int golden_try_open(struct gallop **g, const char *name, struct gallop_options *o, char *err);

/* The same; the test fails if it does not open. */
struct gallop *golden_open(const char *name, struct gallop_options *o);

/* Submits IDS [n] for N_NEW greedy tokens, whatever they are; events carry REQUEST as their user. */
uint64_t golden_submit(struct gallop *g, const int32_t *ids, size_t n, int64_t n_new, size_t request);

#endif
