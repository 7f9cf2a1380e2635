/* sched.h - plans a step: computes the number of rows of each sequence from lengths, limits and predicted costs.
 *
 * The planner is a pure function. A sequence is a pair of numbers: the rows in the cache (computed) and the tokens so
 * far (known). A step computes some of the missing rows. Decoding, chunked prompts, hits in the prefix cache and
 * recomputation after preemption are all cases of this.
 */
#ifndef GALLOP_ENGINE_SCHEDULE_SCHED_H
#define GALLOP_ENGINE_SCHEDULE_SCHED_H

#include <stdbool.h>
#include <stddef.h>

struct cost;
struct cost_step;

/* Maximum rows of a step, unless max_seqs is larger. It bounds the delay of a cancellation, which takes effect after
 * the current step. */
enum { SCHED_ROWS = 512 };

struct sched_seq {
    size_t computed, known; /* number of computed rows and of known tokens; computed < known */
    bool all_wanted;        /* every row needs logits; otherwise only the last row does */
    /* For a sequence that lacks one row: number of guessed tokens, whose rows may be computed, too. All of them need
     * logits. */
    size_t n_guesses;
    const float *chance; /* [n_guesses] probability that this guess and all before it are right */
};

enum sched_order {
    /* A step computes decoding sequences, and prompts with the remaining rows. */
    SCHED_DECODES_FIRST,
    /* A step computes prompts only, if there are any. */
    SCHED_PROMPTS_FIRST,
};

struct sched_limits {
    size_t max_tokens; /* maximum number of rows of a step, > 0 */
    size_t max_seqs;   /* maximum number of sequences of a step, > 0 */
    size_t max_wanted; /* maximum number of rows with logits; 0: no limit */
    /* Maximum number of sequences of a step that miss more than one row (prompts). 0: no limit. */
    size_t max_prompts;
    enum sched_order order;
    bool apart;              /* a step must not contain both prompts and decoding sequences */
    bool whole;              /* a sequence must compute all missing rows in one step */
    const struct cost *cost; /* predicts times; NULL: no time limit */
    /* Maximum predicted time of a step with decoding sequences. 0: no limit. */
    double target_s;
    bool every_guess; /* computes all guesses that fit, even if they save no time */
    double trial_s;   /* time that guesses without an expected gain may add, to learn from their results */
};

struct sched_pick {
    size_t seq; /* index of the sequence in SEQ */
    size_t n;   /* number of rows to compute, >= 1 */
};

/* Plans a step for SEQ [n], in order of precedence. With SCHED_DECODES_FIRST, decoding sequences (which miss one row)
 * come first, so that they never wait for a prompt; prompts get the remaining rows. Beside decoding sequences the first
 * prompt gets SCHED_LEAST rows even if target_s allows fewer, so that it makes progress. The remaining rows go to
 * guesses, the likeliest first: a guess is added while its probability, divided by the time that it adds, exceeds the
 * expected tokens per second of the decoding sequences without it. So speculation ends by itself under load. Then other
 * guesses are added until they have added trial_s. Writes the picks to OUT [max_seqs] in ascending order of `seq` and
 * their total work to *STEP (may be NULL). Returns the number of picks. */
enum { SCHED_LEAST = 16 };
size_t sched_plan(const struct sched_seq *seq, size_t n, const struct sched_limits *lim,
                  struct sched_pick *out, struct cost_step *step);

#endif
