/* masks.h - the token masks of constrained sequences, and the work on the constraints of several sequences.
 *
 * Sequences with the same constraint share its cached states, so one thread does the work of all of them. Different
 * constraints are spread over the threads of the pool.
 */
#ifndef GALLOP_ENGINE_CONSTRAINTS_MASKS_H
#define GALLOP_ENGINE_CONSTRAINTS_MASKS_H

#include "base/threads/pool.h"
#include "engine/seq.h"

/* Sequences with a constraint, and what is done with each. */
struct masks {
    struct seq *
        *seq; /* [n] with room for all running sequences; those with the same constraint are neighbours */
    size_t n;
    void (*work)(void *ctx, struct seq *s);
    void *ctx;
};

void masks_add(struct masks *m, struct seq *s);

/* Calls m->work for all sequences, on the threads of POOL (NULL: on the caller's), and adds the time of each call to
 * seq.mask_s. The calls may allocate. */
void masks_run(struct masks *m, struct pool *pool);

/* Computes MASK, the tokens that the constraint of S allows next. End and stop tokens are allowed where the answer may
 * end. Returns 0, or sets *E if the constraint has reached a limit. */
int masks_make(struct seq *s, uint32_t *mask, struct err *e);

#endif
