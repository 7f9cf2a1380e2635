/* machines.h - the engine's loop on a simulated machine (engine/sim_executor.h) with a small KV cache. */
#ifndef GALLOP_TEST_MACHINES_H
#define GALLOP_TEST_MACHINES_H

#include "engine/sim_executor.h"
#include "engine/step.h"

struct machine {
    struct kv kv;
    struct sim_executor sim;
    struct step step;
    size_t max_len;
    uint64_t n_came; /* requests so far */
};

struct machine_size {
    size_t max_seqs, max_len;
    size_t pool_tokens; /* rows of the KV cache */
    size_t step_tokens; /* maximum number of rows of a step */
    bool keep_prefixes;
};

/* A request whose answer has n_output tokens. */
struct machine_request {
    const int32_t *ids; /* [n_prompt] */
    size_t n_prompt, n_output;
    uint32_t key;
    size_t most_guesses;
};

void machines_open(struct machine *m, const struct machine_size *size, const struct sim_executor_spec *spec,
                   const struct step_options *o);
void machines_close(struct machine *m);

/* Submits R and returns its id. 0: the queue refused it. */
uint64_t machines_submit(struct machine *m, const struct machine_request *r);
void machines_step(struct machine *m); /* runs a step and frees the sequences that it ended */

#endif
