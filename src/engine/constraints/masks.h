/* masks.h - the token masks of constrained sequences, and the work on the constraints of several sequences.
 *
 * Sequences with the same constraint share its cached states, so one thread does the work of all of them. Different
 * constraints are spread over the threads of the pool.
 */
#ifndef GALLOP_ENGINE_CONSTRAINTS_MASKS_H
#define GALLOP_ENGINE_CONSTRAINTS_MASKS_H

#include "base/threads/pool.h"
#include "engine/seq.h"

/* Steps of work on constraints (constraint_run.steps), about 2 ms, that a thread does at most within a step of the
 * engine. What is not done then is late (late.h). */
enum { MASKS_STEPS = 20000, MASKS_GUESS_STEPS = MASKS_STEPS / 16 /* for a guess of a draft */ };

/* Sequences with a constraint, and what is done with each. */
struct masks {
    /* [n] with room for all running sequences; those with the same constraint are neighbours */
    struct seq **seq;
    size_t n;
    /* [n_threads] the steps of each thread within this step of the engine, at most MOST. NULL: no limit. */
    struct constraint_steps *steps;
    size_t n_threads, most;
    size_t most_done; /* largest number of steps that a thread has done within a step of the engine */
    void (*work)(void *ctx, struct seq *s);
    void *ctx;
};

/* Opens M for N_SEQS sequences and the threads of POOL (NULL: the caller's), each of which may do MOST steps. */
int masks_open(struct masks *m, size_t n_seqs, const struct pool *pool, size_t most, struct err *e);
void masks_close(struct masks *m); /* M may be zeroed */

/* Begins a step of the engine, of which all MOST steps of work are left. */
void masks_begin(struct masks *m);

void masks_add(struct masks *m, struct seq *s);

/* Calls m->work for all sequences, on the threads of POOL (NULL: on the caller's), and adds the time of each call to
 * seq.mask_s. The calls may allocate. */
void masks_run(struct masks *m, struct pool *pool);

/* Adds to MASK, which has the tokens that the constraint of S allows next, the end and stop tokens if the answer may
 * end, and removes what the request does not allow. */
void masks_finish(struct seq *s, uint32_t *mask);

/* Makes and finishes the MASK behind tokens of S that may be wrong. Returns false if the constraint has reached a
 * limit, or if the steps that are left do not suffice. */
bool masks_guess(struct seq *s, uint32_t *mask);

#endif
