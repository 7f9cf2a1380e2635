/* cost.h - what a step takes at least, the numerator of every share of a roof.
 *
 * The model's own forward is run with a sink that counts and computes nothing (ops/timed.h), so every
 * linear, attention of every layer with its own window, and mixtures of experts count as what they are.
 * Counted is what an ideal machine cannot avoid: weights once a step (of experts those that the rows are
 * expected to choose), rows of the KV cache once for each sequence and layer that sees them (also where
 * layers share them), the products. Activations, tables and what caches could keep are not counted.
 *
 * Operators run one after the other, so the ideal time of a step is the sum over them of the longer of
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
    struct model_work *work;   /* borrowed; is not written */
    enum dtype kv_dtype;
    const struct roof *roof; /* borrowed; a roof of 0 bounds nothing */
};

struct bench_cost {
    double bytes, flops;
    double seconds;        /* the ideal time */
    double memory_seconds; /* of it, of what memory bounds */
};

/* N_SEQS sequences alike: N tokens each behind POS rows; the last WANTED of each give logits. */
struct bench_rows {
    size_t n_seqs, pos, n, wanted;
};

/* One step of all ROWS [n_rows], BENCH_MAX_SEQS sequences at most. Rows that are written count as rows that
 * are read. */
struct bench_cost bench_cost_step(const struct bench_cost_model *m, const struct bench_rows *rows,
                                  size_t n_rows);

/* STEPS such steps one after the other, each from where the one before ended. */
struct bench_cost bench_cost_steps(const struct bench_cost_model *m, const struct bench_rows *rows,
                                   size_t n_rows, size_t steps);

/* A prompt of N tokens in steps of at most CHUNK; only the last token gives logits. */
struct bench_cost bench_cost_prefill(const struct bench_cost_model *m, size_t n, size_t chunk);

/* What OP takes at least, added to COST. */
void bench_cost_add_op(struct bench_cost *cost, const struct roof *roof, const struct timed_op *op);

/* Prints the machine and R as one line, or as the JSON line "roof". */
void bench_roof_print(const struct roof *r, int threads, const char *isa, bool json);

#endif
