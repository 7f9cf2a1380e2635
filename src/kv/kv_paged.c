/* kv_paged.c - the pooled types slab_pool and paged, whose KV blocks several sequences may hold at once. A
 * fork shares blocks, the prefix cache gives a sequence the rows of an earlier sequence with the same beginning, and
 * a shared block is copied before a sequence writes into it. The two types differ in the size of a block.
 *
 * A block is free, held by sequences (refs > 0), or cached: no sequence holds it, but a node of the prefix
 * index names it, so that a sequence may reuse it.
 *
 *              allocate_block()           release_block(), refs = 0, in the index
 *     free -----------------------> held ----------------------------------------> cached
 *      ^                            |  ^                                             | |
 *      | release_block(), refs = 0, |  |  hold_block(); or evict_block(), which      | |
 *      | not in the index           |  |  gives the block to another sequence        | |
 *      +----------------------------+  +---------------------------------------------+ |
 *      |                                                                               |
 *      +-------------------------------------------------------------------------------+
 *        free_unreachable(): the node has lost its block in group 0
 *
 * hold_block() and release_block() also count the references to a held block. unindex_block() removes a held block
 * from the index before its rows change.
 *
 * Cached blocks form an LRU ring. A sequence releases its last block first, so that the end of a prefix is
 * evicted before its beginning. If group 0 keeps all rows, a node without a block in group 0 cannot be
 * reused, and its cached blocks of other groups are freed. kvpool.h describes regions and tables, prefix.h the index.
 *
 * With a store (store/store.h) a block is written to the store when it is full, or when it is evicted if the
 * store still lacks it. Blocks that are read ahead become cached blocks, as if another sequence had computed
 * them, so that kv_adopt() needs the pool only.
 */
#include <string.h>
#include <xxhash.h>

#include "base/mem.h"
#include "kv/kvpool.h"
#include "kv/prefix.h"
#include "kv/store/record.h"
#include "kv/store/store.h"

#define NONE UINT32_MAX

/* The version of the records of a store. A larger number makes the program ignore records of earlier versions, which
 * may hold rows under tokens of another hypothesis of a beam search. */
enum { RECORDS = 2 };

struct paged_block {
    uint32_t refs;
    uint32_t next, prev; /* links in the ring of cached blocks */
    /* The node of the prefix index whose rows the block holds. NONE: the block is not in the index. */
    uint32_t node;
};

struct paged_blocks {
    /* [n_blocks + 1] The last element is the head of the ring of cached blocks; its NEXT is the oldest. */
    struct paged_block *block;
    size_t n_cached;
};

/* The first blocks of a sequence, as a path of nodes of the prefix index. */
struct path {
    struct prefix_key seed;
    uint32_t node;   /* node of the last block of the path, held; NONE: the path is empty */
    size_t n_blocks; /* length of the path */
    /* No blocks will be added: the index was full, or the sequence did not begin with kv_adopt(). */
    bool ended;
};

/* A record that is being read from the store. */
struct reading {
    int slot; /* store slot of the read */
    size_t i, g;
};

/* A kv_read_ahead() read: loads the first blocks of a waiting sequence from the store. */
struct read_ahead {
    const int32_t *token; /* tokens of the prefix, borrowed; NULL: this handle is free */
    struct prefix_key seed;
    size_t n_blocks;
    uint32_t *node; /* [max_blocks] nodes of the prefix; the last one is held */
    size_t at, g;   /* the block and group to request next */
    bool failed;    /* a record was missing or wrong, which makes later blocks useless */
    size_t n_reading;
    struct reading reading[STORE_MOST_SLOTS];
};

struct paged {
    struct kvpool pool;
    struct paged_blocks blocks[KV_MAX_GROUPS];
    struct prefix index; /* zeroed if keep_prefixes is not set */
    struct path *path;   /* [max_seqs] */
    int32_t *token;      /* [blocks of group 0, block] the tokens of the rows; NULL without a prefix cache */
    uint32_t *found;     /* [max_blocks] result of find_prefix() and find_blocks() */
    struct store *store; /* borrowed; NULL: no store */
    struct prefix_key context[KV_MAX_GROUPS]; /* context_of() of each group */
    struct prefix_key *chain;                 /* [max_blocks] chain hashes of the prefix of find_blocks() */
    struct read_ahead read_ahead[KV_READ_AHEADS];
};

static bool keeps_prefixes(const struct paged *s)
{
    return s->index.n_nodes != 0;
}

/* ---- writing to the store ---- */

static struct record_name name_of(const struct kv *c, const struct paged *s, size_t g, size_t i,
                                  struct prefix_key seed, struct prefix_key chain)
{
    return (struct record_name){.context = s->context[g],
                                .seed = seed,
                                .key = record_key(s->context[g], chain),
                                .n_tokens = (i + 1) * c->lim.block,
                                .n_bytes = kv_block_bytes(c, g)};
}

