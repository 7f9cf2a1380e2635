/* waiting.h - the queue of waiting requests, and the scheduling policies that determine its order.
 *
 *   fcfs       by arrival
 *   priority   by priority, smaller numbers first (as in vLLM), and by arrival within a priority. A
 *              waiting request gains one priority in WAITING_AGE_S seconds, so that none starves
 *   fair       equal shares of computed tokens for all keys (API keys or users) with requests, by
 *              deficit round robin (Shreedhar and Varghese, 1995): keys are visited in rounds. Each
 *              visit adds WAITING_QUANTUM tokens to the credit of the key; its requests are admitted
 *              while the credit is above 0, and the tokens that they compute are subtracted, so that
 *              the credit may become negative. Requests of a key are ordered by priority. Keys are
 *              identified by a hash with WAITING_KEYS values; keys with equal hashes share a credit.
 *              If the sequences of a key hold all slots but one, the last slot goes to another waiting
 *              key regardless of credits, so that no key starves the others
 *
 * A preempted request waits again with its original time of arrival. Nothing is allocated after
 * waiting_open(). Calls cost O(log n), and at the start of a round O(number of waiting keys).
 */
#ifndef GALLOP_ENGINE_SCHEDULE_WAITING_H
#define GALLOP_ENGINE_SCHEDULE_WAITING_H

#include <stdint.h>

#include "base/err.h"
#include "engine/schedule/heap.h"

enum {
    WAITING_KEYS = 1024,
    WAITING_QUANTUM = 512, /* tokens that a visit adds to the credit of a key */
    /* Maximum debt in tokens of a key that joins the queue again after it had no waiting request. */
    WAITING_DEBT = 8 * WAITING_QUANTUM,
    WAITING_AGE_S = 60, /* seconds of waiting that count as one priority */
};

enum waiting_policy { WAITING_FCFS, WAITING_PRIORITY, WAITING_FAIR };

/* The part of a request that the queue uses. */
struct waiting_entry {
    struct heap_node node; /* must be the first member, because it is cast to struct waiting_entry */
    uint64_t order;        /* unique number, ascending with the arrival */
    double arrival_s;      /* time of arrival, on the executor's clock */
    int priority;          /* smaller numbers first */
    uint32_t key;          /* result of waiting_key() */
};

/* The waiting requests of one key. */
struct waiting_key {
    struct heap heap;
    /* Number of tokens that the key may still compute in this round. Below 0: its debt. */
    int64_t credit;
    uint32_t next;    /* index of the next key of the ring */
    size_t n_running; /* number of sequences of the key that hold a slot */
};

struct waiting {
    enum waiting_policy policy;
    struct waiting_key *key; /* [WAITING_KEYS] with the policy fair, else [1] */
    /* index of the last key in the ring of keys with waiting requests; its successor is visited next */
    uint32_t last;
    size_t n_keys; /* number of keys in the ring */
    size_t n;      /* number of waiting requests */
    /* Maximum number of running sequences, set after waiting_open(). 0: unknown, so no slot is reserved for other
     * keys. */
    size_t n_slots;
};

/* Sets *POLICY by its name, "fcfs", "priority" or "fair". Returns false if NAME is unknown. */
bool waiting_policy_of_name(const char *name, enum waiting_policy *policy);
const char *waiting_policy_name(enum waiting_policy policy);

int waiting_open(struct waiting *w, enum waiting_policy policy, struct err *e); /* ERR_NOMEM */
/* Frees the queue, but not the requests. W may be zeroed. */
void waiting_close(struct waiting *w);

/* Returns the hash of the name NAME [n] of a client, from 1 to WAITING_KEYS - 1; 0 if N is 0. */
uint32_t waiting_key(const void *name, size_t n);

void waiting_add(struct waiting *w, struct waiting_entry *r);
void waiting_remove(struct waiting *w, struct waiting_entry *r); /* R must be in the queue */

/* Returns the next request without removing it, or NULL if the queue is empty. */
struct waiting_entry *waiting_next(struct waiting *w);

/* Returns true if A precedes B by arrival (fcfs) or by priority and age (priority, fair), whatever their keys are. */
bool waiting_before(const struct waiting *w, const struct waiting_entry *a, const struct waiting_entry *b);

/* Records that KEY has CHANGE more slots, or fewer if CHANGE is negative. */
void waiting_run(struct waiting *w, uint32_t key, int change);

/* Subtracts TOKENS, which a request of KEY will compute, from the credit of KEY. A negative number gives back
 * tokens that were not computed. */
void waiting_charge(struct waiting *w, uint32_t key, int64_t tokens);

#endif
