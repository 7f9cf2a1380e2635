/* waiting.c - implements the queue with a heap of requests for each key, and a ring of the keys with requests. */
#include "engine/schedule/waiting.h"

#include <string.h>
#include <xxhash.h>

#include "base/mem.h"

static const char *const names[] = {"fcfs", "priority", "fair"};

bool waiting_policy_of_name(const char *name, enum waiting_policy *policy)
{
    for (int p = 0; p < (int)(sizeof(names) / sizeof(names[0])); p++)
        if (strcmp(name, names[p]) == 0) {
            *policy = (enum waiting_policy)p;
            return true;
        }
    return false;
}

const char *waiting_policy_name(enum waiting_policy policy)
{
    return names[policy];
}

static const struct waiting_entry *entry(const struct heap_node *node)
{
    return (const struct waiting_entry *)(const void *)node;
}

static bool arrived_before(const struct heap_node *a, const struct heap_node *b)
{
    return entry(a)->order < entry(b)->order;
}

/* Returns the sort key of R, smaller first. It is constant in time: since all requests age equally, the time
 * of arrival replaces the age. */
static double rank(const struct waiting_entry *r)
{
    return (double)r->priority * WAITING_AGE_S + r->arrival_s;
}

static bool ranks_before(const struct heap_node *a, const struct heap_node *b)
{
    double x = rank(entry(a)), y = rank(entry(b));

    return x < y || (x == y && arrived_before(a, b));
}

bool waiting_before(const struct waiting *w, const struct waiting_entry *a, const struct waiting_entry *b)
{
    return w->key[0].heap.before(&a->node, &b->node);
}

int waiting_open(struct waiting *w, enum waiting_policy policy, struct err *e)
{
    size_t n = policy == WAITING_FAIR ? WAITING_KEYS : 1;

    *w = (struct waiting){.policy = policy};
    w->key = mem_zalloc(n, sizeof(*w->key), MEM_ENGINE);
    if (!w->key)
        return err_nomem(e, "the queue of requests");
    for (size_t i = 0; i < n; i++)
        w->key[i].heap.before = policy == WAITING_FCFS ? arrived_before : ranks_before;
    return 0;
}

void waiting_close(struct waiting *w)
{
    mem_free(w->key);
    *w = (struct waiting){0};
}

uint32_t waiting_key(const void *name, size_t n)
{
    return n ? 1 + (uint32_t)(XXH3_64bits(name, n) % (WAITING_KEYS - 1)) : 0;
}

static uint32_t key_of(const struct waiting *w, const struct waiting_entry *r)
{
    return w->policy == WAITING_FAIR ? r->key : 0;
}

void waiting_add(struct waiting *w, struct waiting_entry *r)
{
    uint32_t at = key_of(w, r);
    struct waiting_key *k = &w->key[at];

    ASSERT(r->key < WAITING_KEYS);
    if (!k->heap.first) { /* the key gets its first request and is appended to the ring */
        k->next = w->n_keys ? w->key[w->last].next : at;
        w->key[w->n_keys ? w->last : at].next = at;
        w->last = at;
        w->n_keys++;
        if (k->credit < -WAITING_DEBT)
            k->credit = -WAITING_DEBT;
    }
    heap_add(&k->heap, &r->node);
    w->n++;
}

void waiting_remove(struct waiting *w, struct waiting_entry *r)
{
    uint32_t at = key_of(w, r), before = at;
    struct waiting_key *k = &w->key[at];

    heap_remove(&k->heap, &r->node);
    w->n--;
    if (k->heap.first)
        return;
    while (w->key[before].next != at)
        before = w->key[before].next;
    w->key[before].next = k->next;
    if (w->last == at)
        w->last = before;
    w->n_keys--;
    if (k->credit > 0)
        k->credit = 0; /* a key without requests loses its credit, but not its debt */
}

/* Adds the credit of N rounds to every key at once, where N is the number of further rounds in which no credit would
 * exceed 0. */
static void skip_rounds(struct waiting *w)
{
    int64_t rounds = INT64_MAX;
    uint32_t i = w->last;

    do {
        int64_t needs = -w->key[i].credit / WAITING_QUANTUM;

        rounds = needs < rounds ? needs : rounds;
        i = w->key[i].next;
    } while (i != w->last);
    for (size_t n = 0; n < w->n_keys && rounds > 0; n++, i = w->key[i].next)
        w->key[i].credit += rounds * WAITING_QUANTUM;
}

/* Returns the key that is admitted when K is visited: the next key of the ring if the sequences of K hold all
 * slots but one, otherwise K. With a single slot it is always K. */
static struct waiting_key *give_way(struct waiting *w, struct waiting_key *k)
{
    return w->n_slots > 1 && k->n_running + 1 >= w->n_slots ? &w->key[k->next] : k;
}

struct waiting_entry *waiting_next(struct waiting *w)
{
    if (w->n_keys == 0)
        return NULL;
    for (size_t visits = 1;; visits++) {
        struct waiting_key *k = &w->key[w->key[w->last].next];

        if (w->policy != WAITING_FAIR || k->credit > 0)
            return (struct waiting_entry *)(void *)give_way(w, k)->heap.first;
        k->credit += WAITING_QUANTUM; /* the credit of the key's next visit */
        w->last = w->key[w->last].next;
        if (visits % w->n_keys == 0)
            skip_rounds(w);
    }
}

void waiting_run(struct waiting *w, uint32_t key, int change)
{
    if (w->policy == WAITING_FAIR)
        w->key[key].n_running += (size_t)change;
}

void waiting_charge(struct waiting *w, uint32_t key, int64_t tokens)
{
    if (w->policy == WAITING_FAIR)
        w->key[key].credit -= tokens;
}
