/* workers.c - threads that take jobs from queues, a client at a time, and put finished jobs into another queue. */
#include "api/workers.h"

#include <string.h>

#include "base/err.h"
#include "base/mem.h"

static struct workers_job *job_of(struct turns_item *turn)
{
    return (struct workers_job *)(void *)turn;
}

static struct turns_item *take_large(struct workers_team *t)
{
    return t->n_large < t->most_large ? turns_take(&t->large) : NULL;
}

/* Returns the job that a free thread of T does next, or NULL. If T has several threads, one of them is always
 * left to small jobs, and a large job goes first while none is running, so that neither size waits for ever.
 * A single thread alternates between the two sizes. */
static struct workers_job *take_job(struct workers_team *t)
{
    bool large_first = t->n_large == 0 && !(t->n_threads == 1 && t->was_large);
    struct turns_item *turn = large_first ? take_large(t) : NULL;

    if (!turn)
        turn = turns_take(&t->small);
    if (!turn)
        turn = take_large(t);
    if (turn) {
        t->was_large = job_of(turn)->is_large;
        t->n_large += t->was_large;
    }
    return turn ? job_of(turn) : NULL;
}

static void enqueue(struct workers_team *t, struct workers_job *job)
{
    job->turn.client = job->client;
    turns_add(job->is_large ? &t->large : &t->small, &job->turn);
    pthread_cond_signal(&t->work);
}

/* Moves JOB, which a thread of T has run, to the threads that compile constraints, or to the list of finished
 * jobs. */
static void put_away(struct workers_team *t, struct workers_job *job)
{
    struct workers *w = t->workers;

    turns_give(job->is_large ? &t->large : &t->small, job->turn.client);
    t->n_large -= job->is_large;
    pthread_cond_signal(&t->work); /* the client's next job may have waited for the end of this one */
    if (job->then) {
        job->run = job->then;
        job->then = NULL;
        job->is_large = false; /* the threads that compile constraints do not distinguish sizes */
        enqueue(&w->compilers, job);
        return;
    }
    job->next = NULL;
    *w->done.last = job;
    w->done.last = &job->next;
    w->wake(w->ctx);
}

static void *work(void *ctx)
{
    struct workers_team *t = ctx;
    struct workers *w = t->workers;
    struct workers_job *job = NULL;

    if (t == &w->compilers)
        thread_give_way();
    pthread_mutex_lock(&w->lock);
    for (;;) {
        while (!w->stops && (job = take_job(t)) == NULL)
            pthread_cond_wait(&t->work, &w->lock);
        if (w->stops)
            break;
        pthread_mutex_unlock(&w->lock);
        job->run(job);
        pthread_mutex_lock(&w->lock);
        put_away(t, job);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* Starts the N_THREADS threads of T. At most MOST of them run small jobs of the same client; 0: no limit. */
static int team_open(struct workers_team *t, size_t n_threads, size_t most, const char *name, struct err *e)
{
    int rc = 0;

    t->n_threads = n_threads;
    t->most_large = n_threads > 1 ? n_threads - 1 : 1;
    turns_init(&t->small, most);
    turns_init(&t->large, t->most_large > 1 ? t->most_large - 1 : 1);
    t->thread = mem_zalloc(n_threads, sizeof(*t->thread), MEM_API);
    if (!t->thread)
        return err_nomem(e, "the server's threads");
    while (t->n < n_threads && (rc = thread_start(&t->thread[t->n], work, t)) == 0)
        pthread_setname_np(t->thread[t->n++].id, name);
    return rc ? err_set(e, ERR_OS, "no thread can be started for requests: %s", strerror(rc)) : 0;
}

int workers_open(struct workers *w, size_t n_threads, void (*wake)(void *ctx), void *ctx, struct err *e)
{
    size_t n_compile = n_threads < 2 ? 2 : n_threads;
    int rc;

    memset(w, 0, sizeof(*w));
    w->is_open = true;
    w->wake = wake;
    w->ctx = ctx;
    w->done.last = &w->done.first;
    w->front.workers = w->compilers.workers = w;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->front.work, NULL);
    pthread_cond_init(&w->compilers.work, NULL);
    rc = team_open(&w->front, n_threads, 0, "api", e);
    return rc ? rc : team_open(&w->compilers, n_compile, n_compile - 1, "compile", e);
}

static void team_close(struct workers_team *t)
{
    while (t->n)
        thread_join(&t->thread[--t->n]);
    pthread_cond_destroy(&t->work);
    mem_free(t->thread);
    t->thread = NULL;
}

void workers_close(struct workers *w)
{
    if (!w->is_open)
        return;
    pthread_mutex_lock(&w->lock);
    w->stops = true;
    pthread_cond_broadcast(&w->front.work);
    pthread_cond_broadcast(&w->compilers.work);
    pthread_mutex_unlock(&w->lock);
    team_close(&w->front);
    team_close(&w->compilers);
    pthread_mutex_destroy(&w->lock);
    w->is_open = false;
}

void workers_add(struct workers *w, struct workers_job *job)
{
    pthread_mutex_lock(&w->lock);
    enqueue(&w->front, job);
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
