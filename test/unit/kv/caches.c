/* caches.c - see caches.h. */
#include "caches.h"

#include "kern/format/attn_i4.h"

void caches_open(struct kv *c, const char *type, struct kv_limits lim)
{
    struct err e = {0};

    if (kv_open(c, type, &lim, &e) != 0)
        fail_msg("%s: %s", type, e.msg);
}

void caches_check(const struct kv *c)
{
    struct err e = {0};

    if (kv_check(c, &e) != 0)
        fail_msg("%s: %s", c->type->name, e.msg);
}

char *caches_tile(const struct kv_view *v, size_t layer, size_t head, size_t pos, bool value)
{
    const struct kv_layer *l = &v->layer[layer];
    uint32_t t = v->tile[l->group][pos / KERN_TILE];

    return (value ? l->v : l->k) + (size_t)(t >> l->block_shift) * l->block_bytes + head * l->head_bytes +
           (t & ((1u << l->block_shift) - 1)) * l->tile_bytes;
}

static uint32_t content(uint32_t stamp, size_t layer, size_t head, bool value, size_t d)
{
    uint32_t x = stamp * 2654435761u + (uint32_t)(layer * 977 + head * 131 + value * 17 + d * 7919);

    x ^= x >> 15;
    return x * 2246822519u ^ x >> 13;
}

/* Returns the bits of the scale of an int8 row: a float from 0 to 2. */
static uint32_t scale(uint32_t stamp, size_t layer, size_t head, bool value)
{
    return content(stamp, layer, head, value, 9999) & 0x3fffffffu;
}

/* Returns the dims of a stored row. */
static size_t padded(const struct kv *c, size_t layer)
{
    return (kv_layer_dim(&c->lim, layer) + 15) / 16 * 16;
}

/* Returns the byte offset of dim D of row SLOT, in tiles of DP dims. */
static size_t offset(enum dtype dtype, size_t dp, size_t slot, size_t d, bool value)
{
    switch (dtype) {
    case DT_F32: return value ? (slot * dp + d) * 4 : (d * 16 + slot) * 4;
    case DT_BF16: return value ? slot / 2 * dp * 4 + d * 4 + slot % 2 * 2 : d / 2 * 64 + slot * 4 + d % 2 * 2;
    default: return value ? (slot / 4 * dp + d) * 4 + slot % 4 : (d / 4 * 16 + slot) * 4 + d % 4;
    }
}

/* Writes the row of a stamp in 4 bits into tile T. */
static void write_i4(char *t, size_t dp, size_t slot, uint32_t stamp, size_t layer, size_t head, bool value)
{
    uint8_t code[256], factor[256 / KERN_I4_GROUP];

    assert_true(dp <= sizeof(code));
    for (size_t d = 0; d < dp; d++) {
        code[d] = content(stamp, layer, head, value, d) & 15;
        factor[d / KERN_I4_GROUP] = content(stamp, layer, head, value, 1000 + d) & 15;
    }
    i4_put_row(t, dp, slot, value, code, factor, (uint16_t)(scale(stamp, layer, head, value) >> 16));
}

/* Writing the row again would change nothing. */
static bool is_i4(const struct kv *c, const char *t, size_t dp, size_t slot, uint32_t stamp, size_t layer,
                  size_t head, bool value)
{
    char again[4608];

    assert_true(c->tile_bytes <= sizeof(again));
    memcpy(again, t, c->tile_bytes);
    write_i4(again, dp, slot, stamp, layer, head, value);
    return memcmp(again, t, c->tile_bytes) == 0;
}

void caches_write(const struct kv *c, size_t seq, size_t pos, uint32_t stamp)
{
    struct kv_view v = kv_view(c, seq);
    size_t es = dtype_bytes(c->lim.dtype);

    for (size_t l = 0; l < c->lim.n_layers; l++)
        for (size_t h = 0; h < c->lim.n_kv; h++)
            for (int value = 0; value < 2; value++) {
                char *t = caches_tile(&v, l, h, pos, value);
                size_t dp = padded(c, l);
                uint32_t x;

                if (c->lim.dtype == DT_I4) {
                    write_i4(t, dp, pos % 16, stamp, l, h, value);
                    continue;
                }
                for (size_t d = 0; d < kv_layer_dim(&c->lim, l); d++) {
                    x = content(stamp, l, h, value, d);
                    memcpy(t + offset(c->lim.dtype, dp, pos % 16, d, value), &x, es);
                }
                x = scale(stamp, l, h, value);
                if (c->lim.dtype == DT_I8)
                    memcpy(t + 16 * dp + pos % 16 * 4, &x, 4);
            }
}

bool caches_is(const struct kv *c, size_t seq, size_t layer, size_t pos, uint32_t stamp, bool every)
{
    struct kv_view v = kv_view(c, seq);
    size_t es = dtype_bytes(c->lim.dtype), dims = kv_layer_dim(&c->lim, layer), dp = padded(c, layer);

    for (size_t h = 0; h < c->lim.n_kv; h++)
        for (int value = 0; value < 2; value++) {
            const char *t = caches_tile(&v, layer, h, pos, value);
            uint32_t x;

            if (c->lim.dtype == DT_I4) {
                if (!is_i4(c, t, dp, pos % 16, stamp, layer, h, value))
                    return false;
                continue;
            }
            for (size_t d = 0; d < dims; d += every ? 1 : dims - 1) {
                x = content(stamp, layer, h, value, d);
                if (memcmp(t + offset(c->lim.dtype, dp, pos % 16, d, value), &x, es) != 0)
                    return false;
            }
            x = scale(stamp, layer, h, value);
            if (c->lim.dtype == DT_I8 && memcmp(t + 16 * dp + pos % 16 * 4, &x, 4) != 0)
                return false;
        }
    return true;
}

void caches_grow(struct kv *c, size_t seq, size_t from, size_t to, size_t step)
{
    for (size_t pos = from, n; pos < to; pos += n) {
        n = to - pos < step ? to - pos : step;
        assert_int_equal(kv_reserve(c, seq, pos + n), 0);
        for (size_t i = 0; i < n; i++)
            caches_write(c, seq, pos + i, (uint32_t)(pos + i + 1));
        kv_advance(c, seq, pos + n);
    }
}

void caches_must_show(const struct kv *c, size_t seq, size_t n)
{
    for (size_t l = 0; l < c->lim.n_layers; l++)
        for (size_t pos = 0; pos < n; pos++) {
            size_t window = c->lim.window ? c->lim.window[l] : 0, sink = c->lim.sink ? c->lim.sink[l] : 0;

            if ((!window || pos + window > n || pos < sink) &&
                !caches_is(c, seq, l, pos, (uint32_t)pos + 1, true))
                fail_msg("%s: row %zu of %zu is lost in layer %zu", c->type->name, pos, n, l);
        }
}
