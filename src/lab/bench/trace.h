/* trace.h - where the time of steps goes, operator by operator. */
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

/* Calls of one operator, all layers together. */
struct bench_trace_row {
    int kind;
    char name[BENCH_NAME_MAX]; /* of the linear or the module without its layer, else of the operator */
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
    struct timed_op *op; /* [cap] of the step that runs */
    size_t n_ops, cap;
};

/* From now on the operators of M's steps are recorded. T must stay where it is. */
int bench_trace_open(struct bench_trace *t, struct llm *m, struct err *e);
void bench_trace_close(struct bench_trace *t); /* a zeroed one is fine; while its model is open */

/* The step that took SECONDS is over: its operators are added to S. Without any it was none. */
void bench_trace_step(struct bench_trace *t, double seconds, const struct roof *roof,
                      struct bench_trace_sum *s);

/* NAME without its layer, "mlp.down_proj"; of a module, NAME being that of one of its linears, "mlp". */
void bench_trace_name(const char *name, bool is_module, char *out, size_t size);

/* Means of a step, kind by kind: a table, or with OF, whose keys say of what, JSON lines "kind", "operator"
 * and "step". Takes OF. */
void bench_trace_print(const struct bench_trace_sum *s, json_t *of);

#endif
