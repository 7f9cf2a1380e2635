/* kv_grow.c - the types dynamic and bmc: each sequence has a region of its own, which is replaced by a larger
 * one when it is full. The two types differ in the capacity of the larger region.
 *
 * A region is [L][K, V][n_kv][capacity] tiles. The tile table is the identity, so that the rows of a head are
 * contiguous. Rows are copied only when a region grows; the pages of the old region are released head by head
 * during the copy. All rows are kept, even those that a window no longer shows, but a sequence that
 * kv_advance() moves while it is empty never gets the rows before that position. The capacities of all
 * sequences together stay within the budget: when it is used up, regions are cut to the rows that are reserved in
 * them, so that every sequence gets the rows that fit.
 */
#include <string.h>

#include "base/files/map.h"
#include "base/mem.h"
#include "kern/kern.h"
#include "kv/kv.h"

struct seq {
    char *region;
    size_t tiles; /* capacity of REGION */
    size_t used;  /* tiles with reserved rows */
    /* The position to which kv_advance() moved the empty sequence. Earlier queries would miss window rows. */
    size_t pos;
    struct kv_layer *layer; /* [L] */
};

struct grow {
    struct seq *seq;        /* [max_seqs] */
    uint32_t *identity;     /* [tiles of max_len] */
    const uint32_t **table; /* [groups] each points to IDENTITY */
    size_t budget, used;    /* tiles of all sequences together: limit, capacity of all regions */
};

static size_t tiles_of(size_t rows)
{
    return (rows + KERN_TILE - 1) / KERN_TILE;
}

/* dynamic: the capacity doubles, so that the amortized cost of copying is constant per row. */
size_t kv_grow_doubled(const struct kv *c, size_t have, size_t need)
{
    size_t want = have ? 2 * have : 4 * KERN_TILE;

    (void)c;
    return want < need ? need : want;
}

/* bmc, "balanced memory and compute": the capacity is a multiple of a split of ceil(max_len / splits) rows. A
 * sequence is copied at most `splits` times and has at most one split of unused rows. The default of
 * floor(sqrt(max_len)) splits is AMD PACE's. */
size_t kv_grow_in_splits(const struct kv *c, size_t have, size_t need)
{
    size_t splits = c->lim.splits ? c->lim.splits : 1, split;

    while (!c->lim.splits && (splits + 1) * (splits + 1) <= c->lim.max_len)
        splits++;
    split = (c->lim.max_len + splits - 1) / splits;
    (void)have;
    return (need + split - 1) / split * split;
}

static size_t n_planes(const struct kv *c)
{
    return c->lim.n_layers * 2 * c->lim.n_kv;
}

static size_t region_bytes(const struct kv *c, size_t tiles)
{
    return n_planes(c) * tiles * c->tile_bytes;
}

static void grow_close(struct kv *c)
{
    struct grow *d = c->state;

    if (!d)
        return;
    for (size_t s = 0; d->seq && s < c->lim.max_seqs; s++) {
        map_region_free(d->seq[s].region, region_bytes(c, d->seq[s].tiles));
        mem_free(d->seq[s].layer);
    }
    mem_free(d->seq);
    mem_free(d->identity);
    mem_free(d->table);
    mem_free(d);
    c->state = NULL;
}

static int grow_open(struct kv *c, struct err *e)
{
    struct grow *d = c->state = mem_zalloc(1, sizeof(*d), MEM_KV);
    size_t tiles = tiles_of(c->lim.max_len);

    if (d) {
        d->budget = tiles_of(c->lim.pool_tokens);
        d->seq = mem_zalloc(c->lim.max_seqs, sizeof(*d->seq), MEM_KV);
        d->identity = mem_zalloc(tiles, sizeof(*d->identity), MEM_KV);
        d->table = mem_zalloc(c->n_groups, sizeof(*d->table), MEM_KV);
    }
    if (!d || !d->seq || !d->identity || !d->table) {
        grow_close(c);
        return err_nomem(e, "the KV cache");
    }
    for (size_t i = 0; i < tiles; i++)
        d->identity[i] = (uint32_t)i;
    for (size_t g = 0; g < c->n_groups; g++)
        d->table[g] = d->identity;
    return 0;
}

