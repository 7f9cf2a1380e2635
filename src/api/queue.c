/* queue.c - the places and tokens of the queue, as two pools that clients share. */
#include "api/queue.h"

void queue_init(struct queue *q, size_t n_places, size_t most_tokens, bool fair)
{
    pthread_mutex_init(&q->lock, NULL);
    q->n_places = n_places;
    q->most_tokens = most_tokens;
    q->places.fair = q->tokens.fair = fair;
}

void queue_fini(struct queue *q)
{
    pthread_mutex_destroy(&q->lock);
}

size_t queue_most_places(const struct queue *q)
{
    return shares_most(&q->places, q->n_places);
}

/* Takes N more places. The caller holds the lock. ANY: CLIENT may exceed its fair share. */
static bool take_places(struct queue *q, uint32_t client, size_t n, bool any)
{
    return shares_take(&q->places, client, n, q->n_places, any ? SIZE_MAX : 1);
}

bool queue_enter(struct queue *q, struct queue_places *p, uint32_t client, bool known)
{
    bool good;

    p->client = client;
    pthread_mutex_lock(&q->lock);
    good = take_places(q, client, 1, !known);
    pthread_mutex_unlock(&q->lock);
    p->n = good;
    return good;
}

bool queue_extend(struct queue *q, struct queue_places *p, uint32_t client, size_t n)
{
    bool good;

    pthread_mutex_lock(&q->lock);
    shares_give(&q->places, p->client, 1);
    good = take_places(q, client, n, false);
    if (good) {
        p->client = client;
        p->n = n;
    } else {
        take_places(q, p->client, 1, true);
    }
    pthread_mutex_unlock(&q->lock);
    return good;
}

void queue_leave(struct queue *q, struct queue_places *p, size_t n)
{
    pthread_mutex_lock(&q->lock);
    shares_give(&q->places, p->client, n);
    p->n -= n;
    pthread_mutex_unlock(&q->lock);
}

bool queue_is_full_of_tokens(const struct queue *q)
{
    return q->most_tokens && atomic_load(&q->tokens.n) >= q->most_tokens;
}

/* Returns the number of waiting tokens that a prompt of N tokens is counted as. It is at most the share of
 * one client, so that a longer prompt is accepted, too, once the queue has room. */
static size_t count_tokens(const struct queue *q, size_t n)
{
    size_t most = q->most_tokens ? shares_most(&q->tokens, q->most_tokens) : n;

    return n < most ? n : most;
}

bool queue_add_tokens(struct queue *q, uint32_t client, size_t n)
{
    return shares_take(&q->tokens, client, count_tokens(q, n), q->most_tokens ? q->most_tokens : SIZE_MAX, 0);
}

void queue_remove_tokens(struct queue *q, uint32_t client, size_t n)
{
    shares_give(&q->tokens, client, count_tokens(q, n));
}
