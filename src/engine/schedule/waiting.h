/* waiting.h - the requests that wait to be computed, and which of them is next: the scheduling policies.
 *
 *   fcfs       in order of arrival
 *   priority   by priority, a smaller number first (as in vLLM), equals by arrival. A request gains one
 *              priority for each WAITING_AGE_S seconds it waits, so that none starves
 *   fair       equal shares of computed tokens for all keys (API key or user) that have requests, by deficit
 *              round robin (Shreedhar and Varghese, 1995): keys take turns, each turn adds WAITING_QUANTUM
 *              tokens to the key's credit, and a key begins requests while its credit is above 0. What they
 *              take is subtracted, so that the credit may fall below 0: what the key owes. Within a key by
 *              priority. Keys are told apart by a hash of WAITING_KEYS values; two that meet share a turn.
 *              A key whose sequences hold all slots but one does not get the last one while another key
 *              waits, whatever their credits are, so that no key ever keeps all others from running
 *
 * A preempted request waits again with its old place. Nothing is allocated after waiting_open(), and no call
 * looks at all requests: costs are O(log n), and O(keys that wait) where a round begins.
 */
#ifndef GALLOP_ENGINE_SCHEDULE_WAITING_H
#define GALLOP_ENGINE_SCHEDULE_WAITING_H

#include <stdint.h>

#include "base/err.h"
#include "engine/schedule/heap.h"

enum {
    WAITING_KEYS = 1024,
    WAITING_QUANTUM = 512, /* tokens */
    WAITING_DEBT =
        8 * WAITING_QUANTUM, /* the most that a key which had nothing waiting for a while still owes */
    WAITING_AGE_S = 60,
};

enum waiting_policy { WAITING_FCFS, WAITING_PRIORITY, WAITING_FAIR };

/* Part of a request. */
struct waiting_entry {
    struct heap_node node; /* first: the heap's view of it */
    uint64_t order;        /* of arrival, unique */
    double arrival_s;      /* clock */
    int priority;          /* smaller first */
    uint32_t key;          /* waiting_key() */
};

/* The requests of one key. */
struct waiting_key {
    struct heap heap;
    int64_t credit;   /* tokens it may still compute in this round; below 0: what it owes */
    uint32_t next;    /* in the ring of keys that have requests */
    size_t n_running; /* sequences that hold a slot */
};

struct waiting {
    enum waiting_policy policy;
    struct waiting_key *key; /* [1], fair: [WAITING_KEYS] */
    uint32_t last;           /* of the ring; the turn is at the one behind it */
    size_t n_keys;           /* in the ring */
    size_t n;
    size_t
        n_slots; /* sequences that run at once; 0: not known, and no slot is kept for others. Set after open */
};

bool waiting_policy_of_name(const char *name, enum waiting_policy *policy); /* "fcfs", "priority", "fair" */
const char *waiting_policy_name(enum waiting_policy policy);

int waiting_open(struct waiting *w, enum waiting_policy policy, struct err *e); /* ERR_NOMEM */
void waiting_close(struct waiting *w); /* a zeroed one is fine; requests are the owner's */

uint32_t waiting_key(const void *name, size_t n); /* of an API key or user; of none (N = 0): 0 */

void waiting_add(struct waiting *w, struct waiting_entry *r);
void waiting_remove(struct waiting *w, struct waiting_entry *r); /* which waits */

/* Who is next; it stays. NULL: nobody waits. */
struct waiting_entry *waiting_next(struct waiting *w);

bool waiting_before(const struct waiting *w, const struct waiting_entry *a,
                    const struct waiting_entry *b); /* by age and
                                                                                * priority alone, whatever the key */

/* A sequence of KEY takes a slot (+1) or leaves it (-1). */
void waiting_run(struct waiting *w, uint32_t key, int change);

/* TOKENS of a request of KEY are computed, or will be because it begins; below 0: they were not, after
 * all. */
void waiting_charge(struct waiting *w, uint32_t key, int64_t tokens);

#endif
