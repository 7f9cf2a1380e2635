/* workers.c - a queue of jobs that wait, and one of jobs that are finished. */
#include "api/workers.h"

#include <string.h>

#include "base/err.h"
#include "base/mem.h"

static void append(struct workers_list *l, struct workers_job *job)
{
    job->next = NULL;
    *l->last = job;
    l->last = &job->next;
}

static struct workers_job *take_first(struct workers_list *l)
{
    struct workers_job *job = l->first;

    if (job && (l->first = job->next) == NULL)
        l->last = &l->first;
    return job;
}

static void *work(void *ctx)
{
    struct workers *f = ctx;
    struct workers_job *job = NULL;

    pthread_mutex_lock(&f->lock);
    for (;;) {
        while (!f->stops && (job = take_first(&f->waiting)) == NULL)
            pthread_cond_wait(&f->work, &f->lock);
        if (f->stops)
            break;
        pthread_mutex_unlock(&f->lock);
        job->run(job);
        pthread_mutex_lock(&f->lock);
        append(&f->done, job);
        f->wake(f->ctx);
    }
    pthread_mutex_unlock(&f->lock);
    return NULL;
}

int workers_open(struct workers *f, size_t n_threads, void (*wake)(void *ctx), void *ctx, struct err *e)
{
    int rc = 0;

    *f = (struct workers){.wake = wake, .ctx = ctx};
    f->waiting.last = &f->waiting.first;
    f->done.last = &f->done.first;
    f->thread = mem_zalloc(n_threads, sizeof(*f->thread), MEM_API);
    if (!f->thread)
        return err_nomem(e, "the server's threads");
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->work, NULL);
    while (f->n < n_threads && (rc = thread_start(&f->thread[f->n], work, f)) == 0)
        pthread_setname_np(f->thread[f->n++].id, "api");
    return rc ? err_set(e, ERR_OS, "no thread can be started for requests: %s", strerror(rc)) : 0;
}

void workers_close(struct workers *f)
{
    if (!f->thread)
        return;
    pthread_mutex_lock(&f->lock);
    f->stops = true;
    pthread_cond_broadcast(&f->work);
    pthread_mutex_unlock(&f->lock);
    while (f->n)
        thread_join(&f->thread[--f->n]);
    pthread_cond_destroy(&f->work);
    pthread_mutex_destroy(&f->lock);
    mem_free(f->thread);
    f->thread = NULL;
}

void workers_add(struct workers *f, struct workers_job *job)
{
    pthread_mutex_lock(&f->lock);
    append(&f->waiting, job);
    pthread_cond_signal(&f->work);
    pthread_mutex_unlock(&f->lock);
}

struct workers_job *workers_done(struct workers *f)
{
    struct workers_job *first;

    pthread_mutex_lock(&f->lock);
    first = f->done.first;
    f->done.first = NULL;
    f->done.last = &f->done.first;
    pthread_mutex_unlock(&f->lock);
    return first;
}
