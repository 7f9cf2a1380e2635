/* front.h - threads that prepare requests (JSON, chat templates, tokenizing) and write answers that are long.
 * The server's thread hands them jobs and takes back those that are done, so that neither a long prompt nor a
 * large template holds up the streams of others.
 */
#ifndef GALLOP_API_FRONT_H
#define GALLOP_API_FRONT_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/threads/thread.h"

/* Part of what is to be done. */
struct front_job {
    struct front_job *next;
    void (*run)(struct front_job *job); /* on a thread of the front */
};

struct front_list {
    struct front_job *first, **last;
};

struct front {
    struct thread *thread; /* [n] */
    size_t n;
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct front_list waiting, done;
    bool stops;
    void (*wake)(void *ctx);
    void *ctx;
};

/* WAKE is called when a job is done. */
int front_open(struct front *f, size_t n_threads, void (*wake)(void *ctx), void *ctx, struct err *e);
void front_close(struct front *f); /* when what was begun is done; a zeroed one is fine */

void front_add(struct front *f, struct front_job *job);
struct front_job *front_done(struct front *f); /* all jobs that are done, by next */

#endif
