/* workers.h - threads that prepare requests (JSON, chat templates, tokenizing) and write long answers.
 *
 * The server's thread hands them jobs and takes finished jobs back, so that neither a long prompt nor a large
 * template delays the streams of other clients.
 */
#ifndef GALLOP_API_WORKERS_H
#define GALLOP_API_WORKERS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/threads/thread.h"

struct err;

/* A job for a worker; it is the first member of a larger struct. */
struct workers_job {
    struct workers_job *next;
    void (*run)(struct workers_job *job); /* on a worker thread */
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

/* WAKE is called when a job is done. */
int workers_open(struct workers *w, size_t n_threads, void (*wake)(void *ctx), void *ctx, struct err *e);
/* Waits for jobs that are running, and ends the threads. W may be zeroed. */
void workers_close(struct workers *w);

void workers_add(struct workers *w, struct workers_job *job);
/* Takes all finished jobs, linked by next. */
struct workers_job *workers_done(struct workers *w);

#endif
