/* backends.h - measures every linear backend of the build on the linears of a model. */
#ifndef GALLOP_LAB_BENCH_BACKENDS_H
#define GALLOP_LAB_BENCH_BACKENDS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "engine/engine.h"

enum { BENCH_BACKENDS_ROWS = 24, BENCH_BACKENDS_REPS = 100 };

struct bench_backends {
    size_t
        rows[BENCH_BACKENDS_ROWS]; /* [n_rows] rows of a call: N_BATCHES of decoding, then those of prompts */
    size_t n_rows, n_batches;
    size_t reps;
    double roof_seconds;
    bool json;
};

/* Prints the roofs, and then a table or JSON lines "backend" with the keys of bench_trace_print()'s operators,
 * "over_auto", the time of the engine's choice divided by that of this backend, and for the engine's choice "behind",
 * the fastest backend that is more than 3 % faster. Of O the model, the types and the threads are used. */
int bench_backends(const struct bench_backends *b, const struct gallop_options *o, struct err *e);

#endif
