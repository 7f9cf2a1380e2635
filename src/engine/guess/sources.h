/* sources.h - the sources of guesses that --speculative-config names, asked in its order: the first that has a guess
 * for a sequence wins. */
#ifndef GALLOP_ENGINE_GUESS_SOURCES_H
#define GALLOP_ENGINE_GUESS_SOURCES_H

#include <stddef.h>

struct err;
struct gallop_options;
struct guess_maker;
struct guess_sources;
struct llm;

/* Opens the sources of o->speculative_config for the model TARGET, which was opened with O and is borrowed.
 * ERR_INPUT, ERR_UNSUPPORTED, ERR_NOMEM, or an error of the draft model. */
int guess_sources_open(struct guess_sources **out, const struct gallop_options *o, struct llm *target,
                       struct err *e);
void guess_sources_close(struct guess_sources *g); /* G may be NULL */

struct guess_maker *guess_sources_maker(struct guess_sources *g); /* the functions that the step calls */

/* Memory that guesses need beside the model and its KV cache, in bytes. */
struct guess_memory {
    size_t lookup;  /* indexes of running sequences, if all have the maximum number of tokens */
    size_t history; /* the history of the tokens of all sequences */
    size_t weights; /* memory of the weights of a draft */
    size_t kv;      /* the budget of its KV cache */
};

struct guess_memory guess_sources_memory(const struct guess_sources *g, const struct llm *target);

/* Returns the maximum length of a match that sequences look for; 0: no source looks up tokens. */
size_t guess_sources_lookup(const struct guess_sources *g);

#endif
