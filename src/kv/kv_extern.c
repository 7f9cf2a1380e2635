/* kv_extern.c - the type extern: a pool whose blocks the caller numbers, shares and reuses.
 *
 * Block b holds the same rows in all layers, also in layers with windows; block 0 holds zeros and is never
 * written. This type neither allocates nor releases blocks. The last kv_lend() sets the block table of a
 * sequence, and the length of a sequence is the number of rows of its blocks.
 */
#include "base/mem.h"
#include "kern/kern.h"
#include "kv/kvpool.h"

static size_t extern_least_blocks(const struct kv *c)
{
    return 1 + kvpool_least_blocks(c);
}

static void extern_close(struct kv *c)
{
    if (c->state)
        kvpool_close(c->state);
    mem_free(c->state);
    c->state = NULL;
}

static int extern_open(struct kv *c, struct err *e)
{
    int rc;

    ASSERT(c->n_groups == 1 && !c->group[0].window, "all layers keep all rows");
    c->state = mem_zalloc(1, sizeof(struct kvpool), MEM_KV);
    if (!c->state)
        return err_nomem(e, "the KV cache");
    if ((rc = kvpool_open(c, c->state, e)) != 0)
        extern_close(c);
    return rc;
}

static void extern_lend(struct kv *c, size_t seq, const int32_t *block, size_t n)
{
    struct kvpool *p = c->state;
    struct kvpool_seq *q = kvpool_seq(c, p, seq, 0);

    ASSERT(n <= p->max_blocks, "%zu blocks of %zu", n, p->max_blocks);
    for (size_t i = 0; i < n; i++) {
        ASSERT(block[i] >= 0 && (size_t)block[i] < p->group[0].n_blocks, "block %d", block[i]);
        kvpool_set(p, q, i, (uint32_t)block[i]);
    }
    q->end = n;
    p->len[seq] = n * c->lim.block < c->lim.max_len ? n * c->lim.block : c->lim.max_len;
}

static void extern_copy_block(struct kv *c, size_t from, size_t to)
{
    const struct kvpool *p = c->state;

    ASSERT(from < p->group[0].n_blocks && to && to < p->group[0].n_blocks, "block %zu to %zu", from, to);
    kvpool_copy(c, p, 0, (uint32_t)from, (uint32_t)to);
}

static size_t extern_n_blocks(const struct kv *c)
{
    const struct kvpool *p = c->state;

    return p->group[0].n_blocks;
}

static int extern_reserve(struct kv *c, size_t seq, size_t n)
{
    const struct kvpool *p = c->state;

    return n <= p->len[seq] ? 0 : ERR_NOSPACE;
}

static bool extern_has_room(const struct kv *c, const struct kv_want *want, size_t n)
{
    const struct kvpool *p = c->state;

    for (size_t i = 0; i < n; i++)
        if (want[i].n > p->len[want[i].seq])
            return false;
    return true;
}

/* Clears the block table of SEQ if N is 0. Otherwise does nothing, since the caller sets the next table with
 * kv_lend(). */
static int extern_truncate(struct kv *c, size_t seq, size_t n)
{
    struct kvpool *p = c->state;

    if (n == 0)
        kvpool_seq(c, p, seq, 0)->end = p->len[seq] = 0;
    return 0;
}

/* Always fails: a caller that shares rows gives both sequences the same blocks instead. */
static int extern_fork(struct kv *c, size_t from, size_t n, size_t to)
{
    (void)c;
    (void)from;
    (void)n;
    (void)to;
    return ERR_UNSUPPORTED;
}

static void extern_advance(struct kv *c, size_t seq, size_t pos)
{
    (void)c;
    (void)seq;
    (void)pos;
}

static bool extern_sees(const struct kv *c, size_t seq, size_t n)
{
    const struct kvpool *p = c->state;

    return n <= p->len[seq];
}

/* Checks that block numbers are in range. Tables may share blocks. */
static int extern_check(const struct kv *c, struct err *e)
{
    const struct kvpool *p = c->state;

    for (size_t s = 0; s < c->lim.max_seqs; s++)
        for (size_t i = 0; i < kvpool_seq(c, p, s, 0)->end; i++)
            if (kvpool_block(p, kvpool_seq(c, p, s, 0), i) >= p->group[0].n_blocks)
                return err_set(e, ERR_INPUT, "sequence %zu: block %zu has a number outside the pool", s, i);
    return 0;
}

const struct kv_ops kv_extern = {.pool_bytes = kvpool_bytes,
                                 .least_blocks = extern_least_blocks,
                                 .open = extern_open,
                                 .reserve = extern_reserve,
                                 .has_room = extern_has_room,
                                 .truncate = extern_truncate,
                                 .fork = extern_fork,
                                 .advance = extern_advance,
                                 .sees = extern_sees,
                                 .lend = extern_lend,
                                 .copy_block = extern_copy_block,
                                 .n_blocks = extern_n_blocks,
                                 .view = kvpool_view,
                                 .bytes = kvpool_region_bytes,
                                 .held = kvpool_held_bytes,
                                 .check = extern_check,
                                 .close = extern_close};
