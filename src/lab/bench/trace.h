/* trace.h - measures the time of each operator of a step. */
#ifndef GALLOP_LAB_BENCH_TRACE_H
#define GALLOP_LAB_BENCH_TRACE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "engine/llm.h"
#include "kern/roof.h"
#include "lab/bench/cost.h"
#include "ops/timed.h"

enum { BENCH_TRACE_ROWS = 64, BENCH_NAME_MAX = 56 };

/* The calls of one operator, over all layers. */
struct bench_trace_row {
    int kind;
    char name[BENCH_NAME_MAX]; /* of the linear or module, without the layer; else of the operator */
    size_t calls;
    double seconds;
    struct bench_cost cost;
};

struct bench_trace_sum {
    struct bench_trace_row row[BENCH_TRACE_ROWS];
    size_t n_rows, n_steps;
    double seconds; /* of the steps */
};

struct bench_trace {
    struct timed *timed; /* borrowed */
    struct timed_op *op; /* [cap] operators of the current step */
    size_t n_ops, cap;
};

/* Starts recording the operators of M's steps. T must not move. */
int bench_trace_open(struct bench_trace *t, struct llm *m, struct err *e);
void bench_trace_close(struct bench_trace *t); /* before the model is closed */

/* Adds the operators of the step, which took SECONDS, to S. A step without operators is ignored. */
void bench_trace_step(struct bench_trace *t, double seconds, const struct roof *roof,
                      struct bench_trace_sum *s);

/* Writes NAME without its layer, such as "mlp.down_proj"; for a module, of which NAME is a linear, "mlp". */
void bench_trace_name(const char *name, bool is_module, char *out, size_t size);

/* Prints the means of a step by kind of operator: as a table, or with OF as JSON lines "kind", "operator" and "step",
 * which contain the members of OF. Releases OF. */
void bench_trace_print(const struct bench_trace_sum *s, json_t *of);

#endif
