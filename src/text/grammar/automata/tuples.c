/* tuples.c - a list with a hash table. A new round empties the table without writing to its slots. */
#include "text/grammar/automata/tuples.h"

#include <string.h>

#include "base/mem.h"

enum { FIRST_SLOTS = 32 };

uint64_t tuples_hash(const struct tuple *x, size_t n)
{
    uint64_t h = n;

    for (size_t i = 0; i < n; i++)
        for (int j = 0; j < 4; j += 2) {
            h = (h ^ ((uint64_t)x[i].v[j] << 32 | x[i].v[j + 1])) * UINT64_C(0x9e3779b97f4a7c15);
            h ^= h >> 29;
        }
    return h;
}

static bool is_free(const struct tuples *t, size_t at)
{
    return t->slot[at] >> 32 != t->round || (uint32_t)t->slot[at] == 0;
}

static void tuple_put(struct tuples *t, size_t index)
{
    size_t at = tuples_hash(&t->tuple[index], 1) & (t->n_slots - 1);

    while (!is_free(t, at))
        at = (at + 1) & (t->n_slots - 1);
    t->slot[at] = (uint64_t)t->round << 32 | (uint32_t)(index + 1);
}

static bool grow(struct tuples *t)
{
    size_t n = t->n_slots ? 2 * t->n_slots : FIRST_SLOTS;
    uint64_t *slot = mem_zalloc(n, sizeof(*slot), MEM_TEXT);

    if (!slot)
        return false;
    mem_free(t->slot);
    t->slot = slot;
    t->n_slots = n;
    for (size_t i = 0; i < t->n; i++)
        tuple_put(t, i);
    return true;
}

enum tuples_added tuples_add(struct tuples *t, struct tuple x)
{
    size_t at;

    if (t->n >= UINT32_MAX / 2 ||
        (t->n == t->cap && !mem_grow((void **)&t->tuple, &t->cap, t->n + 1, sizeof(x), MEM_TEXT)) ||
        (2 * (t->n + 1) > t->n_slots && !grow(t)))
        return TUPLES_NO_MEMORY;
    for (at = tuples_hash(&x, 1) & (t->n_slots - 1); !is_free(t, at); at = (at + 1) & (t->n_slots - 1))
        if (memcmp(&t->tuple[(uint32_t)t->slot[at] - 1], &x, sizeof(x)) == 0)
            return TUPLES_KNOWN;
    t->tuple[t->n++] = x;
    t->slot[at] = (uint64_t)t->round << 32 | (uint32_t)t->n;
    return TUPLES_NEW;
}

void tuples_clear(struct tuples *t)
{
    t->n = 0;
    if (++t->round == 0 && t->slot)
        memset(t->slot, 0, t->n_slots * sizeof(*t->slot));
}

void tuples_fini(struct tuples *t)
{
    mem_free(t->tuple);
    mem_free(t->slot);
    *t = (struct tuples){0};
}
