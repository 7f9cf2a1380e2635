/* pool.h - pinned compute threads that run one function together (a job) and wait for each other at its end.
 *
 * After a job, workers spin for a short while and then sleep on a futex, so that starting the next job of a step costs
 * well under a microsecond, and an idle engine uses no processor. The caller is thread 0 and also computes. If other
 * processes keep a worker from running, other threads do its share. Therefore the argument THREAD of a job's function
 * is the number of a share and its scratch, not of the thread that does the share. With more threads than processors,
 * threads yield instead of spinning. The allocation guard of mem.h is up in workers during a job. pool_join(),
 * pool_threads(), pool_lock() and pool_free() may be called from any thread; the other functions only by one thread at
 * a time, between pool_lock() and pool_unlock(): pool_run() aborts otherwise.
 */
#ifndef GALLOP_BASE_THREADS_POOL_H
#define GALLOP_BASE_THREADS_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct pool;
typedef void pool_fn(void *ctx, int thread, int n_threads);

/* Opens N_THREADS >= 1 threads, pinned to distinct allowed processors if there are enough, first one per core. */
int pool_new(struct pool **out, int n_threads, struct err *e);
int pool_threads(const struct pool *p);
/* Runs FN(CTX, thread, n_threads) on every thread. Returns after all of them have returned. */
void pool_run(struct pool *p, pool_fn *fn, void *ctx);
void pool_free(struct pool *p); /* P may be NULL */

/* Returns the nanoseconds that callers of pool_run() have waited for other threads after their own share. */
uint64_t pool_waited_ns(const struct pool *p);

/* A function that does tasks [BEGIN, END). THREAD will probably do [END, END_OF_RANGE) next. */
typedef void pool_range_fn(void *ctx, int thread, size_t begin, size_t end, size_t end_of_range);

/* Runs N tasks, at most 2^32 - 1, each once. Every thread does its pool_share() in ascending order, half of
 * its remaining tasks at a time. A thread that has finished takes tasks from the ends of the next eight
 * shares (work stealing), so that slow threads delay the job less. */
void pool_run_ranges(struct pool *p, size_t n, pool_range_fn *fn, void *ctx);

/* Adds a user of P, and returns P. Each user calls pool_free(), in any order and from any thread; the last call ends
 * the threads. Users that are not on one thread call the other functions of P between pool_lock() and pool_unlock(). */
struct pool *pool_join(struct pool *p);

/* A fair lock for users on several threads: one at a time runs jobs and reserves scratch, in the order of the calls of
 * pool_lock(). Without contention neither function makes a system call. Not recursive. */
void pool_lock(struct pool *p);
void pool_unlock(struct pool *p);

/* Gives every thread at least BYTES of scratch, aligned to 64 bytes. The old contents are lost. Must not be
 * called during a job. ERR_NOMEM: the scratch is unchanged. */
int pool_reserve(struct pool *p, size_t bytes, struct err *e);
size_t pool_scratch_bytes(const struct pool *p); /* bytes of scratch of each thread */
/* Returns the scratch of THREAD, valid until the next pool_reserve(). */
void *pool_scratch(const struct pool *p, int thread);

/* Computes the share [*BEGIN, *END) of THREAD when N equal tasks are divided among N_THREADS threads. Shares
 * begin at multiples of UNIT. */
void pool_share(size_t n, size_t unit, int thread, int n_threads, size_t *begin, size_t *end);

#endif
