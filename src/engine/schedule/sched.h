/* sched.h - who computes how many rows in the next step: a pure function of lengths, budgets and costs.
 *
 * Every sequence is a pair (computed, known): rows in the cache, tokens it has. A step computes some of the
 * difference. Decoding, chunked prompts, hits in the prefix cache, recomputation after preemption are the
 * same thing here. It knows no cache, model or clock.
 */
#ifndef GALLOP_ENGINE_SCHEDULE_SCHED_H
#define GALLOP_ENGINE_SCHEDULE_SCHED_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/schedule/cost.h"

struct sched_seq {
    size_t computed, known; /* computed < known */
    bool all_wanted;        /* logits of all rows are wanted, not only those of the last */
};

enum sched_order {
    SCHED_DECODES_FIRST, /* prompts get what the running streams leave of a step */
    SCHED_PROMPTS_FIRST, /* while there are prompts, steps compute nothing else */
};

struct sched_limits {
    size_t max_tokens;  /* rows of a step, > 0 */
    size_t max_seqs;    /* sequences of a step, > 0 */
    size_t max_wanted;  /* rows of logits, > 0; 0: any number */
    size_t max_prompts; /* sequences that lack more than a row; 0: any number */
    enum sched_order order;
    bool apart;              /* those and others do not share a step */
    bool whole;              /* a sequence computes all it lacks in one step */
    const struct cost *cost; /* NULL: times do not matter */
    double target_s;         /* a step in which streams go on takes no more, by COST; 0: any time */
};

struct sched_pick {
    size_t seq; /* index into the array given */
    size_t n;   /* rows to compute, >= 1 */
};

/* SEQ [n] by precedence. Sequences that lack one row (decoding) come first, so that no stream stalls behind a
 * prompt; the rest of the budget goes to prompts in the order given. The first prompt gets SCHED_LEAST rows
 * beside streams even where the target allows none, so that it comes to an end. OUT [max_seqs]. Returns the
 * number of picks, in ascending order of seq; *STEP (may be NULL) is what they amount to. */
enum { SCHED_LEAST = 16 };
size_t sched_plan(const struct sched_seq *seq, size_t n, const struct sched_limits *lim,
                  struct sched_pick *out, struct cost_step *step);

#endif
