/* kv_paged.c - blocks that several sequences may hold at once: a fork shares, a prefix is found by the hash
 * of its tokens, and who writes into a shared block gets a copy of it first.
 *
 * A block is free, held (refs > 0), or kept: no sequence holds it, but it has a hash and may be adopted again.
 * Kept blocks stand in a ring by the time they were let go, and the oldest is given away when no free block
 * is left. A hash names at most one block a group. Regions and tables: kvpool.h.
 */
#include <string.h>

#include "base/mem.h"
#include "kv/kvpool.h"

#define NONE UINT32_MAX

struct page {
    uint32_t refs;
    uint32_t next, prev; /* in the ring of kept blocks */
    uint32_t chain;      /* the next one in the same bucket */
    bool hashed;
    struct kv_hash hash;
};

struct pages {
    struct page *page; /* [n_blocks + 1] the last is the head of the ring: next is the oldest */
    size_t n_kept;
    uint32_t *bucket; /* [mask + 1] */
    size_t mask;
};

struct paged {
    struct kvpool pool;
    struct pages pages[KV_MAX_GROUPS];
};

/* ---- hashes ---- */

static uint32_t *bucket_of(const struct pages *s, const struct kv_hash *h)
{
    return &s->bucket[(h->w[0] ^ h->w[1] * 0x9e3779b97f4a7c15u) & s->mask];
}

static uint32_t find(const struct pages *s, const struct kv_hash *h)
{
    uint32_t b = *bucket_of(s, h);

    while (b != NONE && memcmp(&s->page[b].hash, h, sizeof(*h)) != 0)
        b = s->page[b].chain;
    return b;
}

static void forget(struct pages *s, uint32_t b)
{
    uint32_t *at = bucket_of(s, &s->page[b].hash);

    while (*at != b)
        at = &s->page[*at].chain;
    *at = s->page[b].chain;
    s->page[b].hashed = false;
}

/* ---- the life of a block ---- */

static void unlink_kept(struct pages *s, uint32_t b)
{
    s->page[s->page[b].prev].next = s->page[b].next;
    s->page[s->page[b].next].prev = s->page[b].prev;
    s->n_kept--;
}

static void link_kept(struct pages *s, uint32_t head, uint32_t b)
{
    s->page[b].next = head;
    s->page[b].prev = s->page[head].prev;
    s->page[s->page[b].prev].next = b;
    s->page[head].prev = b;
    s->n_kept++;
}

static size_t available(const struct paged *s, size_t g)
{
    return s->pool.group[g].n_free + s->pages[g].n_kept;
}

static uint32_t take(struct kv *c, size_t g)
{
    struct paged *s = c->state;
    struct pages *p = &s->pages[g];
    uint32_t b;

    if (s->pool.group[g].n_free) {
        b = kvpool_pop(&s->pool, g);
    } else {
        b = p->page[s->pool.group[g].n_blocks].next;
        ASSERT(p->n_kept > 0);
        unlink_kept(p, b);
        forget(p, b);
    }
    p->page[b].refs = 1;
    return b;
}

static void put(struct kv *c, size_t g, uint32_t b)
{
    struct paged *s = c->state;
    struct page *p = &s->pages[g].page[b];

    ASSERT(p->refs > 0);
    if (--p->refs)
        return;
    if (p->hashed)
        link_kept(&s->pages[g], (uint32_t)s->pool.group[g].n_blocks, b);
    else
        kvpool_push(&s->pool, g, b);
}

static void hold(struct paged *s, size_t g, uint32_t b)
{
    struct page *p = &s->pages[g].page[b];

    if (p->refs++ == 0)
        unlink_kept(&s->pages[g], b);
}

/* ---- open and close ---- */

static void paged_close(struct kv *c)
{
    struct paged *s = c->state;

    if (!s)
        return;
    for (size_t g = 0; g < KV_MAX_GROUPS; g++) {
        mem_free(s->pages[g].page);
        mem_free(s->pages[g].bucket);
    }
    kvpool_close(&s->pool);
    mem_free(s);
    c->state = NULL;
}

static int open_pages(struct pages *p, size_t n_blocks, struct err *e)
{
    size_t n = 16;

    while (n < 2 * n_blocks)
        n *= 2;
    p->mask = n - 1;
    p->page = mem_zalloc(n_blocks + 1, sizeof(*p->page), MEM_KV);
    p->bucket = mem_zalloc(n, sizeof(*p->bucket), MEM_KV);
    if (!p->page || !p->bucket)
        return err_nomem(e, "the tables of the KV cache");
    memset(p->bucket, 0xff, n * sizeof(*p->bucket));
    p->page[n_blocks].next = p->page[n_blocks].prev = (uint32_t)n_blocks;
    return 0;
}