static void set_bases(const struct kv *c, struct seq *s)
{
    size_t head = s->tiles * c->tile_bytes;

    for (size_t l = 0; l < c->lim.n_layers; l++) {
        char *k = s->region + l * 2 * c->lim.n_kv * head;

        s->layer[l] = (struct kv_layer){.k = k,
                                        .v = k + c->lim.n_kv * head,
                                        .block_bytes = c->tile_bytes,
                                        .head_bytes = head,
                                        .tile_bytes = c->tile_bytes,
                                        .group = c->group_of[l]};
    }
}

/* Moves the tiles of every layer and head of S into a new region with a capacity of TILES tiles. */
static int move(struct kv *c, struct seq *s, size_t tiles)
{
    struct grow *d = c->state;
    struct seq old = *s;
    size_t from = old.tiles * c->tile_bytes, to = tiles * c->tile_bytes;

    if (!s->layer && !(s->layer = mem_zalloc(c->lim.n_layers, sizeof(*s->layer), MEM_KV)))
        return ERR_NOMEM;
    s->region = map_region_new(region_bytes(c, tiles));
    if (!s->region) {
        s->region = old.region;
        return ERR_NOMEM;
    }
    s->tiles = tiles;
    for (size_t p = 0; p < n_planes(c) && old.region; p++) {
        memcpy(s->region + p * to, old.region + p * from, from < to ? from : to);
        map_region_drop(old.region, p * from, (p + 1) * from);
    }
    map_region_free(old.region, region_bytes(c, old.tiles));
    set_bases(c, s);
    d->used += s->tiles - old.tiles;
    return 0;
}

/* Returns the number of tiles with reserved rows of all sequences. */
static size_t tiles_used(const struct kv *c)
{
    const struct grow *d = c->state;
    size_t sum = 0;

    for (size_t s = 0; s < c->lim.max_seqs; s++)
        sum += d->seq[s].used;
    return sum;
}

/* Cuts regions of other sequences than SEQ to their reserved rows until there is room for NEED tiles of SEQ. */
static int cut_others(struct kv *c, size_t seq, size_t need)
{
    struct grow *d = c->state;
    int rc = 0;

    for (size_t i = 0; i < c->lim.max_seqs && rc == 0 && d->used - d->seq[seq].tiles + need > d->budget; i++)
        if (i != seq && d->seq[i].used && d->seq[i].used < d->seq[i].tiles)
            rc = move(c, &d->seq[i], d->seq[i].used);
    return rc;
}

/* Gives SEQ a region for N rows. */
static int make_room(struct kv *c, size_t seq, size_t n)
{
    struct grow *d = c->state;
    struct seq *s = &d->seq[seq];
    size_t need = tiles_of(n), most = tiles_of(c->lim.max_len), room, want;
    int rc;

    if (need <= s->tiles)
        return 0;
    if (need > d->budget - (tiles_used(c) - s->used))
        return ERR_NOSPACE;
    if ((rc = cut_others(c, seq, need)) != 0)
        return rc;
    room = d->budget - (d->used - s->tiles);
    want = tiles_of(c->type->capacity(c, s->tiles * KERN_TILE, n));
    ASSERT(want >= need && room >= need);
    want = want < most ? want : most;
    return move(c, s, want < room ? want : room);
}

static int grow_reserve(struct kv *c, size_t seq, size_t n)
{
    struct grow *d = c->state;
    struct seq *s = &d->seq[seq];
    int rc = make_room(c, seq, n);

    if (rc == 0 && tiles_of(n) > s->used)
        s->used = tiles_of(n);
    return rc;
}

