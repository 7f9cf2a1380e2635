/* planned.h - a step as one job of the pool: every thread walks through the model with a sink of its own.
 *
 * The sink of a thread computes the thread's part of each operator with the kernels, buffers and divisions of the eager
 * sink, so that the bits are those of eager.h. It knows which floats were written since the threads last met, and by
 * whom: threads meet before an operator that reads or overwrites what another thread has written or may still read.
 * With few rows (a solo step), every thread computes all operators on rows (norms, additions, inputs of linears)
 * itself, in its own memory, so that threads meet only after linears and attention; with more rows, each thread has
 * some of the rows.
 *
 * Steps with many rows, mixtures of experts and captured hidden states are left to the eager sink, and so are the steps
 * for a while after one in which a thread slept at a meeting: another process uses the processor, and the jobs of the
 * pool suffer less from that (team.h).
 */
#ifndef GALLOP_OPS_PLANNED_PLANNED_H
#define GALLOP_OPS_PLANNED_PLANNED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "ops/eager.h"

struct planned;

enum {
    PLANNED_ROWS = 64, /* maximum rows of a step */
    PLANNED_SEQ = 16,  /* maximum rows of a sequence in a step */
    PLANNED_SOLO = 1   /* maximum rows of a solo step */
};

/* Walks through the model with sink O. All threads call it at once. */
typedef void planned_walk(void *ctx, const struct op_sink *o);

/* Makes the sinks of all threads of G's pool; G is borrowed. In solo steps the model uses the BUFFERS [bytes], in which
 * every float has a copy in each thread. */
int planned_new(struct planned **out, struct eager *g, char *buffers, size_t bytes, struct err *e);
void planned_free(struct planned *p); /* P may be NULL */

/* Returns true if the step of batch B, or the last norm and logits of B's wanted rows (TAIL), is to be computed by
 * planned_run(). */
bool planned_takes(struct planned *p, const struct batch *b, bool tail);

/* Returns true if a step or tail with this number of rows is solo. */
bool planned_is_solo(size_t rows);

/* Computes a step of ROWS rows: every thread calls WALK with its sink. The sink of the caller's thread is FIRST, which
 * forwards to planned_sink(). */
void planned_run(struct planned *p, size_t rows, const struct op_sink *first, planned_walk *walk, void *ctx);
const struct op_sink *planned_sink(const struct planned *p);

/* Copies N floats at FROM in the buffers, as the last solo step left them, TO. */
void planned_copy(const struct planned *p, float *to, const float *from, size_t n);

size_t planned_bytes(const struct planned *p);
/* Returns the number of meetings so far. */
uint64_t planned_meetings(const struct planned *p);
/* Steps are computed by planned_run() even after a thread has slept; for tests. */
void planned_insist(struct planned *p);

#endif
