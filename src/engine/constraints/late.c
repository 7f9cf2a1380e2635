/* late.c - the threads that compute deferred masks, and their queue of jobs. */
#include "engine/constraints/late.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "engine/constraints/constraints.h"

/* A job: a constraint that one thread at a time may use, and the masks to make with it. After each mask the job waits
 * for its next turn, so that no constraint waits for all masks of another one. It waits as an item of the client whose
 * answer needs the next mask. */
struct late_job {
    struct turns_item turn;
    struct late_job *next; /* next finished job */
    struct constraints_entry *entry;
    struct late_mask *mask; /* list of all masks */
    struct late_mask *at;   /* the next mask to make; NULL: none */
};

struct late_mask *late_mask_new(size_t mask_words)
{
    struct late_mask *x = mem_zalloc(1, sizeof(*x) + mask_words * sizeof(*x->mask), MEM_ENGINE);

    if (x)
        x->mask = (uint32_t *)(void *)(x + 1);
    return x;
}

void late_mask_free(struct late_mask *x)
{
    if (x && x->is_lent)
        x->is_orphan = true;
    else
        mem_free(x);
}

bool late_mask_make(struct late_mask *x, struct constraint_run *run)
{
    bool is_added = !x->has_token || constraint_run_add(run, x->token);

    if (!is_added && constraint_is_paused(run->c))
        return false;
    if (!is_added && constraint_run_error(run, &x->err) == 0)
        err_set(&x->err, ERR_NOSPACE, "the constraint on the answer exceeded its limit of memory or work");
    x->has_token = x->has_token && !is_added;
    if (x->err.code == 0)
        x->n_allowed = constraint_run_mask(run, x->mask, &x->err);
    x->is_made = x->err.code != 0 || !constraint_is_paused(run->c);
    return x->is_made;
}

/* ---- threads ---- */

static void append(struct late_work *w, struct late_job *job)
{
    job->turn.client = job->at->run.client;
    turns_add(&w->turns, &job->turn);
}

static struct late_job *take_first(struct late_work *w)
{
    return (struct late_job *)(void *)turns_take(&w->turns);
}

/* Makes the next mask of JOB. TURN is the number of the turn, for tests. */
static void make_one(const struct late_work *w, struct late_job *job, size_t turn)
{
    struct late_mask *x = job->at;
    double begin;

    if (w->door)
        w->door(w->door_ctx, turn, x->run.client);
    begin = clock_seconds();
    x->run.steps = NULL;
    late_mask_make(x, &x->run);
    x->seconds += clock_seconds() - begin;
    job->at = x->next;
}

static void *late_run(void *ctx)
{
    struct late_work *w = ctx;
    struct late_job *job = NULL;
    size_t turn;

    thread_give_way();
    pthread_mutex_lock(&w->lock);
    for (;;) {
        while (!w->stops && (job = take_first(w)) == NULL)
            pthread_cond_wait(&w->work, &w->lock);
        if (w->stops)
            break;
        turn = w->n_turns++;
        pthread_mutex_unlock(&w->lock);
        make_one(w, job, turn);
        pthread_mutex_lock(&w->lock);
        turns_give(&w->turns, job->turn.client);
        if (job->at) {
            append(w, job);
            continue;
        }
        job->next = w->finished;
        w->finished = job;
        atomic_fetch_add(&w->n_finished, 1);
        pthread_cond_signal(&w->done);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* Starts the threads, unless they run. Returns false if no thread could be started. */
static bool start_threads(struct late_work *w, struct constraints *c)
{
    if (w->constraints)
        return w->n_threads > 0;
    w->constraints = c;
    turns_init(&w->turns, 0);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->work, NULL);
    pthread_cond_init(&w->done, NULL);
    while (w->n_threads < LATE_THREADS && thread_start(&w->thread[w->n_threads], late_run, w) == 0)
        pthread_setname_np(w->thread[w->n_threads++].id, "masks");
    return w->n_threads > 0;
}

/* ---- jobs ---- */

struct late_job *late_begin(struct late_work *w, struct constraints *c, struct constraints_entry *entry)
{
    struct late_job *job = start_threads(w, c) ? mem_zalloc(1, sizeof(*job), MEM_ENGINE) : NULL;

    if (job)
        job->entry = entry;
    return job;
}

void late_add(struct late_job *job, struct late_mask *mask, struct constraint_run *run)
{
    mask->next = job->mask;
    job->mask = mask;
    mask->is_lent = true;
    mask->home = run;
    mask->run = *run;
    *run = (struct constraint_run){.c = NULL};
}

void late_lend(struct late_work *w, struct late_job *job)
{
    job->at = job->mask;
    constraints_lend(w->constraints, job->entry, true);
    pthread_mutex_lock(&w->lock);
    append(w, job);
    pthread_cond_signal(&w->work);
    pthread_mutex_unlock(&w->lock);
}

/* Ends JOB: gives its runs back. */
static void end_job(struct late_work *w, struct late_job *job)
{
    for (struct late_mask *x = job->mask, *next; x; x = next) {
        next = x->next;
        x->is_lent = false;
        x->was_lent = true;
        w->n_masks += x->is_made;
        if (x->is_orphan) {
            constraint_run_close(&x->run);
            mem_free(x);
        } else {
            *x->home = x->run;
            x->run = (struct constraint_run){.c = NULL};
        }
    }
    constraints_lend(w->constraints, job->entry, false);
    mem_free(job);
}

void late_take(struct late_work *w)
{
    struct late_job *job, *next;

    if (atomic_load_explicit(&w->n_finished, memory_order_relaxed) == 0)
        return;
    pthread_mutex_lock(&w->lock);
    job = w->finished;
    w->finished = NULL;
    atomic_store(&w->n_finished, 0);
    pthread_mutex_unlock(&w->lock);
    for (; job; job = next) {
        next = job->next;
        end_job(w, job);
    }
}

void late_wait(struct late_work *w, double seconds)
{
    struct timespec until = clock_at(clock_seconds() + seconds);

    if (!w->constraints)
        return;
    pthread_mutex_lock(&w->lock);
    while (!w->finished && pthread_cond_clockwait(&w->done, &w->lock, CLOCK_MONOTONIC, &until) == 0)
        ;
    pthread_mutex_unlock(&w->lock);
}

void late_close(struct late_work *w)
{
    struct late_job *job;

    if (!w->constraints)
        return;
    pthread_mutex_lock(&w->lock);
    w->stops = true;
    pthread_cond_broadcast(&w->work);
    pthread_mutex_unlock(&w->lock);
    while (w->n_threads)
        thread_join(&w->thread[--w->n_threads]);
    while ((job = take_first(w)) != NULL)
        end_job(w, job);
    late_take(w);
    pthread_cond_destroy(&w->work);
    pthread_cond_destroy(&w->done);
    pthread_mutex_destroy(&w->lock);
    memset(w, 0, sizeof(*w));
}
