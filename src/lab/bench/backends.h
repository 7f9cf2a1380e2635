/* backends.h - every linear backend of the build on a model's linears. */
#ifndef GALLOP_LAB_BENCH_BACKENDS_H
#define GALLOP_LAB_BENCH_BACKENDS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "engine/engine.h"

enum { BENCH_BACKENDS_ROWS = 24, BENCH_BACKENDS_REPS = 100 };

struct bench_backends {
    size_t rows[BENCH_BACKENDS_ROWS]; /* [n_rows] of a call: of streams, and behind N_BATCHES of prompts */
    size_t n_rows, n_batches;
    size_t reps;
    double roof_seconds;
    bool json;
};

/* Prints the roofs, and then a table or JSON lines "backend" with the keys of bench_trace_print()'s
 * operators, with "over_auto", the time of the backend that the engine chooses by itself over this one's,
 * and, of the chosen one, "behind", the fastest of those that are more than 3 % ahead of it. Of O counts what
 * says the model, its types and the threads. */
int bench_backends(const struct bench_backends *b, const struct gallop_options *o, struct err *e);

#endif
