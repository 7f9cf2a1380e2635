/* ways.c - see ways.h. */
#include "ways.h"

const struct way ways[] = {{"dynamic", NULL, 0, 0},
                           {"slab_pool", "head_major", 0, 0},
                           {"slab_pool", "head_major", 16, 0},
                           {"slab_pool", "head_major", 64, 0},
                           {"slab_pool", "head_major", 256, 0},
                           {"slab_pool", "block_major", 16, 0},
                           {"slab_pool", "block_major", 32, 0},
                           {"slab_pool", "block_major", 256, 0},
                           {"paged", "head_major", 0, 0},
                           {"paged", "head_major", 16, 0},
                           {"paged", "head_major", 128, 0},
                           {"paged", "block_major", 16, 0},
                           {"paged", "block_major", 64, 0},
                           {"paged", "block_major", 256, 0},
                           {"bmc", NULL, 0, 0},
                           {"bmc", NULL, 0, 3}};
const size_t n_ways = sizeof(ways) / sizeof(ways[0]);

const char *const ways_types[4] = {"slab_pool", "paged", "dynamic", "bmc"};

void ways_set(struct gallop_options *o, const struct way *w)
{
    o->kv_cache_type = w->type;
    o->kv_cache_layout = w->layout;
    o->block_size = w->block;
    o->bmc_splits = w->splits;
}

const char *ways_name(const struct way *w)
{
    static char text[4][64];
    static size_t turn;
    char *out = text[turn++ % 4];

    snprintf(out, sizeof(text[0]), "%s %s %d", w->type, w->layout ? w->layout : "",
             (int)(w->block ? w->block : w->splits));
    return out;
}
