/* kv_dynamic.c - a cache that grows with each sequence: one region a sequence, capacity doubles, so copying
 * is amortised to a constant per row.
 *
 * Region: [L][K then V][n_kv][capacity tiles] tiles; the tile table is the identity.
 */
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "kern/kern.h"
#include "kv/kv.h"

struct seq {
    char *region;
    size_t tiles;           /* capacity */
    struct kv_layer *layer; /* [L] */
};

struct dynamic {
    struct seq *seq;    /* [max_seqs] */
    uint32_t *identity; /* [tiles of max_len] */
    const uint32_t *table[1];
};

static size_t region_bytes(const struct kv *c, size_t tiles)
{
    return c->lim.n_layers * 2 * c->lim.n_kv * tiles * c->tile_bytes;
}

static void dynamic_close(struct kv *c)
{
    struct dynamic *d = c->state;

    if (!d)
        return;
    for (size_t s = 0; d->seq && s < c->lim.max_seqs; s++) {
        map_region_free(d->seq[s].region, region_bytes(c, d->seq[s].tiles));
        mem_free(d->seq[s].layer);
    }
    mem_free(d->seq);
    mem_free(d->identity);
    mem_free(d);
    c->state = NULL;
}

static int dynamic_open(struct kv *c, struct err *e)
{
    struct dynamic *d = c->state = mem_zalloc(1, sizeof(*d), MEM_KV);
    size_t tiles = (c->lim.max_len + KERN_TILE - 1) / KERN_TILE;

    if (d) {
        d->seq = mem_zalloc(c->lim.max_seqs, sizeof(*d->seq), MEM_KV);
        d->identity = mem_zalloc(tiles, sizeof(*d->identity), MEM_KV);
    }
    if (!d || !d->seq || !d->identity) {
        dynamic_close(c);
        return err_nomem(e, "the dynamic KV cache");
    }
    for (size_t i = 0; i < tiles; i++)
        d->identity[i] = (uint32_t)i;
    d->table[0] = d->identity;
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
                                        .tile_bytes = c->tile_bytes};
    }
}

/* Copies the filled tiles of every layer and head into a region of more. */
static int grow(struct kv *c, struct seq *s, size_t tiles)
{
    struct seq old = *s;
    size_t planes = c->lim.n_layers * 2 * c->lim.n_kv;

    if (!s->layer && !(s->layer = mem_zalloc(c->lim.n_layers, sizeof(*s->layer), MEM_KV)))
        return ERR_NOMEM;
    s->region = map_region_new(region_bytes(c, tiles));
    if (!s->region) {
        s->region = old.region;
        return ERR_NOMEM;
    }
    s->tiles = tiles;
    for (size_t p = 0; p < planes && old.region; p++)
        memcpy(s->region + p * tiles * c->tile_bytes, old.region + p * old.tiles * c->tile_bytes,
               old.tiles * c->tile_bytes);
    map_region_free(old.region, region_bytes(c, old.tiles));
    set_bases(c, s);
    return 0;
}

static int dynamic_reserve(struct kv *c, size_t seq, size_t n)
{
    struct dynamic *d = c->state;
    struct seq *s = &d->seq[seq];
    size_t need = (n + KERN_TILE - 1) / KERN_TILE, most = (c->lim.max_len + KERN_TILE - 1) / KERN_TILE;
    size_t want = s->tiles * 2 > 4 ? s->tiles * 2 : 4;

    if (need <= s->tiles)
        return 0;
    want = want < need ? need : want;
    return grow(c, s, want < most ? want : most);
}

static void dynamic_truncate(struct kv *c, size_t seq, size_t n)
{
    struct dynamic *d = c->state;
    struct seq *s = &d->seq[seq];

    if (n > 0)
        return;
    map_region_free(s->region, region_bytes(c, s->tiles));
    s->region = NULL;
    s->tiles = 0;
}

static int dynamic_fork(struct kv *c, size_t from, size_t n, size_t to)
{
    struct dynamic *d = c->state;
    struct seq *a = &d->seq[from], *b = &d->seq[to];
    size_t filled = (n + KERN_TILE - 1) / KERN_TILE, planes = c->lim.n_layers * 2 * c->lim.n_kv;
    int rc = dynamic_reserve(c, to, n);

    for (size_t p = 0; p < planes && rc == 0 && filled; p++)
        memcpy(b->region + p * b->tiles * c->tile_bytes, a->region + p * a->tiles * c->tile_bytes,
               filled * c->tile_bytes);
    return rc;
}

static struct kv_view dynamic_view(const struct kv *c, size_t seq)
{
    struct dynamic *d = c->state;

    return (struct kv_view){.layer = d->seq[seq].layer, .tile = d->table};
}

static size_t dynamic_bytes(const struct kv *c)
{
    const struct dynamic *d = c->state;
    size_t sum = 0;

    for (size_t s = 0; s < c->lim.max_seqs; s++)
        sum += region_bytes(c, d->seq[s].tiles);
    return sum;
}

const struct kv_type kv_dynamic = {.name = "dynamic",
                                   .open = dynamic_open,
                                   .reserve = dynamic_reserve,
                                   .truncate = dynamic_truncate,
                                   .fork = dynamic_fork,
                                   .view = dynamic_view,
                                   .close = dynamic_close,
                                   .bytes = dynamic_bytes};
