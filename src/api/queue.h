/* queue.h - limits the number of answers that wait or run at the same time, in total and for each client.
 *
 * Each answer occupies a place of the queue. A request takes one place when it arrives, and one for each of its
 * answers once its body is read. The tokens of prompts that wait are limited in the same way. With
 * --scheduling-policy fair the clients share places and tokens as base/shares.h says. Every function may be called on
 * any thread.
 */
#ifndef GALLOP_API_QUEUE_H
#define GALLOP_API_QUEUE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/shares.h"

struct queue {
    pthread_mutex_t lock;
    size_t n_places;      /* maximum number of answers */
    size_t most_tokens;   /* maximum number of waiting prompt tokens; 0: no limit */
    struct shares places; /* occupied places; the lock is held while they change */
    struct shares tokens; /* waiting prompt tokens */
};

/* The places of one request. */
struct queue_places {
    _Atomic size_t n; /* number of places; metrics read it without the lock */
    uint32_t client;  /* engine_fair_key() of the client */
};

void queue_init(struct queue *q, size_t n_places, size_t most_tokens, bool fair);
void queue_fini(struct queue *q);

/* Returns the maximum number of places that one request can get while the queue is empty. */
size_t queue_most_places(const struct queue *q);

/* Takes the first place of a request for CLIENT. KNOWN: false if the body may name another client, so that the share
 * of CLIENT does not matter yet. Returns false if no place is free. */
bool queue_enter(struct queue *q, struct queue_places *p, uint32_t client, bool known);

/* Extends P from one place to N places, which count for CLIENT. Returns false if too few places are free for
 * this client. */
bool queue_extend(struct queue *q, struct queue_places *p, uint32_t client, size_t n);

/* Gives back N places of P. */
void queue_leave(struct queue *q, struct queue_places *p, size_t n);

/* Adds N prompt tokens of CLIENT to the waiting tokens. False: the limit, or the client's share of it, would be
 * exceeded. A prompt of any length is accepted if nothing else waits. */
bool queue_add_tokens(struct queue *q, uint32_t client, size_t n);
void queue_remove_tokens(struct queue *q, uint32_t client, size_t n);
bool queue_is_full_of_tokens(const struct queue *q);

#endif