/* Writes block B of group G, the rows of NODE, to the store if the block is full and the store lacks it. */
static void write_to_store(const struct kv *c, struct paged *s, size_t g, uint32_t b, uint32_t node)
{
    const struct prefix *p = &s->index;
    size_t block = c->lim.block, depth = 0;
    struct record_name name;
    char *out;

    if (!s->store || p->node[node].n_tokens != block)
        return;
    for (uint32_t up = p->node[node].parent; up != PREFIX_NONE; up = p->node[up].parent)
        depth++;
    name = name_of(c, s, g, depth, p->seed[node], p->chain[node]);
    if (!(out = store_take(s->store, name.key)))
        return;
    record_begin(out, &name);
    for (size_t i = depth + 1; i--; node = p->node[node].parent)
        memcpy(out + RECORD_HEADER + i * block * sizeof(*p->token), p->token + node * block,
               block * sizeof(*p->token));
    kvpool_save(c, &s->pool, g, b, out + record_tiles(name.n_tokens));
    store_put(s->store, out, record_bytes(&name));
}

/* ---- the states of a block ---- */

static void unlink_cached(struct paged_blocks *s, uint32_t b)
{
    s->block[s->block[b].prev].next = s->block[b].next;
    s->block[s->block[b].next].prev = s->block[b].prev;
    s->n_cached--;
}

static void link_cached(struct paged_blocks *s, uint32_t head, uint32_t b)
{
    s->block[b].next = head;
    s->block[b].prev = s->block[head].prev;
    s->block[s->block[b].prev].next = b;
    s->block[head].prev = b;
    s->n_cached++;
}

static size_t available(const struct paged *s, size_t g)
{
    return s->pool.group[g].n_free + s->blocks[g].n_cached;
}

/* Removes block B of group G from the prefix index. Called before its rows change. */
static void unindex_block(struct paged *s, size_t g, uint32_t b)
{
    uint32_t node = s->blocks[g].block[b].node;

    if (node == NONE)
        return;
    s->blocks[g].block[b].node = NONE;
    prefix_set_place(&s->index, node, g, PREFIX_NONE);
}

/* Frees the cached blocks of node I. The node has lost its block in group 0, so that its blocks in other groups cannot
 * be reused. */
static void free_unreachable(const struct kv *c, struct paged *s, uint32_t i)
{
    for (size_t g = 1; g < c->n_groups; g++) {
        uint32_t b = prefix_place(&s->index, i, g);

        if (b == PREFIX_NONE || s->blocks[g].block[b].refs)
            continue;
        unlink_cached(&s->blocks[g], b);
        kvpool_push(&s->pool, g, b);
        s->blocks[g].block[b].node = NONE;
        prefix_set_place(&s->index, i, g, PREFIX_NONE);
    }
}

/* Returns whether a node without a block in group G can never be reused: G is group 0 and keeps all rows. */
static bool decides_adoption(const struct kv *c, size_t g)
{
    return g == 0 && c->group[0].window == 0;
}

/* Evicts and returns the least recently used cached block of group G. */
static uint32_t evict_block(struct kv *c, size_t g)
{
    struct paged *s = c->state;
    struct paged_blocks *p = &s->blocks[g];
    uint32_t b = p->block[s->pool.group[g].n_blocks].next, node = p->block[b].node;

    ASSERT(p->n_cached > 0);
    unlink_cached(p, b);
    write_to_store(c, s, g, b, node);
    prefix_hold(&s->index, node);
    unindex_block(s, g, b);
    if (decides_adoption(c, g))
        free_unreachable(c, s, node);
    prefix_unhold(&s->index, node);
    return b;
}

/* Returns a block of group G with one reference: a free block, or else the cached block that is evicted first. A free
 * or cached block must exist. */
static uint32_t allocate_block(struct kv *c, size_t g)
{
    struct paged *s = c->state;
    uint32_t b = s->pool.group[g].n_free ? kvpool_pop(&s->pool, g) : evict_block(c, g);

    s->blocks[g].block[b].refs = 1;
    return b;
}

/* Removes one reference to block B of group G. Without references it becomes cached if kv_adopt() can reuse it,
 * otherwise free. */
static void release_block(struct kv *c, size_t g, uint32_t b)
{
    struct paged *s = c->state;
    struct paged_block *p = &s->blocks[g].block[b];

    ASSERT(p->refs > 0);
    if (--p->refs)
        return;
    if (p->node != NONE && c->group[0].window == 0 && prefix_place(&s->index, p->node, 0) == PREFIX_NONE)
        unindex_block(s, g, b); /* the node has no block in group 0 */
    if (p->node != NONE)
        link_cached(&s->blocks[g], (uint32_t)s->pool.group[g].n_blocks, b);
    else
        kvpool_push(&s->pool, g, b);
}

