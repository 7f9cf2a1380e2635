/* queue.c - counts the occupied places of the queue under a lock, in total and for each client. */
#include "api/queue.h"

#include <string.h>

void queue_init(struct queue *q, size_t n_places, size_t most_tokens, bool fair)
{
    pthread_mutex_init(&q->lock, NULL);
    q->n_places = n_places;
    q->most_tokens = most_tokens;
    q->fair = fair;
}

void queue_fini(struct queue *q)
{
    pthread_mutex_destroy(&q->lock);
}

size_t queue_most_places(const struct queue *q)
{
    size_t most = q->n_places;

    return q->fair && most > 1 ? most - most / 4 - (most % 4 != 0) : most;
}

static uint32_t fair_key(const char *key)
{
    return engine_fair_key(key, strlen(key));
}

/* Takes N more places for the client KEY; the caller holds the lock. ANY: the client is not known yet, so its
 * fair share is not checked. Returns false if too few places are free. */
static bool take_places(struct queue *q, uint32_t key, size_t n, bool any)
{
    size_t taken = atomic_load(&q->n_taken), left = q->n_places > taken ? q->n_places - taken : 0;

    if (n > left || (q->fair && !any && q->taken_by[key] + n > 1 && q->taken_by[key] + n > 3 * (left - n)))
        return false;
    atomic_fetch_add(&q->n_taken, n);
    q->taken_by[key] += n;
    return true;
}

static void give_places(struct queue *q, uint32_t key, size_t n)
{
    atomic_fetch_sub(&q->n_taken, n);
    q->taken_by[key] -= n;
}

bool queue_enter(struct queue *q, struct queue_places *p, const char *key)
{
    bool good;

    p->key = fair_key(key);
    pthread_mutex_lock(&q->lock);
    good = take_places(q, p->key, 1, !key[0]);
    pthread_mutex_unlock(&q->lock);
    p->n = good;
    return good;
}

bool queue_extend(struct queue *q, struct queue_places *p, const char *key, size_t n)
{
    uint32_t to = fair_key(key);
    bool good;

    pthread_mutex_lock(&q->lock);
    give_places(q, p->key, 1);
    good = take_places(q, to, n, false);
    if (good) {
        p->key = to;
        p->n = n;
    } else {
        take_places(q, p->key, 1, true);
    }
    pthread_mutex_unlock(&q->lock);
    return good;
}

void queue_leave(struct queue *q, struct queue_places *p, size_t n)
{
    pthread_mutex_lock(&q->lock);
    give_places(q, p->key, n);
    p->n -= n;
    pthread_mutex_unlock(&q->lock);
}

bool queue_is_full_of_tokens(const struct queue *q)
{
    return q->most_tokens && atomic_load(&q->n_tokens) >= q->most_tokens;
}

bool queue_add_tokens(struct queue *q, size_t n)
{
    size_t old = atomic_load(&q->n_tokens);

    do
        if (q->most_tokens && old && (old >= q->most_tokens || n > q->most_tokens - old))
            return false;
    while (!atomic_compare_exchange_weak(&q->n_tokens, &old, old + n));
    return true;
}

void queue_remove_tokens(struct queue *q, size_t n)
{
    atomic_fetch_sub(&q->n_tokens, n);
}
