/* pool.h - pinned compute threads that run one function each, all at once, and meet at its end.
 *
 * Workers spin for a short while after a job, then sleep on a futex, so back-to-back jobs of a step cost well
 * under a microsecond and an idle engine costs nothing. The caller is thread 0 and works too. Where other
 * processes want the processors as well, the share of a worker that does not get one is done by the others:
 * the number of a thread names a share and its scratch, not the thread of the operating system that runs it.
 * With more threads than processors the spinning yields. The allocation guard of mem.h is up in workers while
 * a job runs. One caller at a time, of all that share a pool: another one aborts.
 */
#ifndef GALLOP_BASE_THREADS_POOL_H
#define GALLOP_BASE_THREADS_POOL_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct pool;
typedef void pool_fn(void *ctx, int thread, int n_threads);

/* N_THREADS >= 1. Threads are pinned to distinct allowed cores where there are enough (physical ones
 * first). */
int pool_new(struct pool **out, int n_threads, struct err *e);
int pool_threads(const struct pool *p);
void pool_run(struct pool *p, pool_fn *fn, void *ctx); /* returns when every thread has returned */
void pool_free(struct pool *p);                        /* NULL is fine */

/* Nanoseconds that callers of pool_run() have waited for other threads after their own share was done. */
uint64_t pool_waited_ns(const struct pool *p);

/* What a thread does of work that is dealt: the parts [begin, end). It goes on up to END_OF_RANGE, unless
 * another thread takes a part of that. */
typedef void pool_range_fn(void *ctx, int thread, size_t begin, size_t end, size_t end_of_range);

/* N parts, at most 2^32 - 1, each done once. Every thread has its share, as pool_share() cuts it, and does it
 * in ascending order, half of the rest at a time; one that is done takes from the tails of the next eight, so
 * that all end together although some are slower. */
void pool_run_ranges(struct pool *p, size_t n, pool_range_fn *fn, void *ctx);

/* One more user of P: each calls pool_free(), in any order, and the last one ends the threads. Users take
 * turns, in this too. Returns P. */
struct pool *pool_join(struct pool *p);

/* Gives every thread at least BYTES of scratch of its own, aligned to 64; what lay in it is lost. Not while a
 * job runs. ERR_NOMEM: nothing changed. */
int pool_reserve(struct pool *p, size_t bytes, struct err *e);
size_t pool_scratch_bytes(const struct pool *p);      /* that each thread has */
void *pool_scratch(const struct pool *p, int thread); /* of a job, valid until the next pool_reserve() */

/* The share [*begin, *end) of N equal parts that THREAD of N_THREADS takes; in multiples of UNIT but for the
 * last. */
void pool_share(size_t n, size_t unit, int thread, int n_threads, size_t *begin, size_t *end);

#endif