static int paged_open(struct kv *c, struct err *e)
{
    struct paged *s = c->state = mem_zalloc(1, sizeof(*s), MEM_KV);
    int rc;

    if (!s)
        return err_nomem(e, "the KV cache");
    s->pool.take = take;
    s->pool.put = put;
    rc = kvpool_open(c, &s->pool, e);
    for (size_t g = 0; g < c->n_groups && rc == 0; g++)
        rc = open_pages(&s->pages[g], s->pool.group[g].n_blocks, e);
    if (rc)
        paged_close(c);
    return rc;
}

/* ---- sequences ---- */

/* The block of group G into which SEQ will write behind its last row, if it holds one. */
static bool partly_filled(const struct kv *c, const struct paged *s, size_t seq, size_t g, size_t *i)
{
    const struct kvpool_seq *q = kvpool_seq(c, &s->pool, seq, g);

    *i = s->pool.len[seq] / c->lim.block;
    return s->pool.len[seq] % c->lim.block != 0 && *i >= q->first && *i < q->end;
}

static bool must_copy(const struct kv *c, const struct paged *s, size_t seq, size_t g, size_t *i)
{
    return partly_filled(c, s, seq, g, i) &&
           s->pages[g].page[kvpool_block(&s->pool, kvpool_seq(c, &s->pool, seq, g), *i)].refs > 1;
}

/* The block that SEQ will write into becomes its own, and what its hash said is not true any more. */
static void make_own(struct kv *c, size_t seq, size_t g)
{
    struct paged *s = c->state;
    struct kvpool_seq *q = kvpool_seq(c, &s->pool, seq, g);
    bool copy;
    uint32_t b;
    size_t i;

    copy = must_copy(c, s, seq, g, &i);
    if (!partly_filled(c, s, seq, g, &i))
        return;
    b = kvpool_block(&s->pool, q, i);
    if (copy) {
        uint32_t own = take(c, g);

        kvpool_copy(c, &s->pool, g, b, own);
        kvpool_set(&s->pool, q, i, own);
        put(c, g, b);
    } else if (s->pages[g].page[b].hashed) {
        forget(&s->pages[g], b);
    }
}

static int paged_reserve(struct kv *c, size_t seq, size_t n)
{
    struct paged *s = c->state;
    size_t i;

    if (n <= s->pool.len[seq])
        return 0;
    for (size_t g = 0; g < c->n_groups; g++)
        if (kvpool_lacks(c, &s->pool, seq, g, n) + must_copy(c, s, seq, g, &i) > available(s, g))
            return ERR_NOSPACE;
    for (size_t g = 0; g < c->n_groups; g++)
        make_own(c, seq, g);
    kvpool_extend(c, &s->pool, seq, n);
    return 0;
}

/* Blocks that would be copied when they are written into are taken beside those that lack. */
static bool paged_has_room(const struct kv *c, const struct kv_want *want, size_t n)
{
    const struct paged *s = c->state;

    for (size_t g = 0; g < c->n_groups; g++) {
        size_t n_free = available(s, g), copies = 0, at;

        for (size_t i = 0; i < n; i++)
            copies += want[i].n > s->pool.len[want[i].seq] && must_copy(c, s, want[i].seq, g, &at);
        if (copies > n_free || !kvpool_has_room(c, g, n_free - copies, want, n))
            return false;
    }
    return true;
}

/* SEQ, which holds nothing, shares BLOCK with those that hold it, as its I-th. */
static void share(struct kv *c, size_t g, struct kvpool_seq *q, size_t i, uint32_t block)
{
    struct paged *s = c->state;

    hold(s, g, block);
    kvpool_set(&s->pool, q, i, block);
}

static int paged_fork(struct kv *c, size_t from, size_t n, size_t to)
{
    struct paged *s = c->state;

    ASSERT(n <= s->pool.len[from] && s->pool.len[to] == 0, "%zu rows of %zu into %zu", n, s->pool.len[from],
           s->pool.len[to]);
    if (!kvpool_sees(c, from, n))
        return KV_GONE;
    for (size_t g = 0; g < c->n_groups; g++) {
        const struct kvpool_seq *a = kvpool_seq(c, &s->pool, from, g);
        struct kvpool_seq *b = kvpool_seq(c, &s->pool, to, g);
        struct kvpool_range r = kvpool_range(c, g, n);

        kvpool_begin(&s->pool, g, b, r.first, kvpool_low(c, a, r.first));
        for (; b->head < r.head; b->head++)
            share(c, g, b, b->head, kvpool_block(&s->pool, a, b->head));
        for (; b->end < r.end; b->end++)
            share(c, g, b, b->end, kvpool_block(&s->pool, a, b->end));
    }
    s->pool.len[to] = n;
    return 0;
}

/* ---- prefixes ---- */

static void paged_publish(struct kv *c, size_t seq, size_t block, struct kv_hash hash)
{
    struct paged *s = c->state;

    ASSERT((block + 1) * c->lim.block <= s->pool.len[seq], "block %zu of %zu rows", block, s->pool.len[seq]);
    for (size_t g = 0; g < c->n_groups; g++) {
        const struct kvpool_seq *q = kvpool_seq(c, &s->pool, seq, g);
        struct pages *p = &s->pages[g];
        uint32_t b, *at;

        if (block * c->lim.block < q->low || find(p, &hash) != NONE)
            continue;
        b = kvpool_block(&s->pool, q, block);
        if (p->page[b].hashed)
            forget(p, b);
        at = bucket_of(p, &hash);
        p->page[b].hash = hash;
        p->page[b].hashed = true;
        p->page[b].chain = *at;
        *at = b;
    }
}