/* Adds a reference to block B of group G, which is held or cached. */
static void hold_block(struct paged *s, size_t g, uint32_t b)
{
    struct paged_block *p = &s->blocks[g].block[b];

    if (p->refs++ == 0)
        unlink_cached(&s->blocks[g], b);
}

/* ---- open and close ---- */

static void paged_close(struct kv *c)
{
    struct paged *s = c->state;

    if (!s)
        return;
    for (size_t g = 0; g < KV_MAX_GROUPS; g++)
        mem_free(s->blocks[g].block);
    for (size_t a = 0; a < KV_READ_AHEADS; a++)
        mem_free(s->read_ahead[a].node);
    prefix_close(&s->index);
    mem_free(s->path);
    mem_free(s->token);
    mem_free(s->found);
    mem_free(s->chain);
    kvpool_close(&s->pool);
    mem_free(s);
    c->state = NULL;
}

static int open_blocks(struct paged_blocks *p, size_t n_blocks, struct err *e)
{
    p->block = mem_zalloc(n_blocks + 1, sizeof(*p->block), MEM_KV);
    if (!p->block)
        return err_nomem(e, "the tables of the KV cache");
    for (size_t b = 0; b <= n_blocks; b++)
        p->block[b].node = NONE;
    p->block[n_blocks].next = p->block[n_blocks].prev = (uint32_t)n_blocks;
    return 0;
}

/* Opens the index with enough nodes for all blocks of the largest group. If all groups have windows, it also
 * has nodes for the earlier blocks, whose rows were dropped. */
static int open_index(struct kv *c, struct paged *s, struct err *e)
{
    size_t n = c->lim.max_seqs;

    s->path = mem_zalloc(c->lim.max_seqs, sizeof(*s->path), MEM_KV);
    s->found = mem_zalloc(s->pool.max_blocks, sizeof(*s->found), MEM_KV);
    if (!s->path || !s->found)
        return err_nomem(e, "the tables of the KV cache");
    for (size_t i = 0; i < c->lim.max_seqs; i++)
        s->path[i] = (struct path){.node = NONE, .ended = true};
    if (!c->lim.keep_prefixes)
        return 0;
    s->token = mem_zalloc(s->pool.group[0].n_blocks * c->lim.block, sizeof(*s->token), MEM_KV);
    if (!s->token)
        return err_nomem(e, "the tables of the KV cache");
    for (size_t g = 0; g < c->n_groups; g++)
        n = s->pool.group[g].n_blocks + c->lim.max_seqs > n ? s->pool.group[g].n_blocks + c->lim.max_seqs : n;
    if (c->group[0].window)
        n += c->lim.max_seqs * s->pool.max_blocks;
    if (c->lim.store)
        n += KV_READ_AHEADS * s->pool.max_blocks; /* nodes of blocks that kv_read_ahead() reads */
    return prefix_open(&s->index, c->lim.prefix_index, n, c->lim.block, c->n_groups, e);
}

/* Returns the hash that separates the records of group G from records of other models, sizes and groups. It
 * depends on which layers are in the group. */
static struct prefix_key context_of(const struct kv *c, size_t g)
{
    const uint64_t size[] = {RECORDS,
                             c->lim.store_context.w[0],
                             c->lim.store_context.w[1],
                             (uint64_t)c->lim.dtype,
                             c->lim.n_layers,
                             c->lim.n_kv,
                             c->lim.head_dim,
                             c->lim.block,
                             c->tile_bytes};
    XXH128_hash_t part[2] = {XXH3_128bits(size, sizeof(size)), {0}};

    for (size_t l = 0; l < c->lim.n_layers; l++)
        if (c->group_of[l] == g) {
            const uint64_t layer[] = {part[1].low64, part[1].high64, l, kv_layer_dim(&c->lim, l)};

            part[1] = XXH3_128bits(layer, sizeof(layer));
        }
    part[0] = XXH3_128bits(part, sizeof(part));
    return (struct prefix_key){{part[0].low64, part[0].high64}};
}

static int open_store(struct kv *c, struct paged *s, struct err *e)
{
    if (!c->lim.store || !c->lim.keep_prefixes)
        return 0;
    s->store = c->lim.store;
    for (size_t g = 0; g < c->n_groups; g++)
        s->context[g] = context_of(c, g);
    s->chain = mem_zalloc(s->pool.max_blocks, sizeof(*s->chain), MEM_KV);
    if (!s->chain)
        return err_nomem(e, "the tables of the KV store");
    for (size_t a = 0; a < KV_READ_AHEADS; a++) {
        s->read_ahead[a].node = mem_zalloc(s->pool.max_blocks, sizeof(uint32_t), MEM_KV);
        if (!s->read_ahead[a].node)
            return err_nomem(e, "the tables of the KV store");
    }
    return 0;
}