static bool grow_has_room(const struct kv *c, const struct kv_want *want, size_t n)
{
    const struct grow *d = c->state;
    size_t lack = 0;

    for (size_t i = 0; i < n; i++) {
        size_t need = tiles_of(want[i].n), have = d->seq[want[i].seq].used;

        lack += need > have ? need - have : 0;
    }
    return lack <= d->budget - tiles_used(c);
}

static bool grow_sees(const struct kv *c, size_t seq, size_t n)
{
    const struct grow *d = c->state;

    return n == 0 || n >= d->seq[seq].pos || (c->n_groups == 1 && c->group[0].window == 0);
}

static int grow_truncate(struct kv *c, size_t seq, size_t n)
{
    struct grow *d = c->state;
    struct seq *s = &d->seq[seq];

    if (!grow_sees(c, seq, n))
        return KV_GONE;
    s->used = s->used < tiles_of(n) ? s->used : tiles_of(n);
    if (n > 0)
        return 0;
    map_region_free(s->region, region_bytes(c, s->tiles));
    d->used -= s->tiles;
    s->region = NULL;
    s->tiles = s->pos = 0;
    return 0;
}

static void grow_advance(struct kv *c, size_t seq, size_t pos)
{
    struct grow *d = c->state;

    if (d->seq[seq].tiles == 0)
        d->seq[seq].pos = pos;
}

static int grow_fork(struct kv *c, size_t from, size_t n, size_t to)
{
    struct grow *d = c->state;
    struct seq *a = &d->seq[from], *b = &d->seq[to];
    size_t filled = tiles_of(n) * c->tile_bytes;
    int rc = grow_sees(c, from, n) ? grow_reserve(c, to, n) : KV_GONE;

    if (rc == 0)
        b->pos = a->pos < n ? a->pos : n;
    for (size_t p = 0; p < n_planes(c) && rc == 0 && filled; p++)
        memcpy(b->region + p * b->tiles * c->tile_bytes, a->region + p * a->tiles * c->tile_bytes, filled);
    return rc;
}

static struct kv_view grow_view(const struct kv *c, size_t seq)
{
    const struct grow *d = c->state;

    return (struct kv_view){.layer = d->seq[seq].layer, .tile = d->table};
}

static size_t grow_bytes(const struct kv *c)
{
    const struct grow *d = c->state;

    return region_bytes(c, d->used);
}

static size_t grow_held(const struct kv *c, size_t seq)
{
    const struct grow *d = c->state;

    return region_bytes(c, d->seq[seq].tiles);
}

static int grow_check(const struct kv *c, struct err *e)
{
    const struct grow *d = c->state;
    size_t sum = 0;

    for (size_t s = 0; s < c->lim.max_seqs; s++) {
        sum += d->seq[s].tiles;
        if ((d->seq[s].region != NULL) != (d->seq[s].tiles > 0))
            return err_set(e, ERR_INPUT, "sequence %zu: has either a region or tiles (%zu), expected both", s,
                           d->seq[s].tiles);
        if (d->seq[s].used > d->seq[s].tiles)
            return err_set(e, ERR_INPUT, "sequence %zu: rows in %zu tiles, but the region has %zu", s,
                           d->seq[s].used, d->seq[s].tiles);
    }
    if (sum != d->used || sum > d->budget)
        return err_set(e, ERR_INPUT, "sequences hold %zu tiles, but %zu are counted and %zu are allowed", sum,
                       d->used, d->budget);
    return 0;
}

const struct kv_ops kv_grow = {.open = grow_open,
                               .reserve = grow_reserve,
                               .has_room = grow_has_room,
                               .truncate = grow_truncate,
                               .fork = grow_fork,
                               .advance = grow_advance,
                               .sees = grow_sees,
                               .view = grow_view,
                               .bytes = grow_bytes,
                               .held = grow_held,
                               .check = grow_check,
                               .close = grow_close};
