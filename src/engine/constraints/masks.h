/* masks.h - the token masks of constrained sequences, and the work on the constraints of several sequences.
 *
 * Sequences with the same constraint share its cached states, so one thread does the work of all of them. Different
 * constraints are spread over the threads of the pool.
 */
#ifndef GALLOP_ENGINE_CONSTRAINTS_MASKS_H
#define GALLOP_ENGINE_CONSTRAINTS_MASKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct pool;
struct seq;

/* Maximum work on constraints (constraint_run.steps) of a thread within one step of the engine, about 2 ms. A mask that
 * needs more is deferred (late.h). */
/* for the mask of one guess of a draft model */
enum { MASKS_STEPS = 20000, MASKS_GUESS_STEPS = MASKS_STEPS / 16 };

/* The sequences with a constraint, and the function that is called for each. */
struct masks {
    /* [n] with room for all running sequences; those with the same constraint are neighbours */
    struct seq **seq;
    size_t n;
    /* [n_threads] work of each thread in this step of the engine, at most MOST. NULL: no limit */
    struct constraint_steps *steps;
    size_t n_threads, most;
    size_t most_done; /* largest work of a thread in one step of the engine */
    void (*work)(void *ctx, struct seq *s);
    void *ctx;
};

/* Opens M for N_SEQS sequences and the threads of POOL (NULL: the caller's), each of which may do MOST units of work
 * (constraint_run.steps) in a step of the engine. */
int masks_open(struct masks *m, size_t n_seqs, const struct pool *pool, size_t most, struct err *e);
void masks_close(struct masks *m); /* M may be zeroed */

/* Begins a step of the engine: each thread may do MOST units of work again. */
void masks_begin(struct masks *m);

void masks_add(struct masks *m, struct seq *s);

/* Calls m->work for all sequences, on the threads of POOL (NULL: on the caller's), and adds the time of each call to
 * seq.mask_s. The calls may allocate. */
void masks_run(struct masks *m, struct pool *pool);

/* MASK has the tokens that the constraint of S allows next. Adds the end and stop tokens if the answer may end, and
 * removes tokens that the request excludes. */
void masks_finish(struct seq *s, uint32_t *mask);

/* Computes the MASK of the token after the guesses of S, completed as by masks_finish(). Returns false if the
 * constraint has reached a limit, or if the remaining work does not suffice. */
bool masks_guess(struct seq *s, uint32_t *mask);

#endif