static int paged_open(struct kv *c, struct err *e)
{
    struct paged *s = c->state = mem_zalloc(1, sizeof(*s), MEM_KV);
    int rc;

    if (!s)
        return err_nomem(e, "the KV cache");
    s->pool.allocate = allocate_block;
    s->pool.release = release_block;
    rc = kvpool_open(c, &s->pool, e);
    for (size_t g = 0; g < c->n_groups && rc == 0; g++)
        rc = open_blocks(&s->blocks[g], s->pool.group[g].n_blocks, e);
    if (rc == 0 && (rc = open_index(c, s, e)) == 0)
        rc = open_store(c, s, e);
    if (rc)
        paged_close(c);
    return rc;
}

/* ---- the tokens of rows ---- */

/* Returns the tokens [block] of the rows of block B of group 0. */
static int32_t *tokens_of(const struct kv *c, const struct paged *s, uint32_t b)
{
    return s->token + b * c->lim.block;
}

/* Copies the rows of block FROM of group G to block TO, and their tokens. */
static void copy_rows(const struct kv *c, struct paged *s, size_t g, uint32_t from, uint32_t to)
{
    kvpool_copy(c, &s->pool, g, from, to);
    if (g == 0 && s->token)
        memcpy(tokens_of(c, s, to), tokens_of(c, s, from), c->lim.block * sizeof(*s->token));
}

static void paged_set_tokens(struct kv *c, size_t seq, size_t pos, const int32_t *token, size_t n)
{
    const struct paged *s = c->state;
    size_t block = c->lim.block;

    for (size_t i = 0, len; i < n && s->token; i += len) {
        size_t at = (pos + i) % block;

        len = n - i < block - at ? n - i : block - at;
        memcpy(tokens_of(c, s, kvpool_block(&s->pool, kvpool_seq(c, &s->pool, seq, 0), (pos + i) / block)) +
                   at,
               token + i, len * sizeof(*token));
    }
}

/* ---- sequences ---- */

/* Returns whether SEQ holds a partly filled last block in group G. Sets *I to its index. */
static bool partly_filled(const struct kv *c, const struct paged *s, size_t seq, size_t g, size_t *i)
{
    const struct kvpool_seq *q = kvpool_seq(c, &s->pool, seq, g);

    *i = s->pool.len[seq] / c->lim.block;
    return s->pool.len[seq] % c->lim.block != 0 && *i >= q->first && *i < q->end;
}

static bool must_copy(const struct kv *c, const struct paged *s, size_t seq, size_t g, size_t *i)
{
    return partly_filled(c, s, seq, g, i) &&
           s->blocks[g].block[kvpool_block(&s->pool, kvpool_seq(c, &s->pool, seq, g), *i)].refs > 1;
}

/* Prepares the partly filled block of SEQ for writing: copies the block if other sequences hold it, otherwise
 * removes it from the index. */
static void make_own(struct kv *c, size_t seq, size_t g)
{
    struct paged *s = c->state;
    struct kvpool_seq *q = kvpool_seq(c, &s->pool, seq, g);
    uint32_t b, own;
    size_t i;

    if (!partly_filled(c, s, seq, g, &i))
        return;
    b = kvpool_block(&s->pool, q, i);
    if (s->blocks[g].block[b].refs == 1) {
        unindex_block(s, g, b);
        return;
    }
    own = allocate_block(c, g);
    copy_rows(c, s, g, b, own);
    kvpool_set(&s->pool, q, i, own);
    release_block(c, g, b);
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

/* Counts the missing blocks, and one more for each shared block that must be copied before writing. */
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

/* Shortens the path of SEQ to its first N_BLOCKS blocks. */
static void cut_path(struct paged *s, size_t seq, size_t n_blocks)
{
    struct path *p = &s->path[seq];
    uint32_t node = p->node;

    for (; p->n_blocks > n_blocks; p->n_blocks--)
        node = s->index.node[node].parent;
    prefix_hold(&s->index, node);
    prefix_unhold(&s->index, p->node);
    p->node = node;
}

static int paged_truncate(struct kv *c, size_t seq, size_t n)
{
    struct paged *s = c->state;
    int rc = kvpool_truncate(c, seq, n);

    if (rc)
        return rc;
    cut_path(s, seq, n / c->lim.block);
    if (n == 0)
        s->path[seq] = (struct path){.node = NONE, .ended = true};
    return 0;
}

/* Makes BLOCK, which other sequences may hold, the I-th block of Q. */
static void share_block(struct kv *c, size_t g, struct kvpool_seq *q, size_t i, uint32_t block)
{
    struct paged *s = c->state;

    hold_block(s, g, block);
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
            share_block(c, g, b, b->head, kvpool_block(&s->pool, a, b->head));
        for (; b->end < r.end; b->end++)
            share_block(c, g, b, b->end, kvpool_block(&s->pool, a, b->end));
    }
    s->pool.len[to] = n;
    s->path[to] = s->path[from];
    prefix_hold(&s->index, s->path[to].node);
    cut_path(s, to, n / c->lim.block);
    return 0;
}

