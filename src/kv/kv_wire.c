/* kv_wire.c - rows out of tiles and into them again, behind a header that proves itself. The tiles are those
 * of kern.h, struct kern_attn. */
#include "kv/kv_wire.h"

#include <math.h>
#include <string.h>
#include <xxhash.h>

#include "base/file.h"
#include "base/map.h"
#include "kern/kern.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are copied as they are");

enum { HEADER = 64, VERSION = 2, SUM_AT = 56 };

struct header {
    char magic[8];
    uint32_t version, dtype;
    uint64_t model, n;
    uint32_t zero, n_layers, n_kv, head_dim;
    uint64_t rest, sum;
};
_Static_assert(sizeof(struct header) == HEADER, "no holes");

static const char magic[8] = {'G', 'A', 'L', 'L', 'O', 'P', 'K', 'V'};

/* ---- sizes ---- */

static uint32_t dtype_code(enum dtype t)
{
    return t == DT_F32 ? 0 : t == DT_BF16 ? 1 : 2;
}

static size_t row_bytes(const struct kv *c, size_t layer)
{
    return kv_layer_dim(&c->lim, layer) * dtype_bytes(c->lim.dtype) +
           (c->lim.dtype == DT_I8 ? sizeof(float) : 0);
}

/* The rows of a layer that a query at N sees: [0, sink) and [first, n). */
struct kept {
    uint32_t first, sink;
};
_Static_assert(sizeof(struct kept) == 8, "as it stands on the wire");

static struct kept kept(const struct kv *c, size_t layer, size_t n)
{
    const struct kv_group *g = &c->group[c->group_of[layer]];
    size_t first = kv_group_first(g, n);

    return (struct kept){(uint32_t)first, first ? (uint32_t)g->sink : 0};
}

/* Of the rows of one layer of a sequence of N. */
static size_t layer_bytes(const struct kv *c, size_t layer, size_t n)
{
    struct kept k = kept(c, layer, n);
    size_t bytes;

    if (__builtin_mul_overflow(k.sink + n - k.first, 2 * c->lim.n_kv * row_bytes(c, layer), &bytes))
        return SIZE_MAX;
    return bytes;
}

size_t kv_wire_bytes(const struct kv *c, size_t n)
{
    size_t bytes = HEADER + c->lim.n_layers * sizeof(struct kept);

    for (size_t l = 0; l < c->lim.n_layers; l++)
        if (__builtin_add_overflow(bytes, layer_bytes(c, l, n), &bytes))
            return SIZE_MAX;
    return bytes;
}

uint64_t kv_wire_sum(const void *bytes, size_t len)
{
    uint64_t part[2] = {XXH3_64bits(bytes, SUM_AT), XXH3_64bits((const char *)bytes + HEADER, len - HEADER)};

    return XXH3_64bits(part, sizeof(part));
}

static struct header header_of(const struct kv *c, size_t n, uint64_t model)
{
    struct header h = {.version = VERSION,
                       .dtype = dtype_code(c->lim.dtype),
                       .model = model,
                       .n = n,
                       .n_layers = (uint32_t)c->lim.n_layers,
                       .n_kv = (uint32_t)c->lim.n_kv,
                       .head_dim = (uint32_t)c->lim.head_dim,
                       .rest = kv_wire_bytes(c, n) - HEADER};

    memcpy(h.magic, magic, sizeof(magic));
    return h;
}

/* ---- rows ---- */

struct place {
    enum dtype dtype;
    size_t dims, dp;
    bool value; /* V, not K */
};

/* Where dim D of row SLOT lies in a tile, in elements. */
static size_t element(const struct place *p, size_t slot, size_t d)
{
    size_t group = p->dtype == DT_BF16 ? 2 : p->dtype == DT_I8 ? 4 : 1; /* elements of a lane */

    if (p->value)
        return (slot / group * p->dp + d) * group + slot % group;
    return (d / group * KERN_TILE + slot) * group + d % group;
}

/* Moves one row between TILE and WIRE. */
static void move_row(const struct place *p, char *tile, size_t slot, char *wire, bool out)
{
    size_t es = dtype_bytes(p->dtype);

    if (p->dtype == DT_I8) {
        char *scale = tile + KERN_TILE * p->dp + slot * sizeof(float);

        memcpy(out ? wire : scale, out ? scale : wire, sizeof(float));
        wire += sizeof(float);
    }
    for (size_t d = 0; d < p->dims; d++) {
        char *at = tile + element(p, slot, d) * es, *on = wire + d * es;

        for (size_t b = 0; b < es; b++) {
            if (out)
                on[b] = at[b];
            else
                at[b] = on[b];
        }
    }
}

