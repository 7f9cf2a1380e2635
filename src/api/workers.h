/* workers.h - threads that prepare requests (JSON, chat templates, tokenizing, constraints) and write long answers.
 *
 * The server's thread queues jobs for these worker threads and collects finished jobs, so that a long prompt or a
 * large template does not delay the streams of other clients. Clients take turns (base/threads/turns.h): a client with
 * many jobs delays those of another client by one job for each thread. If there are several threads, large jobs leave
 * one of them to the others. If there are three or more, the large jobs of one client also leave one of the rest to
 * other clients.
 *
 * Constraints on answers are compiled by threads of their own, of which one client never holds all, so that neither
 * other requests nor the constraints of other clients wait for it.
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
    struct turns_item turn;               /* of a waiting job */
    struct workers_job *next;             /* next finished job */
    void (*run)(struct workers_job *job); /* does the job, on a worker thread */
    /* Set by RUN: does the rest of the job, on a thread that compiles. NULL: the job is finished. */
    void (*then)(struct workers_job *job);
    uint32_t client; /* number of the client (base/shares.h) whose turn it waits for */
    bool is_large;   /* the job may take long */
};

struct workers_list {
    struct workers_job *first, **last;
};

struct workers;

/* Threads with the same kind of jobs. */
struct workers_team {
    struct workers *workers;
    struct thread *thread; /* [n] of the n_threads that are started */
    size_t n, n_threads;
    pthread_cond_t work;
    struct turns small, large; /* waiting jobs of each size */
    size_t n_large;            /* large jobs that run now */
    size_t most_large;         /* maximum number of them */
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

/* Starts N_THREADS threads, and as many that compile, but at least two. They call WAKE(CTX) whenever a job is
 * finished. */
int workers_open(struct workers *w, size_t n_threads, void (*wake)(void *ctx), void *ctx, struct err *e);
/* Waits for the running jobs, and ends the threads. A zeroed W is allowed. */
void workers_close(struct workers *w);

void workers_add(struct workers *w, struct workers_job *job);
/* Removes all finished jobs from W, and returns them as a list linked by NEXT. */
struct workers_job *workers_done(struct workers *w);

#endif
