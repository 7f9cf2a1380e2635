/* dying.h - an executor for an engine whose runs fail at chosen times, and which cannot always be opened again. It
 * checks that the engine uses nothing of a dead executor. */
#ifndef GALLOP_TEST_ENGINE_DYING_H
#define GALLOP_TEST_ENGINE_DYING_H

#include "engine/engine_priv.h"
#include "engine/executor.h"

enum { DYING_SLOTS = 128 };

/* Wraps any executor. The times of its clock pass at once where the engine waits for it. */
struct dying {
    const struct executor *inner;
    struct executor x;
    uint64_t n_runs;     /* so far, with those that failed */
    uint64_t at, every;  /* run number AT fails, and each run whose number is a multiple of EVERY; 0: none */
    bool at_logits;      /* it fails in logits(), if there are any, and not in run() */
    size_t poison;       /* runs with a prompt of so many tokens fail; 0: none */
    uint64_t n_no_opens; /* so many calls of reopen() fail */
    uint64_t n_laters;   /* and before each that does not, so many are not finished */
    uint64_t n_waited;   /* calls of reopen() that were not finished, since the last that was */
    uint64_t n_opened;   /* times that it was opened again */
    double ahead_s;      /* seconds that the clock is ahead of the inner executor's */
    bool is_dead, dies_soon;
    bool used[DYING_SLOTS]; /* slots that have begun */
};

/* From now on G, which has no request yet, computes with D, which outlives it. */
void dying_drive(struct dying *d, struct gallop *g);

/* From now on D fails in logits() if the run has wanted rows, and has no hidden states. */
void dying_in_logits(struct dying *d);

#endif
