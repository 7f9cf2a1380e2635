/* trace.h - measures the time of each operator of a step. */
#ifndef GALLOP_LAB_BENCH_TRACE_H
#define GALLOP_LAB_BENCH_TRACE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "lab/bench/cost.h"

struct llm;
struct roof;
struct timed;
struct timed_op;

enum { BENCH_TRACE_ROWS = 64, BENCH_NAME_MAX = 56 };

/* The calls of one operator, summed over all layers. */
struct bench_trace_row {
    int kind;
    char name[BENCH_NAME_MAX]; /* name of the linear or module without its layer, else name of the operator */
    size_t calls;
    double seconds;
    struct bench_cost cost;
};

struct bench_trace_sum {
    struct bench_trace_row row[BENCH_TRACE_ROWS];
    size_t n_rows, n_steps;
    double seconds; /* time of the steps */
};

struct bench_trace {
    struct timed *timed; /* borrowed */
    struct timed_op *op; /* [cap] operators of the current step */
    size_t n_ops, cap;
};

/* Starts recording the operators of the steps of M. M keeps a pointer to T until bench_trace_close(). */
int bench_trace_open(struct bench_trace *t, struct llm *m, struct err *e);
void bench_trace_close(struct bench_trace *t); /* must be called before the model is closed */

/* Adds the recorded operators of a step of SECONDS to S. A step without operators is ignored. */
void bench_trace_step(struct bench_trace *t, double seconds, const struct roof *roof,
                      struct bench_trace_sum *s);

/* Writes the name of a linear without its layer to out[size]: "mlp.down_proj", or, with IS_MODULE, the name
 * of its module: "mlp". */
void bench_trace_name(const char *name, bool is_module, char *out, size_t size);

/* Prints the operators of a mean step by kind: as a table if OF is NULL, else as the JSON lines "kind",
 * "operator" and "step", to which the members of OF are added. Releases OF. */
void bench_trace_print(const struct bench_trace_sum *s, json_t *of);

#endif
