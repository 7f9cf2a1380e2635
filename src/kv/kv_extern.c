/* kv_extern.c - a pool whose blocks belong to the caller: it numbers them, says which hold the rows of a
 * sequence, shares and reuses them.
 *
 * Block b holds the same rows in all layers, those with windows too; block 0 holds zeros and is never
 * written. Nothing is taken, given back or dropped here: a sequence is the table that was lent last, and its
 * rows are those that the table has room for.
 */
#include "base/mem.h"
#include "kern/kern.h"
#include "kv/kvpool.h"

static size_t least_blocks(const struct kv *c)
{
    return 1 + kvpool_least_blocks(c);
}

static void close_pool(struct kv *c)
{
    if (c->state)
        kvpool_close(c->state);
    mem_free(c->state);
    c->state = NULL;
}

static int open_pool(struct kv *c, struct err *e)
{
    int rc;

    ASSERT(c->n_groups == 1 && !c->group[0].window, "all layers keep all rows");
    c->state = mem_zalloc(1, sizeof(struct kvpool), MEM_KV);
    if (!c->state)
        return err_nomem(e, "the KV cache");
    if ((rc = kvpool_open(c, c->state, e)) != 0)
        close_pool(c);
    return rc;
}

static void lend(struct kv *c, size_t seq, const int32_t *block, size_t n)
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

static void copy_block(struct kv *c, size_t from, size_t to)
{
    const struct kvpool *p = c->state;

    ASSERT(from < p->group[0].n_blocks && to && to < p->group[0].n_blocks, "block %zu to %zu", from, to);
    kvpool_copy(c, p, 0, (uint32_t)from, (uint32_t)to);
}

static size_t n_blocks(const struct kv *c)
{
    const struct kvpool *p = c->state;

    return p->group[0].n_blocks;
}

static int reserve(struct kv *c, size_t seq, size_t n)
{
    const struct kvpool *p = c->state;

    return n <= p->len[seq] ? 0 : ERR_NOSPACE;
}

static bool has_room(const struct kv *c, const struct kv_want *want, size_t n)
{
    const struct kvpool *p = c->state;

    for (size_t i = 0; i < n; i++)
        if (want[i].n > p->len[want[i].seq])
            return false;
    return true;
}

/* Positions may go back as they like. To nothing: the table is forgotten. */
static int truncate_rows(struct kv *c, size_t seq, size_t n)
{
    struct kvpool *p = c->state;

    if (n == 0)
        kvpool_seq(c, p, seq, 0)->end = p->len[seq] = 0;
    return 0;
}

/* Whoever shares rows lends both sequences the same blocks. */
static int fork_rows(struct kv *c, size_t from, size_t n, size_t to)
{
    (void)c;
    (void)from;
    (void)n;
    (void)to;
    return ERR_UNSUPPORTED;
}

static void advance(struct kv *c, size_t seq, size_t pos)
{
    (void)c;
    (void)seq;
    (void)pos;
}

static bool sees(const struct kv *c, size_t seq, size_t n)
{
    const struct kvpool *p = c->state;

    return n <= p->len[seq];
}

/* Tables may name a block as often as they like; its number alone can be wrong. */
static int check_pool(const struct kv *c, struct err *e)
{
    const struct kvpool *p = c->state;

    for (size_t s = 0; s < c->lim.max_seqs; s++)
        for (size_t i = 0; i < kvpool_seq(c, p, s, 0)->end; i++)
            if (kvpool_block(p, kvpool_seq(c, p, s, 0), i) >= p->group[0].n_blocks)
                return err_set(e, ERR_INPUT, "sequence %zu: block %zu is none of the pool's", s, i);
    return 0;
}

const struct kv_ops kv_extern = {.pool_bytes = kvpool_bytes,
                                 .least_blocks = least_blocks,
                                 .open = open_pool,
                                 .reserve = reserve,
                                 .has_room = has_room,
                                 .truncate = truncate_rows,
                                 .fork = fork_rows,
                                 .advance = advance,
                                 .sees = sees,
                                 .lend = lend,
                                 .copy_block = copy_block,
                                 .n_blocks = n_blocks,
                                 .view = kvpool_view,
                                 .bytes = kvpool_region_bytes,
                                 .held = kvpool_held_bytes,
                                 .check = check_pool,
                                 .close = close_pool};
