/* ways.h - the ways in which a cache can keep its rows: types, layouts and blocks. The tests of the engine
 * give the same bits in each of them.
 */
#ifndef GALLOP_TEST_ENGINE_WAYS_H
#define GALLOP_TEST_ENGINE_WAYS_H

#include "gallop.h"

struct way {
    const char *type, *layout;
    int64_t block, splits;
};

extern const struct way ways[];
extern const size_t n_ways;

extern const char *const ways_types[4]; /* every cache type */

void ways_set(struct gallop_options *o, const struct way *w);

/* "paged block_major 64"; the text of one of the last four calls. */
const char *ways_name(const struct way *w);

#endif