/* ---- the prefix cache ---- */

/* Returns the I-th block of SEQ in group G. NONE: SEQ does not hold it, or it has unwritten rows. */
static uint32_t held_block(const struct kv *c, const struct paged *s, size_t seq, size_t g, size_t i)
{
    const struct kvpool_seq *q = kvpool_seq(c, &s->pool, seq, g);

    if (i >= q->end || (i < q->first ? i >= q->head : i * c->lim.block < q->low))
        return NONE;
    return kvpool_block(&s->pool, q, i);
}

/* Adds the I-th block of SEQ in each group to the index as the rows of NODE, and writes it to the store. The rows must
 * be computed from the tokens of NODE; otherwise later sequences would get wrong answers. */
static void index_block(struct kv *c, size_t seq, size_t i, uint32_t node)
{
    struct paged *s = c->state;
    const struct prefix *p = &s->index;
    uint32_t first = held_block(c, s, seq, 0, i);

    ASSERT(first == NONE || memcmp(tokens_of(c, s, first), p->token + node * c->lim.block,
                                   p->node[node].n_tokens * sizeof(*p->token)) == 0,
           "sequence %zu: the rows of block %zu were computed from other tokens", seq, i);
    for (size_t g = 0; g < c->n_groups; g++) {
        uint32_t b = held_block(c, s, seq, g, i);

        if (b == NONE || prefix_place(&s->index, node, g) != PREFIX_NONE)
            continue;
        unindex_block(s, g, b);
        s->blocks[g].block[b].node = node;
        prefix_set_place(&s->index, node, g, b);
        write_to_store(c, s, g, b, node);
    }
}

static void paged_publish(struct kv *c, size_t seq, const int32_t *token, size_t n, bool last)
{
    struct paged *s = c->state;
    struct path *p = &s->path[seq];
    size_t block = c->lim.block;

    n = n < s->pool.len[seq] ? n : s->pool.len[seq];
    while (!p->ended && p->n_blocks * block < n) {
        size_t at = p->n_blocks * block, len = n - at < block ? n - at : block;
        uint32_t node;

        if (len < block && (!last || s->index.kind == PREFIX_HASH))
            return;
        node = prefix_add(&s->index, p->node, p->seed, token + at, len);
        p->ended = node == PREFIX_NONE || len < block;
        if (node == PREFIX_NONE)
            return;
        prefix_hold(&s->index, node);
        index_block(c, seq, p->n_blocks, node);
        prefix_unhold(&s->index, p->node);
        p->node = node;
        p->n_blocks++;
    }
}

/* Returns whether the nodes in s->found have, in each group, all blocks that a query after N rows sees. */
static bool can_adopt(const struct kv *c, const struct paged *s, size_t n)
{
    for (size_t g = 0; g < c->n_groups; g++) {
        struct kvpool_range r = kvpool_range(c, g, n);

        for (size_t i = r.head ? 0 : r.first; i < r.end; i = i + 1 == r.head ? r.first : i + 1)
            if (prefix_place(&s->index, s->found[i], g) == PREFIX_NONE)
                return false;
    }
    return true;
}

/* Returns the length of the longest prefix of TOKEN [n] that can be reused. Puts its nodes into s->found. */
static size_t find_prefix(const struct kv *c, struct paged *s, struct prefix_key seed, const int32_t *token,
                          size_t n)
{
    size_t block = c->lim.block, found = 0, common = block;
    uint32_t parent = PREFIX_NONE;

    n = n < s->pool.max_blocks * block ? n : s->pool.max_blocks * block;
    while (found < n && common == block) {
        uint32_t i = prefix_find(&s->index, parent, seed, token + found,
                                 n - found < block ? n - found : block, &common);

        if (i == PREFIX_NONE)
            break;
        s->found[found / block] = parent = i;
        found += common;
    }
    while (found && !can_adopt(c, s, found))
        found = (found - 1) / block * block;
    return found;
}

/* Copies the blocks of NODE to new blocks, which become block I of SEQ. SEQ will keep their first rows and
 * write its own rows after them. */
static void copy_block(struct kv *c, size_t seq, size_t i, uint32_t node)
{
    struct paged *s = c->state;

    for (size_t g = 0; g < c->n_groups; g++) {
        uint32_t from = prefix_place(&s->index, node, g), own;

        hold_block(s, g, from); /* prevents its eviction for the new block */
        own = allocate_block(c, g);
        copy_rows(c, s, g, from, own);
        release_block(c, g, from);
        kvpool_set(&s->pool, kvpool_seq(c, &s->pool, seq, g), i, own);
        kvpool_seq(c, &s->pool, seq, g)->end++;
    }
}

