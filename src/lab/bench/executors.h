/* executors.h - `gallop bench --executors`: the time of a step with executor "planned" beside that with "eager".
 *
 * One engine computes the same step, of some sequences with a row or more each, alternately in blocks of eight steps.
 * The first two steps of a block are not counted. The quotient of a pair of blocks is that of their medians. The time
 * of a layer is the 10th percentile of all steps, divided by the number of layers: for a model with tiny matrices, the
 * fixed cost of a layer. */
#ifndef GALLOP_LAB_BENCH_EXECUTORS_H
#define GALLOP_LAB_BENCH_EXECUTORS_H

#include <stdbool.h>
#include <stddef.h>

#include "app/load.h"
#include "base/err.h"

enum { BENCH_EXECUTORS_LIST = 16 };

/* What is measured: every number of sequences at every context, each for SECONDS. */
struct bench_executors {
    size_t context[BENCH_EXECUTORS_LIST], n_contexts; /* rows of each sequence before the step */
    size_t batch[BENCH_EXECUTORS_LIST], n_batches;    /* numbers of sequences */
    size_t rows;                                      /* rows of each sequence in a step */
    double seconds;
    bool json;
};

/* Opens the engine of L, measures B, and prints the results. */
int bench_executors(const struct bench_executors *b, struct load *l, struct err *e);

#endif