static char *tile_at(const struct kv_view *v, size_t layer, size_t head, size_t pos, bool value)
{
    const struct kv_layer *l = &v->layer[layer];
    uint32_t t = v->tile[l->group][pos / KERN_TILE];

    return kv_layer_tile(l, value ? l->v : l->k, t, head);
}

/* Rows [0, sink) and [first, n) of one layer and head, K or V. Coming in, tiles are cleared from the chunk on
 * in which a kernel may read them, so that rows nobody sees hold zeros. */
static char *move_head(const struct kv *c, const struct kv_view *v, size_t layer, size_t head, bool value,
                       size_t n, char *wire, bool out)
{
    size_t dims = kv_layer_dim(&c->lim, layer), row = row_bytes(c, layer);
    const struct place p = {c->lim.dtype, dims, (dims + 15) / 16 * 16, value};
    struct kept k = kept(c, layer, n);

    for (size_t pos = 0; pos < k.sink && !out; pos += KERN_TILE)
        memset(tile_at(v, layer, head, pos, value), 0, c->tile_bytes);
    for (size_t pos = k.first / KERN_CHUNK * KERN_CHUNK; pos < n && !out; pos += KERN_TILE)
        memset(tile_at(v, layer, head, pos, value), 0, c->tile_bytes);
    for (size_t pos = k.sink ? 0 : k.first; pos < n; pos = pos + 1 == k.sink ? k.first : pos + 1, wire += row)
        move_row(&p, tile_at(v, layer, head, pos, value), pos % KERN_TILE, wire, out);
    return wire;
}

static void move_all(const struct kv *c, size_t seq, size_t n, char *wire, bool out)
{
    struct kv_view v = kv_view(c, seq);

    for (size_t l = 0; l < c->lim.n_layers; l++)
        for (int value = 0; value < 2; value++)
            for (size_t h = 0; h < c->lim.n_kv; h++)
                wire = move_head(c, &v, l, h, value, n, wire, out);
}

/* ---- out ---- */

int kv_wire_save(const struct kv *c, size_t seq, size_t n, uint64_t model, void *out)
{
    struct header h = header_of(c, n, model);
    char *p = out;

    if (!kv_sees(c, seq, n))
        return KV_GONE;
    memcpy(p, &h, HEADER);
    for (size_t l = 0; l < c->lim.n_layers; l++) {
        struct kept k = kept(c, l, n);

        memcpy(p + HEADER + l * sizeof(k), &k, sizeof(k));
    }
    move_all(c, seq, n, p + HEADER + c->lim.n_layers * 8, true);
    h.sum = kv_wire_sum(p, kv_wire_bytes(c, n));
    memcpy(p + SUM_AT, &h.sum, 8);
    return 0;
}

/* ---- in ---- */

static int refuse(struct err *e, const char *name, const char *what, uint64_t found, uint64_t expected)
{
    return err_set(e, ERR_INPUT, "%s: %s %llu, expected is %llu", name, what, (unsigned long long)found,
                   (unsigned long long)expected);
}

static int check_header(const struct kv *c, const struct header *h, uint64_t model, size_t len,
                        const char *name, struct err *e)
{
    static const char *const dtype[] = {"fp32", "bf16", "int8"};
    uint32_t want = dtype_code(c->lim.dtype);

    if (h->version != VERSION)
        return refuse(e, name, "these saved rows have version", h->version, VERSION);
    if (h->model != model)
        return err_set(e, ERR_INPUT,
                       "%s: these rows were saved by another model (%016llx, this one is %016llx)", name,
                       (unsigned long long)h->model, (unsigned long long)model);
    if (h->dtype != want)
        return err_set(e, ERR_INPUT, "%s: the saved rows are of type %s, this cache holds %s", name,
                       h->dtype < 3 ? dtype[h->dtype] : "unknown", dtype[want]);
    if (h->n_layers != c->lim.n_layers)
        return refuse(e, name, "the saved rows have layers:", h->n_layers, c->lim.n_layers);
    if (h->n_kv != c->lim.n_kv)
        return refuse(e, name, "the saved rows have kv heads:", h->n_kv, c->lim.n_kv);
    if (h->head_dim != c->lim.head_dim)
        return refuse(e, name, "the saved rows have a head size of", h->head_dim, c->lim.head_dim);
    if (h->n == 0 || h->n > c->lim.max_len)
        return err_set(e, ERR_INPUT, "%s: the saved sequence has %llu rows, there is room for 1 to %zu", name,
                       (unsigned long long)h->n, c->lim.max_len);
    if (h->zero || h->rest != len - HEADER || h->rest != kv_wire_bytes(c, h->n) - HEADER)
        return err_set(
            e, ERR_INPUT,
            "%s: %zu bytes follow the header, which says %llu; %llu rows take %zu: it is cut short or damaged",
            name, len - HEADER, (unsigned long long)h->rest, (unsigned long long)h->n,
            kv_wire_bytes(c, h->n) - HEADER);
    return 0;
}

