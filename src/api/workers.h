/* workers.h - threads that prepare requests (JSON, chat templates, tokenizing) and write long answers.
 *
 * The server's thread queues jobs for these worker threads and collects finished jobs, so that a long prompt or a
 * large template does not delay the streams of other clients.
 */
#ifndef GALLOP_API_WORKERS_H
#define GALLOP_API_WORKERS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/threads/thread.h"

struct err;

/* The header of a job: the first member of a struct with the job's data. */
struct workers_job {
    struct workers_job *next;             /* next job of the same queue */
    void (*run)(struct workers_job *job); /* does the job, on a worker thread */
};

struct workers_list {
    struct workers_job *first, **last;
};

struct workers {
    struct thread *thread; /* [n] */
    size_t n;
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct workers_list waiting, done;
    bool stops;
    void (*wake)(void *ctx);
    void *ctx;
};

/* Starts N_THREADS threads. They call WAKE(CTX) whenever a job is finished. */
int workers_open(struct workers *w, size_t n_threads, void (*wake)(void *ctx), void *ctx, struct err *e);
/* Waits for the running jobs, and ends the threads. A zeroed W is allowed. */
void workers_close(struct workers *w);

void workers_add(struct workers *w, struct workers_job *job);
/* Removes all finished jobs from W, and returns them as a list linked by NEXT. */
struct workers_job *workers_done(struct workers *w);

#endif
