/* kvpool.c - allocates the regions of blocks, and keeps the block tables of sequences. */
#include "kv/kvpool.h"

#include <string.h>

#include "base/files/map.h"
#include "base/mem.h"
#include "base/threads/pool.h"
#include "kern/kern.h"

enum { PAGE = 4096, SHARE = 2 << 20 };

static size_t blocks_of(const struct kv *c, size_t rows)
{
    return rows / c->lim.block + (rows % c->lim.block != 0);
}

/* Returns the number of blocks that hold the sink of group G. */
static size_t sink_blocks(const struct kv *c, size_t g)
{
    return blocks_of(c, c->group[g].sink);
}

/* Returns the first block after the sink that a query at POS sees in group G; 0 while the window touches the sink. */
static size_t first_block(const struct kv *c, size_t g, size_t pos)
{
    size_t first = kv_group_first(&c->group[g], pos) / c->lim.block;

    return first > sink_blocks(c, g) ? first : 0;
}

/* Returns the maximum number of blocks that a sequence holds in group G, which has a window. The caller adds the blocks
 * for the rows of a step. In a step of n rows a sequence holds window + n rows, which touch at most ceil(window /
 * block) + ceil(n / block) + 1 blocks, and the blocks of the sink. */
static size_t seq_blocks(const struct kv *c, size_t g)
{
    return sink_blocks(c, g) + blocks_of(c, c->group[g].window) + 2;
}

/* Returns the number of blocks of group G: the budget, or the maximum that windows, sinks and a step can use. */
static size_t group_blocks(const struct kv *c, size_t g)
{
    size_t all = blocks_of(c, c->lim.pool_tokens), most;

    if (!c->group[g].window || !c->lim.step_tokens)
        return all;
    if (__builtin_mul_overflow(seq_blocks(c, g), c->lim.max_seqs, &most) ||
        __builtin_add_overflow(most, blocks_of(c, c->lim.step_tokens), &most))
        return all;
    if (c->lim.keep_prefixes &&
        __builtin_mul_overflow(most, 2, &most)) /* the same number again for cached prefixes */
        return all;
    return most < all ? most : all;
}

size_t kvpool_least_blocks(const struct kv *c)
{
    size_t least = 0;

    for (size_t g = 0; g < c->n_groups; g++) {
        size_t all = blocks_of(c, c->lim.max_len), shown = all;

        if (c->group[g].window && c->lim.step_tokens)
            shown = seq_blocks(c, g) + blocks_of(c, c->lim.step_tokens);
        all = shown < all ? shown : all;
        least = all > least ? all : least;
    }
    return least;
}

static size_t group_bytes(const struct kv *c, size_t g)
{
    size_t bytes;

    if (__builtin_mul_overflow(group_blocks(c, g) + (c->group[g].window != 0), kv_block_bytes(c, g), &bytes))
        return SIZE_MAX;
    return bytes;
}

size_t kvpool_bytes(const struct kv *c)
{
    size_t sum = 0;

    for (size_t g = 0; g < c->n_groups; g++)
        if (__builtin_add_overflow(sum, group_bytes(c, g), &sum))
            return SIZE_MAX;
    return sum;
}

/* ---- open ---- */

static void set_bases(const struct kv *c, struct kvpool *p)
{
    size_t block = p->block_tiles * c->tile_bytes, done[KV_MAX_GROUPS] = {0};

    for (size_t l = 0; l < c->lim.n_layers; l++) {
        size_t g = c->group_of[l], n = p->group[g].n_blocks + (c->group[g].window != 0), K = c->lim.n_kv;
        char *base = p->group[g].region + done[g]++ * 2 * K * n * block;

        p->layer[l] = (struct kv_layer){
            .k = base, .tile_bytes = c->tile_bytes, .block_shift = p->shift, .group = (int)g};
        if (c->lim.layout == KV_HEAD_MAJOR) {
            p->layer[l].v = base + K * n * block;
            p->layer[l].head_bytes = n * block;
            p->layer[l].block_bytes = block;
        } else {
            p->layer[l].v = base + block;
            p->layer[l].head_bytes = 2 * block;
            p->layer[l].block_bytes = 2 * K * block;
        }
    }
}

struct touch_job {
    char *region;
    size_t bytes;
};

static void touch_share(void *ctx, int thread, int n_threads)
{
    const struct touch_job *j = ctx;
    size_t begin, end;

    pool_share(j->bytes, SHARE, thread, n_threads, &begin, &end);
    for (size_t at = begin; at < end; at += PAGE)
        ((volatile char *)j->region)[at] = 0;
}