/* Returns whether each group has the blocks of a prefix of N rows, and one available block for the copy. */
static bool can_copy(const struct kv *c, const struct paged *s, size_t n)
{
    for (size_t g = 0; g < c->n_groups; g++) {
        struct kvpool_range r = kvpool_range(c, g, n);

        if (available(s, g) < r.head + r.end - r.first + 1)
            return false;
    }
    return true;
}

static size_t paged_adopt(struct kv *c, size_t seq, struct prefix_key seed, const int32_t *token, size_t n)
{
    struct paged *s = c->state;
    size_t found, block = c->lim.block, whole;

    ASSERT(s->pool.len[seq] == 0);
    if (!keeps_prefixes(s))
        return 0;
    s->path[seq] = (struct path){.seed = seed, .node = NONE};
    found = find_prefix(c, s, seed, token, n);
    if (found % block && !can_copy(c, s, found))
        found = found / block * block;
    while (found && !can_adopt(c, s, found))
        found = (found - 1) / block * block;
    whole = found / block;
    for (size_t g = 0; g < c->n_groups && found; g++) {
        struct kvpool_seq *q = kvpool_seq(c, &s->pool, seq, g);
        struct kvpool_range r = kvpool_range(c, g, found);

        kvpool_begin(&s->pool, g, q, r.first, r.first * block);
        for (; q->head < r.head; q->head++)
            share_block(c, g, q, q->head, prefix_place(&s->index, s->found[q->head], g));
        for (; q->end < whole; q->end++)
            share_block(c, g, q, q->end, prefix_place(&s->index, s->found[q->end], g));
    }
    if (found % block)
        copy_block(c, seq, whole, s->found[whole]);
    s->pool.len[seq] = found;
    s->path[seq].n_blocks = whole;
    s->path[seq].node = whole ? s->found[whole - 1] : NONE;
    prefix_hold(&s->index, s->path[seq].node);
    return found;
}

/* ---- reading from the store ---- */

/* Returns whether the pool or the store has block I, in group G, of the prefix in s->found and s->chain. */
static bool is_somewhere(const struct paged *s, size_t g, size_t i)
{
    return (s->found[i] != NONE && prefix_place(&s->index, s->found[i], g) != PREFIX_NONE) ||
           store_has(s->store, record_key(s->context[g], s->chain[i]));
}

/* Returns whether a query after the first N blocks sees the I-th block in group G. */
static bool is_seen(const struct kv *c, size_t g, size_t i, size_t n)
{
    struct kvpool_range r = kvpool_range(c, g, n * c->lim.block);

    return i < r.head || (i >= r.first && i < r.end);
}

/* Returns whether pool and store have all blocks that a query after N blocks sees, and the pool has room. */
static bool can_have(const struct kv *c, const struct paged *s, size_t n)
{
    for (size_t g = 0; g < c->n_groups; g++) {
        struct kvpool_range r = kvpool_range(c, g, n * c->lim.block);

        if (r.head + r.end - r.first > available(s, g))
            return false;
        for (size_t i = r.head ? 0 : r.first; i < r.end && c->group[g].window;
             i = i + 1 == r.head ? r.first : i + 1)
            if (!is_somewhere(s, g, i))
                return false;
    }
    return true;
}

/* Returns how many first blocks of TOKEN [n] the pool and the store have together. Puts their hashes into
 * s->chain, and the nodes of blocks in the pool into s->found. */
static size_t find_blocks(const struct kv *c, struct paged *s, struct prefix_key seed, const int32_t *token,
                          size_t n)
{
    size_t block = c->lim.block, n_blocks = n / block, i, common;
    uint32_t parent = PREFIX_NONE;

    n_blocks = n_blocks < s->pool.max_blocks ? n_blocks : s->pool.max_blocks;
    for (i = 0; i < n_blocks; i++) {
        bool broken = i && s->found[i - 1] == NONE;

        s->chain[i] = prefix_chain(i ? s->chain[i - 1] : seed, token + i * block, block);
        s->found[i] = broken ? NONE : prefix_find(&s->index, parent, seed, token + i * block, block, &common);
        if (s->found[i] != NONE && common < block)
            s->found[i] = NONE;
        parent = s->found[i];
        if (c->group[0].window == 0 && !is_somewhere(s, 0, i))
            break;
    }
    while (i && !can_have(c, s, i))
        i--;
    return i;
}

/* Makes the cached blocks of NODE [n] the most recently used blocks, in reverse order: the blocks of the
 * first node are evicted last. */
