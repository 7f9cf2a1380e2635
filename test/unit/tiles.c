/* tiles.c - see tiles.h. */
#include "tiles.h"

#include "kern/kern.h"

static void move_tile(const struct kv *a, size_t seq, const struct kv *b, size_t to, size_t layer, size_t pos)
{
    struct kv_view from = kv_view(a, seq), into = kv_view(b, to);
    const struct kv_layer *x = &from.layer[layer], *y = &into.layer[layer];
    uint32_t t = from.tile[x->group][pos / KERN_TILE], u = into.tile[y->group][pos / KERN_TILE];

    for (size_t h = 0; h < a->lim.n_kv; h++) {
        memcpy(kv_layer_tile(y, y->k, u, h), kv_layer_tile(x, x->k, t, h), a->tile_bytes);
        memcpy(kv_layer_tile(y, y->v, u, h), kv_layer_tile(x, x->v, t, h), a->tile_bytes);
    }
}

int tiles_move(const struct kv *a, size_t seq, size_t n, struct kv *b, size_t to)
{
    int rc;

    assert_true(a->tile_bytes == b->tile_bytes && a->n_groups == b->n_groups && kv_sees(a, seq, n));
    kv_advance(b, to, n); /* Windows take only the visible tiles. */
    if ((rc = kv_reserve(b, to, n)) != 0) {
        kv_release(b, to);
        return rc;
    }
    for (size_t l = 0; l < a->lim.n_layers; l++) {
        const struct kv_group *g = &a->group[a->group_of[l]];
        size_t first = kv_group_first(g, n);

        for (size_t pos = 0; pos < n; pos += KERN_TILE)
            if (pos + KERN_TILE > first || pos < g->sink)
                move_tile(a, seq, b, to, l, pos);
    }
    return 0;
}
