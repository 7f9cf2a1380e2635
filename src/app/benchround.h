/* benchround.h - times a piece of work and the roofs above it in turns, on all threads at once.
 *
 * On a machine that others share, memory and clocks change by twice within minutes, and a share of a roof
 * that was measured a minute ago says little. So every round reads memory, computes on registers and then
 * works, a few milliseconds each, and the share is formed within the round; medians over the rounds count.
 */
#ifndef GALLOP_APP_BENCHROUND_H
#define GALLOP_APP_BENCHROUND_H

#include <stdbool.h>
#include <stddef.h>

#include "base/pool.h"
#include "kern/peak.h"

/* What every thread does, each on what is its own: WORK[thread]. */
struct benchround {
    struct pool *pool;
    void *const *work;                              /* [threads] */
    void (*call)(void *work);                       /* once */
    const char *(*piece)(void *work, size_t bytes); /* memory to read that is in no cache; 64-byte aligned */
    double bytes, flops; /* of one call on one thread; flops 0: no roof is measured */
    peak_loop *loop;     /* its arithmetic at its best */
    double loop_worth;   /* what an operation of LOOP counts: int8 dots in pairs 0.5 */
    peak_reader *read;
};

struct benchround_result {
    double seconds; /* of one call */
    double share; /* the time that its bytes or its operations take at least, over SECONDS; 0 without flops */
    bool memory;  /* it is the bytes that take longer */
};

/* About SECONDS of rounds, three at least. */
struct benchround_result benchround_run(const struct benchround *b, double seconds);

#endif
