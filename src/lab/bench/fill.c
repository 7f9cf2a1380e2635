/* fill.c - fills the KV cache by copying whole tiles, whatever the layout of the rows in a tile. */
#include <stdbool.h>
#include <string.h>

#include "base/err.h"
#include "base/files/map.h"
#include "base/mem.h"
#include "base/threads/pool.h"
#include "engine/executor.h"
#include "engine/llm.h"
#include "kern/kern.h"
#include "lab/bench/fill.h"

enum { MOST = 512 };

static size_t tiles_of(size_t n)
{
    return (n + KERN_TILE - 1) / KERN_TILE;
}

/* ---- one plane: K or V of one head in one layer ---- */

/* A job that copies the rows FROM to TO - 1 of all planes of a sequence. */
struct planes {
    const struct bench_fill *f;
    struct kv_view view;
    size_t from, to;
    bool out; /* true: copies from the cache to f->tile; false: from f->tile to the cache */
};

/* Returns the address of tile T of PLANE in the cache. */
static char *tile_at(const struct bench_fill *f, const struct kv_view *v, size_t plane, size_t t)
{
    size_t heads = f->m->kv.lim.n_kv, head = plane % heads;
    const struct kv_layer *l = &v->layer[plane / heads / 2];
    uint32_t tile = v->tile[l->group][t];

    return (plane / heads % 2 ? l->v : l->k) + (size_t)(tile >> l->block_shift) * l->block_bytes +
           head * l->head_bytes + (tile & ((1u << l->block_shift) - 1)) * l->tile_bytes;
}

/* Copies the tiles [begin, end) of one plane. */
static void move_tiles(const struct planes *p, size_t plane, size_t begin, size_t end)
{
    size_t size = p->f->m->kv.tile_bytes, n_tiles = tiles_of(p->f->n);
    char *copies = p->f->tile + plane * n_tiles * size;

    for (size_t t = begin; t < end; t++) {
        char *here = tile_at(p->f, &p->view, plane, t), *copy = copies + t % n_tiles * size;

        memcpy(p->out ? copy : here, p->out ? here : copy, size);
    }
}

/* Copies the tiles of one plane, except the tiles between sink and window, which the cache does not hold. */
static void move_plane(const struct planes *p, size_t plane)
{
    const struct kv *c = &p->f->m->kv;
    const struct kv_group *g = &c->group[c->group_of[plane / c->lim.n_kv / 2]];
    size_t first = p->out ? 0 : kv_group_first(g, p->to);

    if (first)
        move_tiles(p, plane, 0, tiles_of(g->sink));
    move_tiles(p, plane, (first > p->from ? first : p->from) / KERN_TILE, tiles_of(p->to));
}

/* Task of the thread pool: copies the planes of one thread. */
static void move_share(void *ctx, int thread, int n_threads)
{
    const struct planes *p = ctx;
    const struct kv_limits *lim = &p->f->m->kv.lim;
    size_t begin, end;

    pool_share(lim->n_layers * 2 * lim->n_kv, 1, thread, n_threads, &begin, &end);
    for (size_t plane = begin; plane < end; plane++)
        move_plane(p, plane);
}

/* ---- computed rows ---- */

/* Computes the rows of IDS [n] in sequence 0. kv_advance() is not called, so layers with windows keep all
 * rows. */
static int fill_compute(struct llm *m, const int32_t *ids, size_t n, struct err *e)
{
    for (size_t pos = 0; pos < n;) {
        size_t len = n - pos < m->max_tokens ? n - pos : m->max_tokens;
        struct executor_rows r = {.id = ids + pos, .n = len, .pos = pos, .n_prompt = n, .n_total = n};
        int rc = kv_reserve(&m->kv, 0, pos + len);

        if (rc)
            return err_set(e, rc, "the KV cache has no room for %zu tokens", n);
        llm_forward(m, &r, 1);
        pos += len;
    }
    return 0;
}

/* Returns the number of rows to compute: at most the rows of a step, since the KV pool of a layer with a
 * window may hold no more. */
static size_t n_computed(const struct llm *m, size_t longest)
{
    size_t most = m->max_tokens > KERN_TILE ? m->max_tokens : KERN_TILE;

    most = most < MOST ? most : MOST;
    return longest <= most ? longest : most / KERN_TILE * KERN_TILE;
}

int bench_fill_open(struct bench_fill *f, struct llm *m, const int32_t *ids, size_t longest, struct err *e)
{
    const struct kv_limits *lim = &m->kv.lim;
    int rc;

    *f = (struct bench_fill){.m = m, .n = n_computed(m, longest)};
    f->bytes = lim->n_layers * 2 * lim->n_kv * tiles_of(f->n) * m->kv.tile_bytes;
    f->tile = map_region_new(f->bytes);
    f->len = mem_zalloc(lim->max_seqs, sizeof(*f->len), MEM_APP);
    rc = f->tile && f->len ? fill_compute(m, ids, f->n, e) : err_nomem(e, "rows of a context");
    if (rc == 0) {
        struct planes p = {.f = f, .view = kv_view(&m->kv, 0), .to = f->n, .out = true};

        pool_run(m->pool, move_share, &p);
    }
    kv_release(&m->kv, 0);
    if (rc)
        bench_fill_close(f);
    return rc;
}

void bench_fill_close(struct bench_fill *f)
{
    map_region_free(f->tile, f->bytes);
    mem_free(f->len);
    *f = (struct bench_fill){0};
}

/* ---- sequences ---- */

void bench_fill_drop(struct bench_fill *f, size_t seq)
{
    kv_release(&f->m->kv, seq);
    f->len[seq] = 0;
}

int bench_fill_sequence(struct bench_fill *f, size_t seq, size_t n, struct err *e)
{
    struct kv *c = &f->m->kv;
    size_t keep = f->len[seq] < n ? f->len[seq] : n;
    bool windows = c->n_groups > 1 || c->group[0].window;
    struct planes p;
    int rc;

    /* With windows a filled sequence is not extended, because the windows of the longer sequence contain
     * different rows. */
    if (keep && (kv_truncate(c, seq, keep) != 0 || (windows && keep < n)))
        keep = 0;
    if (keep == 0) {
        bench_fill_drop(f, seq);
        kv_advance(c, seq, n); /* layers with windows then allocate only the rows in their windows */
    }
    if ((rc = kv_reserve(c, seq, n)) != 0) {
        bench_fill_drop(f, seq);
        return err_set(e, rc, "the KV cache has no room for another sequence of %zu tokens", n);
    }
    f->len[seq] = n;
    p = (struct planes){.f = f, .view = kv_view(c, seq), .from = keep, .to = n};
    if (keep < n)
        pool_run(f->m->pool, move_share, &p);
    return 0;
}
