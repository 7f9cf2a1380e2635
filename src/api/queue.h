/* queue.h - limits how many answers wait or are computed, in places of a queue, and how many of these a client has.
 *
 * A request takes one place when it comes, and as many as it has answers once its body is read. With
 * --scheduling-policy fair a key that has places gets more only while it has at most three times as many as
 * are left, so that others find some. Every function may be called on any thread.
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
    size_t n_places;
    size_t most_tokens; /* maximum number of prompt tokens that wait; 0: no limit */
    bool fair;
    _Atomic size_t n_taken;
    size_t taken_by[ENGINE_FAIR_KEYS]; /* of n_taken, the places of each key */
    _Atomic size_t n_tokens;           /* prompt tokens that wait */
};

/* The places of one request. */
struct queue_places {
    _Atomic size_t n; /* gauges read it at any time */
    uint32_t key;     /* engine_fair_key() of the client */
};

void queue_init(struct queue *q, size_t n_places, size_t most_tokens, bool fair);
void queue_fini(struct queue *q);

/* Returns the maximum number of places of one request if there is no other request. */
size_t queue_most_places(const struct queue *q);

/* Takes the first place of a request for the client KEY ("": not known yet). False: there is none. */
bool queue_enter(struct queue *q, struct queue_places *p, const char *key);

/* Extends P from one place to N places, which count for the client KEY. False: too few are free for this client. */
bool queue_extend(struct queue *q, struct queue_places *p, const char *key, size_t n);

/* Gives back N places of P. */
void queue_leave(struct queue *q, struct queue_places *p, size_t n);

/* Counts N tokens of a prompt as waiting. False: the limit is exceeded. A prompt that waits alone is always
 * accepted. */
bool queue_add_tokens(struct queue *q, size_t n);
void queue_remove_tokens(struct queue *q, size_t n);
bool queue_is_full_of_tokens(const struct queue *q);

#endif
