/* speculate.h - `gallop bench --speculate`: the speed of speculative decoding with guesses of which a given share is
 * right.
 *
 * An engine answers the same prompts without and with guesses (engine/guess/oracle.h), alternately, and must generate
 * the same tokens. Only steps are timed in which all sequences decode and none is so close to its end that it can use
 * fewer guesses. The results are compared with two ideals:
 *
 *   of the steps   tokens of a step with all guesses, divided by the measured time of such a step and multiplied by
 *                  that of a step without guesses: what guesses gain if choosing, comparing and dropping them is free
 *   of the roofs   the best expected tokens of a step with 0 to K guesses, divided by its ideal time (cost.h) */
#ifndef GALLOP_LAB_BENCH_SPECULATE_H
#define GALLOP_LAB_BENCH_SPECULATE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/opt.h"

struct load;

enum { BENCH_SPECULATE_LIST = 16, BENCH_SPECULATE_REPS = 100 };

/* The values of the options bench_speculate_options. */
struct bench_speculate_options {
    /* maximum number of guesses of a sequence in a step; 0: the benchmark is not run */
    size_t guesses;
    double accept; /* chance that a guess is right */
    bool adaptive; /* the engine computes only guesses that are expected to pay */
};

extern const struct opt_row bench_speculate_options[];

/* The measurements: every number of sequences at every context length. */
struct bench_speculate {
    struct bench_speculate_options of;
    size_t context[BENCH_SPECULATE_LIST], n_contexts; /* tokens of each prompt, at least 1 */
    size_t batch[BENCH_SPECULATE_LIST], n_batches;    /* numbers of sequences, from 1 to BENCH_MAX_SEQS - 1 */
    size_t decode;                                    /* tokens of each answer */
    size_t reps; /* number of repetitions, at most BENCH_SPECULATE_REPS */
    double roof_seconds;
    bool json;
};

/* Returns the expected number of tokens of a sequence in a step with K guesses, each of which is right with the chance
 * P: 1 + P + P^2 + ... + P^K. */
double bench_speculate_tokens(size_t k, double p);

/* Opens the engine of L, measures B, and prints the results. ERR_INPUT: an answer differs with guesses. */
int bench_speculate(const struct bench_speculate *b, struct load *l, struct err *e);

#endif