/* In each group with a window, those of the first N blocks that a query behind them sees are there. */
static bool can_adopt(const struct kv *c, const struct kv_hash *hash, size_t n)
{
    const struct paged *s = c->state;

    for (size_t g = 0; g < c->n_groups; g++) {
        struct kvpool_range r = kvpool_range(c, g, n * c->lim.block);

        for (size_t i = r.head ? 0 : r.first; i < r.end && c->group[g].window;
             i = i + 1 == r.head ? r.first : i + 1)
            if (find(&s->pages[g], &hash[i]) == NONE)
                return false;
    }
    return true;
}

static size_t paged_lookup(const struct kv *c, const struct kv_hash *hash, size_t n)
{
    const struct paged *s = c->state;
    size_t most = 0;

    n = n < s->pool.max_blocks ? n : s->pool.max_blocks;
    if (c->group[0].window == 0) { /* the layers that keep all decide how far it can go */
        while (most < n && find(&s->pages[0], &hash[most]) != NONE)
            most++;
        n = most;
    }
    while (n && !can_adopt(c, hash, n))
        n--;
    return n;
}

static void paged_adopt(struct kv *c, size_t seq, const struct kv_hash *hash, size_t n)
{
    struct paged *s = c->state;

    ASSERT(s->pool.len[seq] == 0);
    for (size_t g = 0; g < c->n_groups; g++) {
        struct kvpool_seq *q = kvpool_seq(c, &s->pool, seq, g);
        struct kvpool_range r = kvpool_range(c, g, n * c->lim.block);

        kvpool_begin(&s->pool, g, q, r.first, r.first * c->lim.block);
        for (; q->head < r.head; q->head++)
            share(c, g, q, q->head, find(&s->pages[g], &hash[q->head]));
        for (; q->end < r.end; q->end++)
            share(c, g, q, q->end, find(&s->pages[g], &hash[q->end]));
    }
    s->pool.len[seq] = n * c->lim.block;
}

/* ---- check ---- */

static int check_kept(const struct paged *s, size_t g, uint32_t *count, struct err *e)
{
    const struct pages *p = &s->pages[g];
    size_t n_blocks = s->pool.group[g].n_blocks, n = 0;

    for (uint32_t b = p->page[n_blocks].next; b != n_blocks; b = p->page[b].next, n++) {
        if (n > n_blocks || p->page[b].refs || !p->page[b].hashed || find(p, &p->page[b].hash) != b)
            return err_set(e, ERR_INPUT, "group %zu: block %u cannot be kept with %u holders", g, b,
                           p->page[b].refs);
        count[b]++;
    }
    return n == p->n_kept ? 0
                          : err_set(e, ERR_INPUT, "group %zu: %zu blocks are kept, not %zu", g, n, p->n_kept);
}

static int check_group(const struct kv *c, size_t g, uint32_t *count, struct err *e)
{
    const struct paged *s = c->state;
    const struct kvpool_group *p = &s->pool.group[g];
    int rc = kvpool_count(c, g, count, e);

    for (size_t b = 0; b < p->n_blocks && rc == 0; b++)
        if (count[b] != s->pages[g].page[b].refs)
            rc = err_set(e, ERR_INPUT, "group %zu: block %zu is held %u times, not %u", g, b, count[b],
                         s->pages[g].page[b].refs);
    if (rc == 0)
        rc = check_kept(s, g, count, e);
    for (size_t i = 0; i < p->n_free && rc == 0; i++)
        if (count[p->free[i]]++)
            rc = err_set(e, ERR_INPUT, "group %zu: block %u is free and held", g, p->free[i]);
    for (size_t b = 0; b < p->n_blocks && rc == 0; b++)
        if (count[b] == 0)
            rc = err_set(e, ERR_INPUT, "group %zu: block %zu is lost", g, b);
    return rc;
}

static int paged_check(const struct kv *c, struct err *e)
{
    return kvpool_check(c, check_group, e);
}

const struct kv_ops kv_paged = {.pool_bytes = kvpool_bytes,
                                .least_blocks = kvpool_least_blocks,
                                .open = paged_open,
                                .reserve = paged_reserve,
                                .has_room = paged_has_room,
                                .truncate = kvpool_truncate,
                                .fork = paged_fork,
                                .advance = kvpool_advance,
                                .publish = paged_publish,
                                .lookup = paged_lookup,
                                .adopt = paged_adopt,
                                .sees = kvpool_sees,
                                .view = kvpool_view,
                                .bytes = kvpool_region_bytes,
                                .held = kvpool_held_bytes,
                                .check = paged_check,
                                .close = paged_close};
