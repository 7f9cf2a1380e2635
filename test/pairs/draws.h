/* draws.h - random choices of a case, which its seed determines. */
#ifndef GALLOP_TEST_PAIRS_DRAWS_H
#define GALLOP_TEST_PAIRS_DRAWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rng.h"

struct draws {
    uint64_t seed, n; /* N numbers have been drawn */
};

/* Returns a number below N. */
static inline size_t draws_below(struct draws *d, size_t n)
{
    return (size_t)(rng_uniform(d->seed, d->n++) * (double)n);
}

/* Returns true in PERCENT of the calls. */
static inline bool draws_chance(struct draws *d, size_t percent)
{
    return draws_below(d, 100) < percent;
}

/* Returns one of the elements of an array. */
#define DRAWS_ONE(d, array) ((array)[draws_below(d, sizeof(array) / sizeof((array)[0]))])

#endif
