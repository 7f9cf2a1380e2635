/* ways.h - the cache configurations in which the tests of the engine must give the same bits: types, layouts
 * and block sizes. */
#ifndef GALLOP_TEST_ENGINE_WAYS_H
#define GALLOP_TEST_ENGINE_WAYS_H

#include "gallop.h"

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

#endif
