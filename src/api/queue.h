/* queue.h - limits the number of answers that wait or run at the same time, in total and for each client.
 *
 * Each answer occupies a place of the queue. A request takes one place when it arrives, and one for each of its
 * answers once its body is read. With --scheduling-policy fair a client that already has places may not have more
 * than three times as many places as stay free for others. Every function may be called on any thread.
 */
#ifndef GALLOP_API_QUEUE_H
#define GALLOP_API_QUEUE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/engine.h"

struct queue {
    pthread_mutex_t lock;
    size_t n_places;                   /* maximum number of answers */
    size_t most_tokens;                /* maximum number of waiting prompt tokens; 0: no limit */
    bool fair;                         /* --scheduling-policy fair */
    _Atomic size_t n_taken;            /* places that are occupied */
    size_t taken_by[ENGINE_FAIR_KEYS]; /* occupied places of each client */
    _Atomic size_t n_tokens;           /* waiting prompt tokens */
};

/* The places of one request. */
struct queue_places {
    _Atomic size_t n; /* number of places; metrics read it without the lock */
    uint32_t key;     /* engine_fair_key() of the client */
};

void queue_init(struct queue *q, size_t n_places, size_t most_tokens, bool fair);
void queue_fini(struct queue *q);

/* Returns the maximum number of places that one request can get while the queue is empty. */
size_t queue_most_places(const struct queue *q);

/* Takes the first place of a request for the client KEY ("": the client is not known yet). Returns false if
 * no place is free. */
bool queue_enter(struct queue *q, struct queue_places *p, const char *key);

/* Extends P from one place to N places, which count for the client KEY. Returns false if too few places are
 * free for this client. */
bool queue_extend(struct queue *q, struct queue_places *p, const char *key, size_t n);

/* Gives back N places of P. */
void queue_leave(struct queue *q, struct queue_places *p, size_t n);

/* Adds N prompt tokens to the waiting tokens. False: the limit would be exceeded. If no other tokens wait, a prompt
 * of any length is accepted. */
bool queue_add_tokens(struct queue *q, size_t n);
void queue_remove_tokens(struct queue *q, size_t n);
bool queue_is_full_of_tokens(const struct queue *q);

#endif
