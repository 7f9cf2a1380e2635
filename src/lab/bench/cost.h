/* cost.h - the ideal time of a step, the numerator of every share of a roof.
 *
 * The forward pass of the model is run with a sink that counts and computes nothing (ops/timed.h), so that every
 * linear, the attention of every layer with its window, and mixtures of experts are counted exactly. Counted are the
 * bytes and operations that an ideal machine cannot avoid: the weights once for a step (those of experts by their
 * expected use), the rows of the KV cache once for each sequence and layer that sees them (also if layers share them),
 * and the products. Activations, tables and data that stay in caches are not counted.
 *
 * Operators run one after the other, so the ideal time of a step is the sum over its operators of the larger one of
 * bytes / bandwidth and operations / peak. */
#ifndef GALLOP_LAB_BENCH_COST_H
#define GALLOP_LAB_BENCH_COST_H

#include <stdbool.h>
#include <stddef.h>

#include "kern/roof.h"
#include "kv/kv.h"
#include "ops/timed.h"

enum { BENCH_MAX_SEQS = 257 };

struct bench_cost_model {
    const struct model *model; /* borrowed */
    struct model_work *work;   /* borrowed; not written */
    enum dtype kv_dtype;
    const struct roof *roof; /* borrowed; a rate of 0 is no bound */
};

struct bench_cost {
    double bytes, flops;
    double seconds;        /* the ideal time */
    double memory_seconds; /* the part of it that is bound by memory */
};

/* N_SEQS equal sequences: N tokens each after POS rows; the last WANTED of each give logits. */
struct bench_rows {
    size_t n_seqs, pos, n, wanted;
};

/* Returns the cost of one step of all ROWS [n_rows], at most BENCH_MAX_SEQS sequences. Written rows count like rows
 * that are read. */
struct bench_cost bench_cost_step(const struct bench_cost_model *m, const struct bench_rows *rows,
                                  size_t n_rows);

/* Returns the cost of STEPS such steps, each of which continues the one before. */
struct bench_cost bench_cost_steps(const struct bench_cost_model *m, const struct bench_rows *rows,
                                   size_t n_rows, size_t steps);

/* Returns the cost of a prompt of N tokens in steps of at most CHUNK; only the last token gives logits. */
struct bench_cost bench_cost_prefill(const struct bench_cost_model *m, size_t n, size_t chunk);

/* Adds the cost of OP to COST. */
void bench_cost_add_op(struct bench_cost *cost, const struct roof *roof, const struct timed_op *op);

/* Prints the machine and R as one line, or as the JSON line "roof". */
void bench_roof_print(const struct roof *r, int threads, const char *isa, bool json);

#endif
