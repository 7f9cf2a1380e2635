/* team.h - threads that compute several phases within one job of a pool and meet between them.
 *
 * A job of pool.h ends when all threads have finished, and the caller starts the next one: two messages between
 * processors for each job. A meeting takes one: each thread says that it has come and waits until all have.
 * Threads spin at a meeting for about 100 us and then sleep on a futex. No thread takes over the share of another
 * one here, as in pool_run(): if another process keeps a thread from running, all threads wait at the next meeting.
 * So that this does not happen at every meeting of a job, the team parts at the first meeting after one at which a
 * thread has slept: thread 0 then computes the rest of the job alone.
 */
#ifndef GALLOP_BASE_THREADS_TEAM_H
#define GALLOP_BASE_THREADS_TEAM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/threads/pool.h"

struct team;

/* Makes a team of the threads of POOL, which is borrowed. */
int team_new(struct team **out, const struct pool *pool, struct err *e);
void team_free(struct team *t); /* T may be NULL */

/* Begins a job; called before pool_run(). The threads are together. */
void team_begin(struct team *t);

/* The team never parts; for tests. */
void team_stay(struct team *t);

/* Returns after all threads have called the function. What a thread wrote before is then visible to all. */
void team_meet(struct team *t, int thread);

/* Computes the share [*BEGIN, *END) of N rows that THREAD computes: its pool_share(); after the team has parted, all
 * rows for thread 0 and none for others. */
void team_share(const struct team *t, int thread, size_t n, size_t *begin, size_t *end);

/* Returns true if the team has parted and THREAD, another one than 0, computes nothing. */
bool team_is_away(const struct team *t, int thread);

/* Runs the part of N tasks, fewer than 2^24, that falls to THREAD: tasks of its pool_share() and, when these are
 * taken, of the next eight shares, as in pool_run_ranges(). All threads call the function with the same N. Tasks of
 * other threads may still run when it returns. */
void team_tasks(struct team *t, int thread, size_t n, pool_range_fn *fn, void *ctx);

/* Says that what the calling thread wrote before is done: writes NUMBER to WORD [n]. team_wait() returns when *WORD is
 * NUMBER or a later one. */
void team_say(struct team *t, atomic_uint *word, size_t n, unsigned number);
void team_wait(struct team *t, int thread, atomic_uint *word, unsigned number);

/* Return the number of meetings, and how often a thread has slept at one, since team_new(). */
uint64_t team_meetings(const struct team *t);
uint64_t team_sleeps(const struct team *t);

#endif
