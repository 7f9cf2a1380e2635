/* cost.h - the ideal time of a step, by which measured times are judged (roof share = ideal time / measured
 * time).
 *
 * The forward pass of the model runs with an op sink that only counts (ops/timed.h), so every linear, the
 * attention of every layer with its window, and mixtures of experts are counted exactly. Bytes are the
 * weights, counted once in a step (for experts: those of the expected number of used experts), and the rows
 * of the KV cache, counted once for each sequence and layer that reads them. Operations are those of matrix
 * products and attention. Activations, tables and data that stay in caches are not counted.
 *
 * Operators run one after the other, so the ideal time of a step is the sum over its operators of the larger
 * of bytes / bandwidth and operations / peak. */
#ifndef GALLOP_LAB_BENCH_COST_H
#define GALLOP_LAB_BENCH_COST_H

#include <stdbool.h>
#include <stddef.h>

struct llm;
struct roof;
struct timed_op;

enum { BENCH_MAX_SEQS = 257 };

struct bench_cost_model {
    struct llm *llm;         /* borrowed; not modified */
    const struct roof *roof; /* borrowed; a rate of 0 does not bound the time */
};

struct bench_cost {
    double bytes, flops;
    double seconds;        /* the ideal time */
    double memory_seconds; /* the part of `seconds` that memory bandwidth determines */
};

/* N_SEQS equal sequences. Each computes N tokens after POS rows, and the logits of its last WANTED tokens. */
struct bench_rows {
    size_t n_seqs, pos, n, wanted;
};

/* Returns the cost of one step with the sequences ROWS [n_rows], at most BENCH_MAX_SEQS in all. KV rows that
 * are written count like rows that are read. */
struct bench_cost bench_cost_step(const struct bench_cost_model *m, const struct bench_rows *rows,
                                  size_t n_rows);

/* Returns the cost of STEPS steps with ROWS [n_rows]; POS grows by N from step to step. */
struct bench_cost bench_cost_steps(const struct bench_cost_model *m, const struct bench_rows *rows,
                                   size_t n_rows, size_t steps);

/* Returns the cost of a prompt of N tokens in steps of at most CHUNK; only the last token gives logits. */
struct bench_cost bench_cost_prefill(const struct bench_cost_model *m, size_t n, size_t chunk);

/* Adds the cost of OP on a machine with ROOF to COST. */
void bench_cost_add_op(struct bench_cost *cost, const struct roof *roof, const struct timed_op *op);

/* Prints the machine and its roofs R as one line of text, or as the JSON line "roof". */
void bench_roof_print(const struct roof *r, int threads, const char *isa, bool json);

#endif