/* Each row of int8 begins with its scale. */
static int check_scales(const struct kv *c, const char *p, size_t n, const char *name, struct err *e)
{
    size_t at = HEADER + c->lim.n_layers * sizeof(struct kept);

    for (size_t l = 0; l < c->lim.n_layers; l++)
        for (size_t end = at + layer_bytes(c, l, n); at < end; at += row_bytes(c, l)) {
            float scale;

            memcpy(&scale, p + at, sizeof(scale));
            if (!(scale >= 0 && scale < INFINITY))
                return err_set(e, ERR_INPUT, "%s: at byte %zu is the scale %g; none is negative or infinite",
                               name, at, (double)scale);
        }
    return 0;
}

static int check_bytes(const struct kv *c, const char *p, size_t len, uint64_t model, const char *name,
                       size_t *n, struct err *e)
{
    struct header h;
    int rc;

    if (len < HEADER || memcmp(p, magic, sizeof(magic)) != 0)
        return err_set(e, ERR_INPUT, "%s: these %zu bytes are not saved rows of a KV cache", name, len);
    memcpy(&h, p, HEADER);
    if ((rc = check_header(c, &h, model, len, name, e)) != 0)
        return rc;
    if (h.sum != kv_wire_sum(p, len))
        return err_set(e, ERR_INPUT, "%s: the saved rows are damaged: their checksum does not fit", name);
    for (size_t l = 0; l < c->lim.n_layers; l++) {
        struct kept found, want = kept(c, l, h.n);

        memcpy(&found, p + HEADER + l * sizeof(found), sizeof(found));
        if (found.first != want.first)
            return err_set(e, ERR_INPUT,
                           "%s: layer %zu was saved from row %u on, this model needs it from %u", name, l,
                           found.first, want.first);
        if (found.sink != want.sink)
            return err_set(e, ERR_INPUT, "%s: layer %zu was saved with a sink of %u rows, this cache has %u",
                           name, l, found.sink, want.sink);
    }
    if (c->lim.dtype == DT_I8 && (rc = check_scales(c, p, h.n, name, e)) != 0)
        return rc;
    *n = h.n;
    return 0;
}

int kv_wire_load(struct kv *c, size_t seq, uint64_t model, const void *bytes, size_t len, const char *name,
                 size_t *n, struct err *e)
{
    size_t rows = 0;
    int rc = check_bytes(c, bytes, len, model, name, &rows, e);

    if (rc)
        return rc;
    kv_advance(c, seq, rows); /* windows take only what they show */
    if ((rc = kv_reserve(c, seq, rows)) != 0) {
        kv_release(c, seq);
        return err_set(e, rc, "%s: the KV cache has no room for %zu rows", name, rows);
    }
    /* nothing is written to the wire on the way in */
    move_all(c, seq, rows, (char *)(uintptr_t)bytes + HEADER + c->lim.n_layers * 8, false);
    *n = rows;
    return 0;
}

/* ---- files ---- */

int kv_wire_write(const struct kv *c, size_t seq, size_t n, uint64_t model, const char *path, struct err *e)
{
    size_t len = kv_wire_bytes(c, n);
    void *bytes = len < SIZE_MAX ? map_region_new(len) : NULL;
    int rc;

    if (!bytes)
        return err_nomem(e, "rows of a KV cache to save");
    rc = kv_wire_save(c, seq, n, model, bytes);
    if (rc)
        err_set(e, rc, "%s: rows that are to be saved have been dropped by a window", path);
    else
        rc = file_replace(path, bytes, len, 0666, true, e);
    map_region_free(bytes, len);
    return rc;
}

int kv_wire_read(struct kv *c, size_t seq, uint64_t model, const char *path, size_t *n, struct err *e)
{
    struct map_file f;
    int rc = map_file_open(&f, path, e);

    if (rc == 0)
        rc = kv_wire_load(c, seq, model, f.bytes ? f.bytes : "", f.len, path, n, e);
    if (rc == 0 && (rc = map_file_check(&f, path, e)) != 0)
        kv_release(c, seq);
    map_file_close(&f);
    return rc;
}