static void touch(const struct kv *c, struct paged *s, const uint32_t *node, size_t n)
{
    while (n--)
        for (size_t g = 0; g < c->n_groups && node[n] != NONE; g++) {
            uint32_t b = prefix_place(&s->index, node[n], g);

            if (b == PREFIX_NONE || s->blocks[g].block[b].refs)
                continue;
            unlink_cached(&s->blocks[g], b);
            link_cached(&s->blocks[g], (uint32_t)s->pool.group[g].n_blocks, b);
        }
}

/* Adds nodes for all blocks of A to the index and holds the last node. False: the index is full. */
static bool add_nodes(const struct kv *c, struct paged *s, struct read_ahead *a)
{
    size_t block = c->lim.block;
    uint32_t node = PREFIX_NONE;

    for (size_t i = 0; i < a->n_blocks; i++) {
        uint32_t next = prefix_add(&s->index, node, a->seed, a->token + i * block, block);

        if (next != PREFIX_NONE)
            prefix_hold(&s->index, next);
        prefix_unhold(&s->index, node);
        if ((a->node[i] = node = next) == PREFIX_NONE)
            return false;
    }
    return true;
}

/* Returns whether another read is loading the I-th block of a prefix, whose hash is CHAIN. */
static bool is_being_read(const struct paged *s, size_t i, struct prefix_key chain)
{
    for (size_t a = 0; a < KV_READ_AHEADS; a++)
        if (s->read_ahead[a].token && i < s->read_ahead[a].n_blocks &&
            memcmp(&s->index.chain[s->read_ahead[a].node[i]], &chain, sizeof(chain)) == 0)
            return true;
    return false;
}

static struct read_ahead *free_handle(struct paged *s)
{
    for (size_t a = 0; a < KV_READ_AHEADS; a++)
        if (!s->read_ahead[a].token)
            return &s->read_ahead[a];
    return NULL;
}

static int paged_read_ahead(struct kv *c, struct prefix_key seed, const int32_t *token, size_t n,
                            size_t *from, size_t *to)
{
    struct paged *s = c->state;
    size_t block = c->lim.block, there, n_blocks;
    struct read_ahead *a;

    if (!s->store)
        return KV_READ_AHEAD_NOTHING;
    there = find_prefix(c, s, seed, token, n);
    n_blocks = find_blocks(c, s, seed, token, n);
    if (n_blocks * block <= there)
        return KV_READ_AHEAD_NOTHING;
    if (is_being_read(s, n_blocks - 1, s->chain[n_blocks - 1]) ||
        is_being_read(s, there / block, s->chain[there / block]) || !(a = free_handle(s)))
        return KV_READ_AHEAD_LATER;
    touch(c, s, s->found, n_blocks);
    a->token = token;
    a->seed = seed;
    a->n_blocks = n_blocks;
    a->at = a->g = a->n_reading = 0;
    a->failed = false;
    if (!add_nodes(c, s, a)) {
        a->token = NULL;
        return KV_READ_AHEAD_NOTHING;
    }
    *from = there;
    *to = n_blocks * block;
    return (int)(a - s->read_ahead);
}

/* Loads RECORD, the I-th block of A in group G, into a cached block. */
static void cache_record(struct kv *c, struct paged *s, struct read_ahead *a, size_t g, size_t i,
                         const char *record)
{
    uint32_t node = a->node[i], b;
    struct record_name name = name_of(c, s, g, i, a->seed, s->index.chain[node]);

    if (prefix_place(&s->index, node, g) != PREFIX_NONE)
        return; /* a running sequence has computed the block meanwhile */
    if (!record_is_of(record, &name, a->token) || available(s, g) == 0) {
        a->failed = true;
        return;
    }
    b = allocate_block(c, g);
    kvpool_load(c, &s->pool, g, b, record + record_tiles(name.n_tokens));
    if (g == 0)
        memcpy(tokens_of(c, s, b), a->token + i * c->lim.block, c->lim.block * sizeof(*s->token));
    s->blocks[g].block[b].refs = 0;
    s->blocks[g].block[b].node = node;
    prefix_set_place(&s->index, node, g, b);
    link_cached(&s->blocks[g], (uint32_t)s->pool.group[g].n_blocks, b);
}

/* Requests the blocks of A that the pool lacks from the store, until the store has no free slot. */
static void ask_for_blocks(const struct kv *c, struct paged *s, struct read_ahead *a)
{
    for (; a->at < a->n_blocks; a->at++, a->g = 0)
        for (; a->g < c->n_groups; a->g++) {
            struct reading r = {.i = a->at, .g = a->g};

            if (!is_seen(c, r.g, r.i, a->n_blocks) ||
                prefix_place(&s->index, a->node[r.i], r.g) != PREFIX_NONE)
                continue;
            r.slot = store_read(s->store, record_key(s->context[r.g], s->index.chain[a->node[r.i]]));
            if (r.slot < 0)
                return;
            a->reading[a->n_reading++] = r;
        }
}