static int open_group(const struct kv *c, struct kvpool_group *p, size_t g, struct err *e)
{
    p->n_blocks = group_blocks(c, g);
    p->region_bytes = group_bytes(c, g);
    p->region = p->region_bytes < SIZE_MAX && p->n_blocks < UINT32_MAX / (KV_MAX_BLOCK / KERN_TILE)
                    ? map_region_new(p->region_bytes)
                    : NULL;
    p->free = mem_zalloc(p->n_blocks, sizeof(*p->free), MEM_KV);
    if (!p->region || !p->free)
        return err_set(e, ERR_NOMEM, "out of memory: %zu bytes for a KV pool of %zu tokens", p->region_bytes,
                       p->n_blocks * c->lim.block);
    for (size_t i = 0; i < p->n_blocks; i++) /* the top of the stack is block 0 */
        p->free[i] = (uint32_t)(p->n_blocks - 1 - i);
    p->n_free = p->n_blocks;
    if (c->lim.touch)
        pool_run(c->lim.touch, touch_share, &(struct touch_job){p->region, p->region_bytes});
    return 0;
}

static int open_tables(const struct kv *c, struct kvpool *p, struct err *e)
{
    size_t n = c->lim.max_seqs * c->n_groups, tiles;

    p->block_tiles = c->lim.block / KERN_TILE;
    while ((1u << p->shift) < p->block_tiles)
        p->shift++;
    p->max_blocks = blocks_of(c, c->lim.max_len);
    tiles = p->max_blocks * p->block_tiles;
    p->layer = mem_zalloc(c->lim.n_layers, sizeof(*p->layer), MEM_KV);
    p->seq = mem_zalloc(n, sizeof(*p->seq), MEM_KV);
    p->table = mem_zalloc(n, sizeof(*p->table), MEM_KV);
    p->tiles = mem_zalloc(n, tiles * sizeof(*p->tiles), MEM_KV);
    p->len = mem_zalloc(c->lim.max_seqs, sizeof(*p->len), MEM_KV);
    if (!p->layer || !p->seq || !p->table || !p->tiles || !p->len)
        return err_nomem(e, "the tables of the KV cache");
    for (size_t i = 0; i < n; i++)
        p->table[i] = p->seq[i].tile = p->tiles + i * tiles;
    return 0;
}

int kvpool_open(struct kv *c, struct kvpool *p, struct err *e)
{
    int rc = open_tables(c, p, e);

    for (size_t g = 0; g < c->n_groups && rc == 0; g++)
        rc = open_group(c, &p->group[g], g, e);
    if (rc == 0)
        set_bases(c, p);
    return rc;
}

void kvpool_close(struct kvpool *p)
{
    for (size_t g = 0; g < KV_MAX_GROUPS; g++) {
        map_region_free(p->group[g].region, p->group[g].region_bytes);
        mem_free(p->group[g].free);
    }
    mem_free(p->layer);
    mem_free(p->seq);
    mem_free(p->table);
    mem_free(p->tiles);
    mem_free(p->len);
}

/* ---- tables ---- */

struct kvpool_seq *kvpool_seq(const struct kv *c, const struct kvpool *p, size_t seq, size_t g)
{
    return &p->seq[seq * c->n_groups + g];
}

uint32_t kvpool_block(const struct kvpool *p, const struct kvpool_seq *q, size_t i)
{
    return q->tile[i * p->block_tiles] >> p->shift;
}

void kvpool_set(const struct kvpool *p, struct kvpool_seq *q, size_t i, uint32_t block)
{
    for (size_t t = 0; t < p->block_tiles; t++)
        q->tile[i * p->block_tiles + t] = (block << p->shift) + (uint32_t)t;
}

void kvpool_begin(const struct kvpool *p, size_t g, struct kvpool_seq *q, size_t first, size_t low)
{
    for (size_t i = q->end; i < first; i++)
        kvpool_set(p, q, i, (uint32_t)p->group[g].n_blocks);
    q->first = q->end = first;
    q->low = low;
}

uint32_t kvpool_pop(struct kvpool *p, size_t g)
{
    ASSERT(p->group[g].n_free > 0);
    return p->group[g].free[--p->group[g].n_free];
}

void kvpool_push(struct kvpool *p, size_t g, uint32_t block)
{
    ASSERT(p->group[g].n_free < p->group[g].n_blocks);
    p->group[g].free[p->group[g].n_free++] = block;
}

size_t kvpool_lacks(const struct kv *c, const struct kvpool *p, size_t seq, size_t g, size_t n)
{
    const struct kvpool_seq *q = kvpool_seq(c, p, seq, g);
    size_t need = blocks_of(c, n), head = q->first ? sink_blocks(c, g) : 0;

    return (need > q->end ? need - q->end : 0) + (head - q->head);
}

