/* kv_slab_pool.c - one pool a group of layers: fixed blocks from a LIFO free list that hands out neighbours
 * in order. A block belongs to one sequence; a fork copies. Regions and tables: kvpool.h. */
#include "base/mem.h"
#include "kv/kvpool.h"

static uint32_t take(struct kv *c, size_t g)
{
    return kvpool_pop(c->state, g);
}

static void put(struct kv *c, size_t g, uint32_t block)
{
    kvpool_push(c->state, g, block);
}

static void slab_pool_close(struct kv *c)
{
    if (c->state)
        kvpool_close(c->state);
    mem_free(c->state);
    c->state = NULL;
}

static int slab_pool_open(struct kv *c, struct err *e)
{
    struct kvpool *p = c->state = mem_zalloc(1, sizeof(*p), MEM_KV);
    int rc;

    if (!p)
        return err_nomem(e, "the KV cache");
    p->take = take;
    p->put = put;
    if ((rc = kvpool_open(c, p, e)) != 0)
        slab_pool_close(c);
    return rc;
}

static int slab_pool_reserve(struct kv *c, size_t seq, size_t n)
{
    struct kvpool *p = c->state;

    for (size_t g = 0; g < c->n_groups; g++)
        if (kvpool_lacks(c, p, seq, g, n) > p->group[g].n_free)
            return ERR_NOSPACE;
    kvpool_extend(c, p, seq, n);
    return 0;
}

static bool slab_pool_has_room(const struct kv *c, const struct kv_want *want, size_t n)
{
    const struct kvpool *p = c->state;

    for (size_t g = 0; g < c->n_groups; g++)
        if (!kvpool_has_room(c, g, p->group[g].n_free, want, n))
            return false;
    return true;
}

static int slab_pool_fork(struct kv *c, size_t from, size_t n, size_t to)
{
    struct kvpool *p = c->state;

    ASSERT(n <= p->len[from] && p->len[to] == 0, "%zu rows of %zu into %zu", n, p->len[from], p->len[to]);
    if (!kvpool_sees(c, from, n))
        return KV_GONE;
    for (size_t g = 0; g < c->n_groups; g++) {
        struct kvpool_range r = kvpool_range(c, g, n);

        if (r.head + r.end - r.first > p->group[g].n_free)
            return ERR_NOSPACE;
    }
    for (size_t g = 0; g < c->n_groups; g++) {
        size_t first = kvpool_range(c, g, n).first;

        kvpool_begin(p, g, kvpool_seq(c, p, to, g), first, kvpool_low(c, kvpool_seq(c, p, from, g), first));
    }
    kvpool_extend(c, p, to, n);
    for (size_t g = 0; g < c->n_groups; g++) {
        const struct kvpool_seq *a = kvpool_seq(c, p, from, g), *b = kvpool_seq(c, p, to, g);

        for (size_t i = 0; i < b->end; i++)
            if (i < b->head || i >= b->first)
                kvpool_copy(c, p, g, kvpool_block(p, a, i), kvpool_block(p, b, i));
    }
    return 0;
}

static int check_group(const struct kv *c, size_t g, uint32_t *count, struct err *e)
{
    const struct kvpool *p = c->state;
    int rc = kvpool_count(c, g, count, e);

    for (size_t i = 0; i < p->group[g].n_free && rc == 0; i++)
        count[p->group[g].free[i]]++;
    for (size_t b = 0; b < p->group[g].n_blocks && rc == 0; b++)
        if (count[b] != 1)
            rc = err_set(e, ERR_INPUT, "group %zu: block %zu is held or free %u times", g, b, count[b]);
    return rc;
}

static int slab_pool_check(const struct kv *c, struct err *e)
{
    return kvpool_check(c, check_group, e);
}

const struct kv_ops kv_slab_pool = {.pool_bytes = kvpool_bytes,
                                    .least_blocks = kvpool_least_blocks,
                                    .open = slab_pool_open,
                                    .reserve = slab_pool_reserve,
                                    .has_room = slab_pool_has_room,
                                    .truncate = kvpool_truncate,
                                    .fork = slab_pool_fork,
                                    .advance = kvpool_advance,
                                    .sees = kvpool_sees,
                                    .view = kvpool_view,
                                    .bytes = kvpool_region_bytes,
                                    .held = kvpool_held_bytes,
                                    .check = slab_pool_check,
                                    .close = slab_pool_close};