static void paged_read_ahead_end(struct kv *c, int handle)
{
    struct paged *s = c->state;
    struct read_ahead *a = &s->read_ahead[handle];

    while (a->n_reading)
        store_drop(s->store, a->reading[--a->n_reading].slot);
    touch(c, s, a->node, a->n_blocks);
    a->token = NULL;
    prefix_unhold(&s->index, a->node[a->n_blocks - 1]);
}

static bool paged_read_ahead_go_on(struct kv *c, int handle)
{
    struct paged *s = c->state;
    struct read_ahead *a = &s->read_ahead[handle];
    size_t n = 0;

    for (size_t k = 0; k < a->n_reading; k++) {
        struct reading r = a->reading[k];
        enum store_state state = store_look(s->store, r.slot);

        if (state == STORE_BUSY) {
            a->reading[n++] = r;
            continue;
        }
        if (state == STORE_HERE && !a->failed)
            cache_record(c, s, a, r.g, r.i, store_record(s->store, r.slot));
        a->failed = a->failed || state == STORE_MISSED;
        store_drop(s->store, r.slot);
    }
    a->n_reading = n;
    if (!a->failed)
        ask_for_blocks(c, s, a);
    if (!a->failed && (a->n_reading || a->at < a->n_blocks))
        return false;
    paged_read_ahead_end(c, handle);
    return true;
}

static void paged_read_ahead_wait(struct kv *c, double seconds)
{
    const struct paged *s = c->state;

    store_wait(s->store, seconds);
}

/* ---- check ---- */

static int check_cached(const struct paged *s, size_t g, uint32_t *count, struct err *e)
{
    const struct paged_blocks *p = &s->blocks[g];
    size_t n_blocks = s->pool.group[g].n_blocks, n = 0;

    for (uint32_t b = p->block[n_blocks].next; b != n_blocks; b = p->block[b].next, n++) {
        if (n > n_blocks || p->block[b].refs || p->block[b].node == NONE)
            return err_set(e, ERR_INPUT, "group %zu: block %u is in the ring, but has %u holders or no node",
                           g, b, p->block[b].refs);
        count[b]++;
    }
    return n == p->n_cached ? 0
                            : err_set(e, ERR_INPUT, "group %zu: the ring has %zu blocks, but %zu are counted",
                                      g, n, p->n_cached);
}

static int check_group(const struct kv *c, size_t g, uint32_t *count, struct err *e)
{
    const struct paged *s = c->state;
    const struct kvpool_group *p = &s->pool.group[g];
    int rc = kvpool_count(c, g, count, e);

    for (size_t b = 0; b < p->n_blocks && rc == 0; b++) {
        const struct paged_block *block = &s->blocks[g].block[b];

        if (count[b] != block->refs)
            rc = err_set(e, ERR_INPUT, "group %zu: block %zu has %u holders, but counts %u", g, b, count[b],
                         block->refs);
        else if (block->node != NONE && prefix_place(&s->index, block->node, g) != b)
            rc = err_set(e, ERR_INPUT, "group %zu: the node of block %zu names another block", g, b);
    }
    if (rc == 0)
        rc = check_cached(s, g, count, e);
    for (size_t i = 0; i < p->n_free && rc == 0; i++)
        if (count[p->free[i]]++)
            rc = err_set(e, ERR_INPUT, "group %zu: block %u is free, but also held, cached or free twice", g,
                         p->free[i]);
    for (size_t b = 0; b < p->n_blocks && rc == 0; b++)
        if (count[b] == 0)
            rc = err_set(e, ERR_INPUT, "group %zu: block %zu is neither free, held nor cached", g, b);
    return rc;
}

static int paged_check(const struct kv *c, struct err *e)
{
    const struct paged *s = c->state;
    int rc = kvpool_check(c, check_group, e);

    return rc || !keeps_prefixes(s) ? rc : prefix_check(&s->index, e);
}

const struct kv_ops kv_paged = {.pool_bytes = kvpool_bytes,
                                .least_blocks = kvpool_least_blocks,
                                .open = paged_open,
                                .reserve = paged_reserve,
                                .has_room = paged_has_room,
                                .truncate = paged_truncate,
                                .fork = paged_fork,
                                .advance = kvpool_advance,
                                .set_tokens = paged_set_tokens,
                                .publish = paged_publish,
                                .adopt = paged_adopt,
                                .read_ahead = paged_read_ahead,
                                .read_ahead_go_on = paged_read_ahead_go_on,
                                .read_ahead_end = paged_read_ahead_end,
                                .read_ahead_wait = paged_read_ahead_wait,
                                .sees = kvpool_sees,
                                .view = kvpool_view,
                                .bytes = kvpool_region_bytes,
                                .held = kvpool_held_bytes,
                                .check = paged_check,
                                .close = paged_close};
