/* ways.h - the cache configurations in which the tests of the engine must give the same bits: types, layouts
 * and block sizes. */
#ifndef GALLOP_TEST_ENGINE_WAYS_H
#define GALLOP_TEST_ENGINE_WAYS_H

#include "engines.h"

struct way {
    const char *type, *layout;
    int64_t block, splits;
};

extern const struct way ways[];
extern const size_t n_ways;

extern const char *const ways_types[4]; /* one configuration of every cache type */

void ways_set(struct gallop_options *o, const struct way *w);

/* Returns a text such as "paged block_major 64", which is valid for the next three calls. */
const char *ways_name(const struct way *w);

/* Opens the bundled model in the configuration W with at most 8 sequences of 256 rows, STEP tokens in a step, and a
 * pool of BUDGET rows (0: the default). */
struct gallop *ways_open(const struct way *w, int64_t step, int threads, int64_t budget);

/* How often sequences were preempted, and how many tokens of prompts had rows in the prefix cache. */
struct ways_seen {
    uint64_t n_preempted, n_cached;
};

/* Has the requests that SUBMIT submits for 0 to N - 1 answered one by one into ALONE [n], and together in all
 * configurations: in steps of 64 tokens; in steps of 16 tokens, with guesses of which most are right; and by two
 * threads with a pool of BUDGET rows, with guesses that are often wrong (engine/guess/oracle.h). The first and the
 * last of these answer the requests twice: the second time the prefix cache has the rows of the first. A request with
 * several answers has the number of its first one, and SUBMIT submits nothing for those that follow. Fails if an
 * answer differs from the one in ALONE. CHECK is called with the N answers of each round; NULL: nothing more is
 * checked. */
enum { WAYS_MAX_ANSWERS = 16 };
struct ways_seen ways_alone_and_in_company(struct engines_answer *alone, size_t n, int64_t budget,
                                           void (*submit)(struct gallop *g, size_t which),
                                           void (*check)(const struct engines_answer *answers));

#endif
