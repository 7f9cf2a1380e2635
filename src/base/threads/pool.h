/* pool.h - pinned compute threads that run one function together and wait for each other at its end.
 *
 * Workers spin for a short while after a job, then sleep on a futex, so that successive jobs of a step cost
 * well under a microsecond each and an idle engine costs nothing. The caller is thread 0 and works, too. If a
 * worker does not get a processor because other processes use it, other threads do its share: the number of
 * a thread names a share and its scratch, not the thread of the operating system that runs it. With more
 * threads than processors, threads yield instead of spinning. The allocation guard of mem.h is up in workers
 * while a job runs. Only one thread at a time may call functions of a pool; a second one aborts.
 */
#ifndef GALLOP_BASE_THREADS_POOL_H
#define GALLOP_BASE_THREADS_POOL_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct pool;
typedef void pool_fn(void *ctx, int thread, int n_threads);

/* N_THREADS >= 1. Threads are pinned to distinct allowed cores if there are enough, physical ones first. */
int pool_new(struct pool **out, int n_threads, struct err *e);
int pool_threads(const struct pool *p);
/* Runs FN on every thread. Returns when every thread has returned. */
void pool_run(struct pool *p, pool_fn *fn, void *ctx);
void pool_free(struct pool *p); /* NULL is fine */

/* Nanoseconds that callers of pool_run() have waited for other threads after their own share was done. */
uint64_t pool_waited_ns(const struct pool *p);

/* Does tasks [begin, end). The thread goes on up to END_OF_RANGE, unless another thread takes a part of
 * that. */
typedef void pool_range_fn(void *ctx, int thread, size_t begin, size_t end, size_t end_of_range);

/* Runs N tasks, at most 2^32 - 1, each of them once. Every thread has the share that pool_share() gives it,
 * and does it in ascending order, half of the rest at a time. A thread that has finished takes tasks from the
 * ends of the next eight shares, so that all finish together although some are slower. */
void pool_run_ranges(struct pool *p, size_t n, pool_range_fn *fn, void *ctx);

/* Adds a user of P: each user calls pool_free(), in any order, and the last one ends the threads. Users must
 * not call functions of P at the same time. Returns P. */
struct pool *pool_join(struct pool *p);

/* Gives every thread at least BYTES of scratch, aligned to 64; its contents are lost. Not while a job runs.
 * ERR_NOMEM: nothing has changed. */
int pool_reserve(struct pool *p, size_t bytes, struct err *e);
size_t pool_scratch_bytes(const struct pool *p); /* of each thread */
/* The scratch of THREAD, valid until the next pool_reserve(). */
void *pool_scratch(const struct pool *p, int thread);

/* The share [*begin, *end) of N equal tasks that THREAD of N_THREADS has; shares are multiples of UNIT,
 * except for the last. */
void pool_share(size_t n, size_t unit, int thread, int n_threads, size_t *begin, size_t *end);

#endif
