/* rng.h - random numbers that are a pure function of (seed, index). There is no state, so the n-th number of
 * a request does not depend on batch neighbours, threads or order.
 *
 * The generator is Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3",
 * SC 2011). Not for secrets.
 */
#ifndef GALLOP_BASE_RNG_H
#define GALLOP_BASE_RNG_H

#include <stdint.h>

/* 128 random bits: the key is SEED, the counter COUNTER_HI:COUNTER_LO, low words first. */
void rng_block(uint64_t seed, uint64_t counter_hi, uint64_t counter_lo, uint32_t out[4]);

/* Number INDEX of SEED, uniform in [0, 1), with 53 random bits (a multiple of 2^-53). */
double rng_uniform(uint64_t seed, uint64_t index);

/* Number INDEX of SEED, normal with mean 0 and variance 1 (Box-Muller). Independent of rng_uniform(). */
double rng_normal(uint64_t seed, uint64_t index);

#endif
