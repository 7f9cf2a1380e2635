/* shares.c - a counter of all units, and one for each client. */
#include "base/shares.h"

#include "base/err.h"

size_t shares_most(const struct shares *s, size_t most)
{
    return s->fair && most > 1 ? most - most / 4 - (most % 4 != 0) : most;
}

/* Returns whether CLIENT may take N more units while TAKEN are taken. */
static bool fits(const struct shares *s, uint32_t client, size_t taken, size_t n, size_t most, size_t alone)
{
    size_t left, held;

    if (taken > most || n > most - taken)
        return false;
    left = most - taken - n;
    held = atomic_load_explicit(&s->of[client], memory_order_relaxed) + n;
    return !s->fair || held <= alone || held / 3 + (held % 3 != 0) <= left;
}

bool shares_has_room(const struct shares *s, uint32_t client, size_t n, size_t most, size_t alone)
{
    return fits(s, client, atomic_load_explicit(&s->n, memory_order_relaxed), n, most, alone);
}

bool shares_take(struct shares *s, uint32_t client, size_t n, size_t most, size_t alone)
{
    size_t taken = atomic_load_explicit(&s->n, memory_order_relaxed);

    do
        if (!fits(s, client, taken, n, most, alone))
            return false;
    while (!atomic_compare_exchange_weak_explicit(&s->n, &taken, taken + n, memory_order_relaxed,
                                                  memory_order_relaxed));
    atomic_fetch_add_explicit(&s->of[client], n, memory_order_relaxed);
    return true;
}

void shares_give(struct shares *s, uint32_t client, size_t n)
{
    size_t held = atomic_fetch_sub_explicit(&s->of[client], n, memory_order_relaxed);

    ASSERT(n <= held, "client %u gives %zu back and holds %zu", client, n, held);
    atomic_fetch_sub_explicit(&s->n, n, memory_order_relaxed);
}