bool kvpool_has_room(const struct kv *c, size_t g, size_t n_free, const struct kv_want *want, size_t n)
{
    const struct kvpool *p = c->state;
    size_t whole = 0;                                /* blocks for all rows */
    size_t shown = blocks_of(c, c->lim.step_tokens); /* blocks for windows, sinks and a step's rows */

    for (size_t i = 0; i < n; i++) {
        const struct kvpool_seq *q = kvpool_seq(c, p, want[i].seq, g);
        size_t held = q->head + q->end - q->first, most = seq_blocks(c, g);

        whole += kvpool_lacks(c, p, want[i].seq, g, want[i].n);
        shown += most > held ? most - held : 0;
    }
    return whole <= n_free || (c->group[g].window && c->lim.step_tokens && shown <= n_free);
}

void kvpool_extend(struct kv *c, struct kvpool *p, size_t seq, size_t n)
{
    for (size_t g = 0; g < c->n_groups; g++) {
        struct kvpool_seq *q = kvpool_seq(c, p, seq, g);

        for (; q->first && q->head < sink_blocks(c, g); q->head++)
            kvpool_set(p, q, q->head, p->allocate(c, g));
        for (; q->end < blocks_of(c, n); q->end++)
            kvpool_set(p, q, q->end, p->allocate(c, g));
    }
    if (n > p->len[seq])
        p->len[seq] = n;
}

struct kvpool_range kvpool_range(const struct kv *c, size_t g, size_t n)
{
    struct kvpool_range r = {.first = first_block(c, g, n), .end = blocks_of(c, n)};

    r.first = r.first < r.end ? r.first : r.end;
    r.head = r.first ? sink_blocks(c, g) : 0;
    return r;
}

bool kvpool_sees(const struct kv *c, size_t seq, size_t n)
{
    const struct kvpool *p = c->state;

    for (size_t g = 0; g < c->n_groups && n; g++) {
        const struct kvpool_seq *q = kvpool_seq(c, p, seq, g);

        if (q->low > kv_group_first(&c->group[g], n))
            return false;
    }
    return true;
}

/* Releases the last block first, so that blocks are allocated again in ascending order. */
int kvpool_truncate(struct kv *c, size_t seq, size_t n)
{
    struct kvpool *p = c->state;

    if (n >= p->len[seq] && n)
        return 0;
    if (!kvpool_sees(c, seq, n))
        return KV_GONE;
    for (size_t g = 0; g < c->n_groups; g++) {
        struct kvpool_seq *q = kvpool_seq(c, p, seq, g);
        size_t keep = blocks_of(c, n);

        for (; q->end > keep && q->end > q->first; q->end--)
            p->release(c, g, kvpool_block(p, q, q->end - 1));
        for (; q->head && n == 0; q->head--)
            p->release(c, g, kvpool_block(p, q, q->head - 1));
        if (n == 0)
            q->first = q->end = q->low = 0;
    }
    p->len[seq] = n;
    return 0;
}

void kvpool_advance(struct kv *c, size_t seq, size_t pos)
{
    struct kvpool *p = c->state;

    for (size_t g = 0; g < c->n_groups; g++) {
        struct kvpool_seq *q = kvpool_seq(c, p, seq, g);
        size_t row = kv_group_first(&c->group[g], pos), first = first_block(c, g, pos);
        size_t stop = first < q->end ? first : q->end;
        size_t from = q->first ? q->first : sink_blocks(c, g);

        for (size_t i = stop; i-- > from;) {
            p->release(c, g, kvpool_block(p, q, i));
            kvpool_set(p, q, i, (uint32_t)p->group[g].n_blocks);
        }
        if (stop > from) {
            q->head = sink_blocks(c, g);
            q->first = stop;
            q->low = kvpool_low(c, q, stop);
        }
        if (row > p->len[seq]) { /* rows [len, row) were never written and never will be */
            size_t held = first > q->end ? first : q->first;

            ASSERT(q->first == q->end, "%zu rows are skipped behind %zu", row, p->len[seq]);
            kvpool_begin(p, g, q, held, row);
        }
    }
}

size_t kvpool_low(const struct kv *c, const struct kvpool_seq *q, size_t first)
{
    return q->low > first * c->lim.block ? q->low : first * c->lim.block;
}

/* Returns the K tiles (VALUE: the V tiles) of BLOCK in one layer and KV head. */
static char *tiles_of(const struct kvpool *p, size_t layer, size_t head, uint32_t block, bool value)
{
    const struct kv_layer *y = &p->layer[layer];

    return (value ? y->v : y->k) + head * y->head_bytes + block * y->block_bytes;
}

