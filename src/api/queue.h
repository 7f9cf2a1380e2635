/* queue.h - limits the number of answers that wait or run at the same time, in total and for each client.
 *
 * Each answer (choice) occupies one place in the queue. A request takes one place when it arrives. Once its
 * body is read, it takes a place for each of its answers. The tokens of waiting prompts are limited in the
 * same way. With --scheduling-policy fair the clients share places and tokens as base/shares.h says. Every
 * function may be called on any thread.
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
    uint32_t client;  /* the client's number (engine_fair_key()) */
};

void queue_init(struct queue *q, size_t n_places, size_t most_tokens, bool fair);
void queue_fini(struct queue *q);

/* Returns the maximum number of places that one request can get while the queue is empty. */
size_t queue_most_places(const struct queue *q);

/* Takes the first place of a request for CLIENT. Returns false if no place is free. KNOWN is false if the
 * field `user` of the body, which is not read yet, may name a different client. Then CLIENT's fair share is
 * not checked. */
bool queue_enter(struct queue *q, struct queue_places *p, uint32_t client, bool known);

/* Extends P from one place to N places, which count for CLIENT. Returns false if too few places are free for
 * this client. */
bool queue_extend(struct queue *q, struct queue_places *p, uint32_t client, size_t n);

/* Gives back N places of P. */
void queue_leave(struct queue *q, struct queue_places *p, size_t n);

/* Adds N prompt tokens of CLIENT to the waiting tokens. Returns false if this would exceed the limit, or the
 * client's share of it. A prompt of any length is accepted if nothing else waits. */
bool queue_add_tokens(struct queue *q, uint32_t client, size_t n);
void queue_remove_tokens(struct queue *q, uint32_t client, size_t n);
bool queue_is_full_of_tokens(const struct queue *q);

#endif
