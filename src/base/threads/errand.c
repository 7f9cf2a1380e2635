/* errand.c - runs a function on a thread and keeps its result. */
#include "base/threads/errand.h"

#include <string.h>

#include "base/clock.h"

void errand_init(struct errand *r)
{
    *r = (struct errand){.runs = false};
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->ended, NULL);
}

void errand_fini(struct errand *r)
{
    if (r->runs)
        errand_take(r, NULL);
    pthread_cond_destroy(&r->ended);
    pthread_mutex_destroy(&r->lock);
}

static void *errand_run(void *arg)
{
    struct errand *r = arg;

    r->rc = r->fn(r->ctx, &r->err);
    pthread_mutex_lock(&r->lock);
    r->has_ended = true;
    pthread_cond_signal(&r->ended);
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

int errand_start(struct errand *r, int (*fn)(void *ctx, struct err *e), void *ctx, struct err *e)
{
    int rc;

    ASSERT(!r->runs);
    r->fn = fn;
    r->ctx = ctx;
    r->has_ended = false;
    r->err = (struct err){0};
    if ((rc = thread_start(&r->thread, errand_run, r)) != 0)
        return err_set(e, ERR_OS, "no thread can be started: %s", strerror(rc));
    r->runs = true;
    return 0;
}

bool errand_wait(struct errand *r, double seconds)
{
    struct timespec until = clock_at(clock_seconds() + seconds);
    bool ended;

    if (!r->runs)
        return true;
    pthread_mutex_lock(&r->lock);
    while (!r->has_ended && pthread_cond_clockwait(&r->ended, &r->lock, CLOCK_MONOTONIC, &until) == 0)
        ;
    ended = r->has_ended;
    pthread_mutex_unlock(&r->lock);
    return ended;
}

void errand_leave(struct errand *r)
{
    ASSERT(r->runs);
    thread_detach(&r->thread);
}

int errand_take(struct errand *r, struct err *e)
{
    ASSERT(r->runs);
    thread_join(&r->thread);
    r->runs = false;
    if (r->rc && e)
        *e = r->err;
    return r->rc;
}
