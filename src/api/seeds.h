/* seeds.h - seeds that a client cannot guess, for random sampling and for ids of tool calls.
 */
#ifndef GALLOP_API_SEEDS_H
#define GALLOP_API_SEEDS_H

#include <stdatomic.h>
#include <stdint.h>

struct seeds {
    uint64_t secret;
    _Atomic uint64_t n; /* number of seeds returned so far */
};

void seeds_init(struct seeds *s);

/* Returns the next seed. May be called on any thread. */
uint64_t seeds_next(struct seeds *s);

#endif
