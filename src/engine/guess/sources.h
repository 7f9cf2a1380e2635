/* sources.h - the sources of guesses that --speculative-config names, asked in its order: the first that has a guess
 * for a sequence wins. */
#ifndef GALLOP_ENGINE_GUESS_SOURCES_H
#define GALLOP_ENGINE_GUESS_SOURCES_H

#include "engine/constraints/masks.h"
#include "engine/guess/config.h"
#include "engine/guess/guess.h"
#include "engine/guess/history.h"

struct gallop_options;
struct llm;

struct guess_sources {
    struct guess_maker maker; /* the functions that the step calls */
    struct guess_config config;
    struct arena arena; /* strings of `config` */
    bool has_history;
    struct history history;        /* tokens of all sequences, for the method suffix */
    struct draft *draft;           /* the draft model; NULL: none */
    struct self_draft *self_draft; /* the int4 weights of the method self; NULL: none */
    struct seq **left;             /* [max_seqs] sequences for which no source has a guess yet */
    struct masks masks;            /* the sequences of `left` that have a constraint */
    struct pool *pool;             /* the threads of the model; borrowed */
};

/* Opens the sources of o->speculative_config for the model TARGET, which was opened with O and is borrowed. The caller
 * has unblocked SIGBUS. ERR_INPUT, ERR_UNSUPPORTED, ERR_NOMEM, or an error of the draft model. */
int guess_sources_open(struct guess_sources **out, const struct gallop_options *o, struct llm *target,
                       struct err *e);
void guess_sources_close(struct guess_sources *g); /* G may be NULL */

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
