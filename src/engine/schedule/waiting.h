/* waiting.h - the queue of waiting requests, and the scheduling policies that choose the next one.
 *
 *   fcfs       in order of arrival
 *   priority   by priority, a smaller number first (as in vLLM), equal ones by arrival. A request gains one
 *              priority for each WAITING_AGE_S seconds it waits, so that none starves
 *   fair       equal shares of computed tokens for all keys (API key or user) that have requests, by deficit
 *              round robin (Shreedhar and Varghese, 1995): keys take turns, each turn adds WAITING_QUANTUM
 *              tokens to the key's credit, and requests of a key are admitted while its credit is above 0.
 *              The tokens they compute are subtracted, so that the credit may become negative. Within a key,
 *              requests go by priority. Keys are told apart by a hash of WAITING_KEYS values; keys with equal
 *              hashes share a turn. A key whose sequences hold all slots but one does not get the last slot
 *              while another key waits, whatever their credits are, so that no key starves the others
 *
 * A preempted request waits again with its first time of arrival. Nothing is allocated after waiting_open(),
 * and no call looks at all requests: costs are O(log n), and O(waiting keys) where a round begins.
 */
#ifndef GALLOP_ENGINE_SCHEDULE_WAITING_H
#define GALLOP_ENGINE_SCHEDULE_WAITING_H

#include <stdint.h>

#include "base/err.h"
#include "engine/schedule/heap.h"

enum {
    WAITING_KEYS = 1024,
    WAITING_QUANTUM = 512, /* tokens */
    /* The most that a key still owes when it has had no waiting requests for a while. */
    WAITING_DEBT = 8 * WAITING_QUANTUM,
    WAITING_AGE_S = 60,
};

enum waiting_policy { WAITING_FCFS, WAITING_PRIORITY, WAITING_FAIR };

/* The part of a request that the queue uses. */
struct waiting_entry {
    struct heap_node node; /* must be the first member: the heap's node */
    uint64_t order;        /* number of the arrival, unique */
    double arrival_s;      /* clock */
    int priority;          /* smaller goes first */
    uint32_t key;          /* waiting_key() */
};

/* The waiting requests of one key. */
struct waiting_key {
    struct heap heap;
    /* Tokens that it may still compute in this round. Below 0: tokens that it owes. */
    int64_t credit;
    uint32_t next;    /* next key of the ring */
    size_t n_running; /* its sequences that hold a slot */
};

struct waiting {
    enum waiting_policy policy;
    struct waiting_key *key; /* [WAITING_KEYS] for the fair policy, otherwise [1] */
    uint32_t last;           /* last key of the ring; it is the turn of the key after it */
    size_t n_keys;           /* keys in the ring */
    size_t n;
    /* Sequences that run at once. 0: not known, and no slot is kept free for other keys. Set after
     * waiting_open(). */
    size_t n_slots;
};

bool waiting_policy_of_name(const char *name, enum waiting_policy *policy); /* "fcfs", "priority", "fair" */
const char *waiting_policy_name(enum waiting_policy policy);

int waiting_open(struct waiting *w, enum waiting_policy policy, struct err *e); /* ERR_NOMEM */
/* A zeroed one is fine. The requests belong to the caller. */
void waiting_close(struct waiting *w);

/* The hash of an API key or user. N = 0: no key, hash 0. */
uint32_t waiting_key(const void *name, size_t n);

void waiting_add(struct waiting *w, struct waiting_entry *r);
void waiting_remove(struct waiting *w, struct waiting_entry *r); /* R waits */

/* The request that is next; it stays in the queue. NULL: the queue is empty. */
struct waiting_entry *waiting_next(struct waiting *w);

/* Whether A goes before B by priority and age alone, whatever their keys are. */
bool waiting_before(const struct waiting *w, const struct waiting_entry *a, const struct waiting_entry *b);

/* Tells that a sequence of KEY took a slot (+1) or left it (-1). */
void waiting_run(struct waiting *w, uint32_t key, int change);

/* Charges KEY for TOKENS that a request of it computes. Below 0: returns tokens that were not computed after
 * all. */
void waiting_charge(struct waiting *w, uint32_t key, int64_t tokens);

#endif
