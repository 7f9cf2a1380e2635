/* sched.h - plans a step: how many rows each sequence computes, as a pure function of lengths, limits and
 * costs.
 *
 * Every sequence is a pair (computed, known): rows in the cache, tokens so far. A step computes some of the
 * difference. Decoding, chunked prompts, hits in the prefix cache and recomputation after preemption are all
 * cases of this. The planner knows no cache, model or clock.
 */
#ifndef GALLOP_ENGINE_SCHEDULE_SCHED_H
#define GALLOP_ENGINE_SCHEDULE_SCHED_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/schedule/cost.h"

struct sched_seq {
    size_t computed, known; /* computed < known */
    bool all_wanted;        /* every row needs logits, not only the last */
};

enum sched_order {
    /* Prompts get what decoding sequences leave of a step. */
    SCHED_DECODES_FIRST,
    /* While there are prompts, steps compute prompts only. */
    SCHED_PROMPTS_FIRST,
};

struct sched_limits {
    size_t max_tokens; /* most rows of a step, > 0 */
    size_t max_seqs;   /* most sequences of a step, > 0 */
    size_t max_wanted; /* most rows with logits; 0: no limit */
    /* Most sequences of a step that lack more than one row (prompts). 0: no limit. */
    size_t max_prompts;
    enum sched_order order;
    bool apart;              /* prompts and decoding sequences do not share a step */
    bool whole;              /* a sequence computes all missing rows in one step */
    const struct cost *cost; /* NULL: no time limits */
    /* Longest time of a step with decoding sequences, as predicted by COST. 0: no limit. */
    double target_s;
};

struct sched_pick {
    size_t seq; /* index into the array given */
    size_t n;   /* rows to compute, >= 1 */
};

/* Plans a step for SEQ [n], which is in order of precedence. Sequences that lack one row (decoding) come
 * first, so that decoding never stalls behind a prompt; prompts get the rest of the budget in the order
 * given. Beside decoding sequences the first prompt gets SCHED_LEAST rows even if the target allows none, so
 * that it makes progress. Writes the picks to OUT [max_seqs] in ascending order of seq and returns their
 * number. *STEP (may be NULL) is their total. */
enum { SCHED_LEAST = 16 };
size_t sched_plan(const struct sched_seq *seq, size_t n, const struct sched_limits *lim,
                  struct sched_pick *out, struct cost_step *step);

#endif
