/* workers.c - threads that take jobs from a queue and put finished jobs into another queue. */
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
    struct workers *w = ctx;
    struct workers_job *job = NULL;

    pthread_mutex_lock(&w->lock);
    for (;;) {
        while (!w->stops && (job = take_first(&w->waiting)) == NULL)
            pthread_cond_wait(&w->work, &w->lock);
        if (w->stops)
            break;
        pthread_mutex_unlock(&w->lock);
        job->run(job);
        pthread_mutex_lock(&w->lock);
        append(&w->done, job);
        w->wake(w->ctx);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

int workers_open(struct workers *w, size_t n_threads, void (*wake)(void *ctx), void *ctx, struct err *e)
{
    int rc = 0;

    *w = (struct workers){.wake = wake, .ctx = ctx};
    w->waiting.last = &w->waiting.first;
    w->done.last = &w->done.first;
    w->thread = mem_zalloc(n_threads, sizeof(*w->thread), MEM_API);
    if (!w->thread)
        return err_nomem(e, "the server's threads");
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->work, NULL);
    while (w->n < n_threads && (rc = thread_start(&w->thread[w->n], work, w)) == 0)
        pthread_setname_np(w->thread[w->n++].id, "api");
    return rc ? err_set(e, ERR_OS, "no thread can be started for requests: %s", strerror(rc)) : 0;
}

void workers_close(struct workers *w)
{
    if (!w->thread)
        return;
    pthread_mutex_lock(&w->lock);
    w->stops = true;
    pthread_cond_broadcast(&w->work);
    pthread_mutex_unlock(&w->lock);
    while (w->n)
        thread_join(&w->thread[--w->n]);
    pthread_cond_destroy(&w->work);
    pthread_mutex_destroy(&w->lock);
    mem_free(w->thread);
    w->thread = NULL;
}

void workers_add(struct workers *w, struct workers_job *job)
{
    pthread_mutex_lock(&w->lock);
    append(&w->waiting, job);
    pthread_cond_signal(&w->work);
    pthread_mutex_unlock(&w->lock);
}

struct workers_job *workers_done(struct workers *w)
{
    struct workers_job *first;

    pthread_mutex_lock(&w->lock);
    first = w->done.first;
    w->done.first = NULL;
    w->done.last = &w->done.first;
    pthread_mutex_unlock(&w->lock);
    return first;
}
