/* backends.h - measures every linear backend of the build on the linears of a model. */
#ifndef GALLOP_LAB_BENCH_BACKENDS_H
#define GALLOP_LAB_BENCH_BACKENDS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct gallop_options;

enum { BENCH_BACKENDS_ROWS = 24, BENCH_BACKENDS_REPS = 100 };

struct bench_backends {
    /* [n_rows] numbers of rows to measure: the first n_batches numbers are for decoding, the others for
     * prompts. */
    size_t rows[BENCH_BACKENDS_ROWS];
    size_t n_rows, n_batches;
    size_t reps;         /* number of rounds */
    double roof_seconds; /* time of a measurement of the roofs */
    bool json;
};

/* Prints the roofs, then the results as a table or as JSON lines "backend". A line has the keys of the lines
 * "operator" of bench_trace_print(); "over_auto", the time of the backend that the engine chooses divided by
 * the time of this backend; and, on the line of the engine's choice, "behind", the fastest backend that is
 * more than 3 % faster. O gives the model, the number formats and the threads. */
int bench_backends(const struct bench_backends *b, const struct gallop_options *o, struct err *e);

#endif
