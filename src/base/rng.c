/* rng.c - Philox4x32 with ten rounds. Uniform numbers, normal numbers and keys use different upper halves of the
 * counter, which makes them independent. */
#include "base/rng.h"

#include <math.h>
#include <sys/random.h>

#include "base/clock.h"

enum { ROUNDS = 10 };
enum { STREAM_UNIFORM = 0, STREAM_NORMAL = 1, STREAM_KEY = 2 };

#define MULTIPLIER_0 UINT32_C(0xD2511F53)
#define MULTIPLIER_1 UINT32_C(0xCD9E8D57)
#define WEYL_0       UINT32_C(0x9E3779B9) /* golden ratio */
#define WEYL_1       UINT32_C(0xBB67AE85) /* sqrt(3) - 1 */

void rng_block(uint64_t seed, uint64_t counter_hi, uint64_t counter_lo, uint32_t out[4])
{
    uint32_t c0 = (uint32_t)counter_lo, c1 = (uint32_t)(counter_lo >> 32);
    uint32_t c2 = (uint32_t)counter_hi, c3 = (uint32_t)(counter_hi >> 32);
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);

    for (int r = 0; r < ROUNDS; r++) {
        uint64_t p0 = (uint64_t)MULTIPLIER_0 * c0, p1 = (uint64_t)MULTIPLIER_1 * c2;

        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        k0 += WEYL_0;
        k1 += WEYL_1;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* Returns the upper 53 bits of HIGH:LOW as a fraction in [0, 1). */
static double fraction(uint32_t high, uint32_t low)
{
    uint64_t bits = ((uint64_t)high << 32 | low) >> 11;

    return (double)bits * 0x1p-53;
}

void rng_key(uint64_t seed, uint64_t index, uint32_t key[2])
{
    uint32_t w[4];

    rng_block(seed, STREAM_KEY, index, w);
    key[0] = w[0];
    key[1] = w[1];
}

double rng_uniform(uint64_t seed, uint64_t index)
{
    uint32_t w[4];

    rng_block(seed, STREAM_UNIFORM, index, w);
    return fraction(w[0], w[1]);
}

double rng_normal(uint64_t seed, uint64_t index)
{
    const double two_pi = 6.283185307179586476925;
    uint32_t w[4];
    double radius;

    rng_block(seed, STREAM_NORMAL, index, w);
    radius = sqrt(-2.0 * log(1.0 - fraction(w[0], w[1]))); /* 1 - u is in (0, 1] */
    return radius * cos(two_pi * fraction(w[2], w[3]));
}

void rng_seeds_init(struct rng_seeds *s)
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

uint64_t rng_seeds_next(struct rng_seeds *s)
{
    return mix(s->secret ^ mix(atomic_fetch_add(&s->n, 1)));
}