void kvpool_copy(const struct kv *c, const struct kvpool *p, size_t g, uint32_t from, uint32_t to)
{
    size_t n = p->block_tiles * c->tile_bytes;

    for (size_t l = 0; l < c->lim.n_layers; l++)
        for (size_t h = 0; h < 2 * c->lim.n_kv && c->group_of[l] == g; h++)
            memcpy(tiles_of(p, l, h / 2, to, h % 2), tiles_of(p, l, h / 2, from, h % 2), n);
}

void kvpool_save(const struct kv *c, const struct kvpool *p, size_t g, uint32_t block, char *out)
{
    size_t n = p->block_tiles * c->tile_bytes;

    for (size_t l = 0; l < c->lim.n_layers; l++)
        for (size_t h = 0; h < 2 * c->lim.n_kv && c->group_of[l] == g; h++, out += n)
            memcpy(out, tiles_of(p, l, h / 2, block, h % 2), n);
}

void kvpool_load(const struct kv *c, const struct kvpool *p, size_t g, uint32_t block, const char *bytes)
{
    size_t n = p->block_tiles * c->tile_bytes;

    for (size_t l = 0; l < c->lim.n_layers; l++)
        for (size_t h = 0; h < 2 * c->lim.n_kv && c->group_of[l] == g; h++, bytes += n)
            memcpy(tiles_of(p, l, h / 2, block, h % 2), bytes, n);
}

/* ---- views, sizes and checks ---- */

struct kv_view kvpool_view(const struct kv *c, size_t seq)
{
    const struct kvpool *p = c->state;

    return (struct kv_view){.layer = p->layer, .tile = p->table + seq * c->n_groups};
}

size_t kvpool_region_bytes(const struct kv *c)
{
    const struct kvpool *p = c->state;
    size_t sum = 0;

    for (size_t g = 0; g < c->n_groups; g++)
        sum += p->group[g].region_bytes;
    return sum;
}

size_t kvpool_held_bytes(const struct kv *c, size_t seq)
{
    const struct kvpool *p = c->state;
    size_t sum = 0;

    for (size_t g = 0; g < c->n_groups; g++) {
        const struct kvpool_seq *q = kvpool_seq(c, p, seq, g);

        sum += (q->head + q->end - q->first) * kv_block_bytes(c, g);
    }
    return sum;
}

static int count_seq(const struct kv *c, const struct kvpool *p, size_t seq, size_t g, uint32_t *count,
                     struct err *e)
{
    const struct kvpool_seq *q = kvpool_seq(c, p, seq, g);
    size_t need = blocks_of(c, p->len[seq]);

    if (q->first > q->end || q->end > p->max_blocks || (q->end != need && q->first < q->end) ||
        (q->head && (q->head != sink_blocks(c, g) || q->head >= q->first)))
        return err_set(e, ERR_INPUT,
                       "sequence %zu, group %zu: the table holds blocks [0, %zu) and [%zu, %zu) for %zu rows",
                       seq, g, q->head, q->first, q->end, p->len[seq]);
    for (size_t i = 0; i < q->end; i++) {
        uint32_t b = kvpool_block(p, q, i);

        for (size_t t = 0; t < p->block_tiles; t++)
            if (q->tile[i * p->block_tiles + t] != (b << p->shift) + t)
                return err_set(e, ERR_INPUT,
                               "sequence %zu, group %zu: the tiles of block %zu are not consecutive", seq, g,
                               i);
        bool held = i < q->head || i >= q->first;

        if (held != (b < p->group[g].n_blocks) || b > p->group[g].n_blocks)
            return err_set(e, ERR_INPUT, "sequence %zu, group %zu: block %zu has the wrong number %u", seq, g,
                           i, b);
        if (held)
            count[b]++;
    }
    return 0;
}

int kvpool_count(const struct kv *c, size_t g, uint32_t *count, struct err *e)
{
    const struct kvpool *p = c->state;
    int rc = 0;

    for (size_t s = 0; s < c->lim.max_seqs && rc == 0; s++)
        rc = count_seq(c, p, s, g, count, e);
    for (size_t i = 0; i < p->group[g].n_free && rc == 0; i++)
        if (p->group[g].free[i] >= p->group[g].n_blocks)
            rc = err_set(e, ERR_INPUT,
                         "group %zu: the stack of free blocks has block %u, but the group has %zu blocks", g,
                         p->group[g].free[i], p->group[g].n_blocks);
    return rc;
}

int kvpool_check(const struct kv *c, kvpool_check_fn *check, struct err *e)
{
    const struct kvpool *p = c->state;
    int rc = 0;

    for (size_t g = 0; g < c->n_groups && rc == 0; g++) {
        uint32_t *count = mem_zalloc(p->group[g].n_blocks, sizeof(*count), MEM_KV);

        rc = count ? check(c, g, count, e) : err_nomem(e, "a check of the KV cache");
        mem_free(count);
    }
    return rc;
}
