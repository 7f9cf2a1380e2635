/* queue.h - the places of the queue: how many answers may be computed or wait, and whose they are.
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
    size_t most_tokens; /* tokens of prompts that may wait; 0: any number */
    bool fair;
    _Atomic size_t n_taken;
    size_t taken_by[ENGINE_FAIR_KEYS]; /* of n_taken, the places of each key */
    _Atomic size_t n_tokens;           /* tokens of prompts that wait */
};

/* The places of one request. */
struct queue_places {
    _Atomic size_t n; /* gauges read it at any time */
    uint32_t key;     /* engine_fair_key() of the client */
};

void queue_init(struct queue *q, size_t n_places, size_t most_tokens, bool fair);
void queue_fini(struct queue *q);

/* The places that a request may have when there is no other. */
size_t queue_most_places(const struct queue *q);

/* Takes the first place of a request for the client KEY ("": not known yet). False: there is none. */
bool queue_enter(struct queue *q, struct queue_places *p, const char *key);

/* P, which has one place, gets N in all, as those of the client KEY. False: there are not so many for it. */
bool queue_extend(struct queue *q, struct queue_places *p, const char *key, size_t n);

void queue_leave(struct queue *q, struct queue_places *p, size_t n);

/* N tokens of a prompt wait from now on. False: too many wait already; a prompt alone never is too long. */
bool queue_add_tokens(struct queue *q, size_t n);
void queue_remove_tokens(struct queue *q, size_t n);
bool queue_is_full_of_tokens(const struct queue *q);

#endif
