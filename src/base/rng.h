/* rng.h - random numbers that are a pure function of (seed, index). There is no state, so the n-th number of
 * a request does not depend on other requests, threads or order. Requests without a seed get a fresh one.
 *
 * The generator is Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3",
 * SC 2011). It is not secure, so do not use it for secrets.
 */
#ifndef GALLOP_BASE_RNG_H
#define GALLOP_BASE_RNG_H

#include <stdatomic.h>
#include <stdint.h>

/* Writes 128 random bits to OUT, low words first. SEED is Philox's key, COUNTER_HI:COUNTER_LO its counter. */
void rng_block(uint64_t seed, uint64_t counter_hi, uint64_t counter_lo, uint32_t out[4]);

/* Writes a key for hashed random numbers to KEY: 64 random bits, which are number INDEX of SEED. They are
 * independent of the results of the functions below. */
void rng_key(uint64_t seed, uint64_t index, uint32_t key[2]);

/* Returns random number INDEX of SEED, uniform in [0, 1), a multiple of 2^-53. */
double rng_uniform(uint64_t seed, uint64_t index);

/* Returns random number INDEX of SEED, standard normal (Box-Muller), independent of rng_uniform(). */
double rng_normal(uint64_t seed, uint64_t index);

/* Fresh seeds that a client cannot guess, for requests without a seed and for ids of tool calls. */
struct rng_seeds {
    uint64_t secret;    /* random bits of the operating system */
    _Atomic uint64_t n; /* number of seeds returned so far */
};

void rng_seeds_init(struct rng_seeds *s);
uint64_t rng_seeds_next(struct rng_seeds *s); /* returns the next seed; may be called on any thread */

#endif
