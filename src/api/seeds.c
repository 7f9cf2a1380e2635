/* seeds.c - computes each seed as a hash of a secret and a counter. */
#include "api/seeds.h"

#include <sys/random.h>

#include "base/clock.h"

void seeds_init(struct seeds *s)
{
    if (getrandom(&s->secret, sizeof(s->secret), 0) != (ssize_t)sizeof(s->secret))
        s->secret = clock_ns();
    s->n = 0;
}

/* Returns a hash of X (the output function of splitmix64). */
static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

uint64_t seeds_next(struct seeds *s)
{
    return mix(s->secret ^ mix(atomic_fetch_add(&s->n, 1)));
}
