/* workers.h - threads that prepare requests (JSON, chat templates, tokenizing, constraints) and write long answers.
 *
 * The server's thread queues jobs for these worker threads and collects finished jobs, so that a long prompt or a large
 * template does not delay the streams of other clients. Clients take turns (base/threads/turns.h): a client with many
 * jobs delays those of another client by one job for each thread. If there are several threads, one of them never runs
 * large jobs, so that small jobs need not wait for them. If there are three or more, one client's large jobs also leave
 * one of the other threads to the large jobs of other clients.
 *
 * Separate threads compile constraints on answers, so that other requests do not wait for them. One client never
 * occupies all of these threads, so that the constraints of other clients do not wait for its own.
 */
#ifndef GALLOP_API_WORKERS_H
#define GALLOP_API_WORKERS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/threads/thread.h"
#include "base/threads/turns.h"

struct err;

/* The header of a job: the first member of a struct with the job's data. */
struct workers_job {
    struct turns_item turn;               /* entry of a waiting job in its client's list */
    struct workers_job *next;             /* next finished job */
    void (*run)(struct workers_job *job); /* does the job, on a worker thread */
    /* RUN sets this to a second part of the job, which a thread for constraints then runs. NULL: the job is finished
     * when RUN returns. */
    void (*then)(struct workers_job *job);
    uint32_t client; /* number of the job's client (base/shares.h) */
    bool is_large;   /* the job may take long */
};

struct workers_list {
    struct workers_job *first, **last;
};

struct workers;

/* The threads for one kind of jobs: those that prepare requests, or those that compile constraints. */
struct workers_team {
    struct workers *workers;
    struct thread *thread; /* [n_threads], of which the first N were started */
    size_t n, n_threads;
    pthread_cond_t work;
    struct turns small, large; /* waiting small jobs, and waiting large jobs */
    size_t n_large;            /* large jobs that run now */
    size_t most_large;         /* maximum of n_large */
    bool was_large;            /* the latest job that began is large */
};

struct workers {
    bool is_open;
    pthread_mutex_t lock;
    struct workers_team front, compilers;
    struct workers_list done;
    bool stops;
    void (*wake)(void *ctx);
    void *ctx;
};

/* Starts N_THREADS threads that prepare requests, and the same number, but at least two, that compile
 * constraints. They call WAKE(CTX) whenever a job is finished. */
int workers_open(struct workers *w, size_t n_threads, void (*wake)(void *ctx), void *ctx, struct err *e);
/* Waits for the running jobs, and ends the threads. A zeroed W is allowed. */
void workers_close(struct workers *w);

void workers_add(struct workers *w, struct workers_job *job);
/* Removes all finished jobs from W, and returns them as a list linked by NEXT. */
struct workers_job *workers_done(struct workers *w);

#endif
