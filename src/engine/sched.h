/* sched.h - who computes how many tokens in the next step: a pure function of lengths and budgets.
 *
 * Every sequence is a pair (computed, known): rows in the cache, tokens it has. A step computes some of the
 * difference. Decoding, chunked prompts, recomputation after preemption are the same thing here. It knows no
 * cache, model or clock.
 */
#ifndef GALLOP_ENGINE_SCHED_H
#define GALLOP_ENGINE_SCHED_H

#include <stddef.h>

struct sched_seq {
    size_t computed, known; /* computed < known */
};

struct sched_limits {
    size_t max_tokens; /* rows of a step, > 0 */
    size_t max_seqs;   /* sequences of a step, > 0 */
    size_t max_chunk;  /* rows one sequence may take in a step; 0: max_tokens */
};

struct sched_pick {
    size_t seq; /* index into the array given */
    size_t n;   /* tokens to compute, >= 1 */
};

/* SEQ [n] in order of arrival. Sequences that lack one token (decoding) come first, so that no stream
 * stalls behind a prompt; the rest of the budget goes to prompts in order of arrival. OUT [max_seqs].
 * Returns the number of picks, in ascending order of seq. */
size_t sched_plan(const struct sched_seq *seq, size_t n, const struct sched_limits *lim,
                  struct sched_pick *out);

#endif
