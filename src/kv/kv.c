/* kv.c - opens a type of KV cache, groups its layers by window, and computes sizes for all types. */
#include "kv/kv.h"

#include <string.h>

#include "base/cpu.h"
#include "base/mem.h"
#include "kern/kern.h"
#include "kv/store/record.h"

static const struct kv_type types[] = {
#define KV_TYPE(name, ops, max_block, capacity) {name, &ops, max_block, capacity},
#include "kv/types.def"
#undef KV_TYPE
};
enum { N_TYPES = sizeof(types) / sizeof(types[0]) };

static const char *const layouts[] = {[KV_HEAD_MAJOR] = "head_major", [KV_BLOCK_MAJOR] = "block_major"};

static const struct kv_type *find_type(const char *name)
{
    for (int i = 0; i < N_TYPES; i++)
        if (strcmp(types[i].name, name) == 0)
            return &types[i];
    return NULL;
}

bool kv_type_pooled(const char *name)
{
    const struct kv_type *t = find_type(name);

    return t && t->ops->pool_bytes;
}

bool kv_layout_of_name(const char *name, enum kv_layout *layout)
{
    *layout = strcmp(name, layouts[KV_BLOCK_MAJOR]) == 0 ? KV_BLOCK_MAJOR : KV_HEAD_MAJOR;
    return strcmp(name, layouts[*layout]) == 0;
}

const char *kv_layout_name(enum kv_layout layout)
{
    return layouts[layout];
}

bool kv_type_extern(const char *name)
{
    const struct kv_type *t = find_type(name);

    return t && t->ops->lend;
}

const char *kv_type_name(size_t i)
{
    for (int t = 0; t < N_TYPES; t++)
        if (!types[t].ops->lend && i-- == 0)
            return types[t].name;
    return NULL;
}

/* ---- arithmetic ---- */

static size_t row_dims(const struct kv_limits *lim)
{
    return (lim->head_dim + 15) / 16 * 16;
}

static size_t tile_bytes(const struct kv_limits *lim)
{
    return kv_tile_bytes(lim->dtype, row_dims(lim));
}

size_t kv_token_bytes(const struct kv_limits *lim)
{
    return lim->n_layers * lim->n_kv * (2 * tile_bytes(lim) / KERN_TILE);
}

/* Returns the window and sink of LAYER; window 0 (all rows) if both together cover max_len rows. */
static struct kv_group group_of(const struct kv_limits *lim, size_t layer)
{
    size_t window = lim->window ? lim->window[layer] : 0, sink = lim->sink ? lim->sink[layer] : 0;

    if (!window || window >= lim->max_len || sink >= lim->max_len - window)
        return (struct kv_group){0};
    return (struct kv_group){.window = window, .sink = sink};
}

size_t kv_seq_bytes(const struct kv_limits *lim, size_t n)
{
    size_t rows = 0;

    for (size_t l = 0; l < lim->n_layers; l++) {
        struct kv_group g = group_of(lim, l);

        rows += g.window && g.sink + g.window < n ? g.sink + g.window : n;
    }
    return rows * lim->n_kv * (2 * tile_bytes(lim) / KERN_TILE);
}

size_t kv_block(const char *type, const struct kv_limits *lim)
{
    const struct kv_type *t = find_type(type);
    size_t block = t ? t->max_block : KV_MAX_BLOCK, row = kv_token_bytes(lim) / lim->n_layers;

    if (lim->block)
        return lim->block;
    while (block > KV_MIN_BLOCK && block * row > cpu_cache_bytes(2) / 4)
        block /= 2;
    for (size_t l = 0; l < lim->n_layers; l++)
        while (group_of(lim, l).window && block > KV_MIN_BLOCK && block > group_of(lim, l).window / 4)
            block /= 2;
    return block;
}

/* ---- groups ---- */

static size_t find_group(struct kv *c, struct kv_group like)
{
    size_t g = 0;

    while (g < c->n_groups && (c->group[g].window != like.window || c->group[g].sink != like.sink))
        g++;
    if (g == c->n_groups && g < KV_MAX_GROUPS)
        c->group[c->n_groups++] = like;
    return g;
}

/* Forms the groups of C and counts their layers. Sets c->group_of unless it is NULL. */
static int form_groups(struct kv *c, struct err *e)
{
    c->n_groups = 0;
    memset(c->group, 0, sizeof(c->group));
    for (int pass = 0; pass < 2; pass++) /* pass 0: layers that keep all rows, so that they become group 0 */
        for (size_t l = 0; l < c->lim.n_layers; l++) {
            struct kv_group like = group_of(&c->lim, l);
            size_t g;

            if ((like.window != 0) != (pass == 1))
                continue;
            if ((g = find_group(c, like)) == KV_MAX_GROUPS)
                return err_set(e, ERR_UNSUPPORTED,
                               "the model's layers have more than %d different pairs of window and sink",
                               KV_MAX_GROUPS);
            c->group[g].n_layers++;
            if (c->group_of)
                c->group_of[l] = (uint8_t)g;
        }
    return 0;
}

/* Prepares C for the computation of sizes, without opening it. False: TYPE has no pool. */
static bool imagine(struct kv *c, const char *type, const struct kv_limits *lim)
{
    *c = (struct kv){.type = find_type(type), .lim = *lim, .tile_bytes = tile_bytes(lim)};
    if (!kv_type_pooled(type) || form_groups(c, NULL) != 0)
        return false;
    c->lim.block = kv_block(type, lim);
    return true;
}

size_t kv_pool_bytes(const char *type, const struct kv_limits *lim)
{
    struct kv c;

    return imagine(&c, type, lim) ? c.type->ops->pool_bytes(&c) : 0;
}

size_t kv_budget_bytes(const char *type, const struct kv_limits *lim)
{
    size_t tiles = lim->pool_tokens / KERN_TILE + (lim->pool_tokens % KERN_TILE != 0), bytes;

    if (kv_type_pooled(type))
        return kv_pool_bytes(type, lim);
    return __builtin_mul_overflow(tiles, kv_token_bytes(lim) * KERN_TILE, &bytes) ? SIZE_MAX : bytes;
}

size_t kv_least_tokens(const char *type, const struct kv_limits *lim)
{
    struct kv c;

    return imagine(&c, type, lim) ? c.type->ops->least_blocks(&c) * c.lim.block : lim->max_len;
}

size_t kv_record_bytes(const char *type, const struct kv_limits *lim)
{
    size_t most = 0, bytes;
    struct kv c;

    if (!imagine(&c, type, lim) || !c.type->ops->read_ahead)
        return 0;
    for (size_t g = 0; g < c.n_groups; g++) {
        struct record_name name = {.n_tokens = lim->max_len, .n_bytes = kv_block_bytes(&c, g)};

        bytes = record_bytes(&name);
        most = bytes > most ? bytes : most;
    }
    return most;
}

size_t kv_pool_fit(const char *type, struct kv_limits lim, size_t bytes)
{
    size_t block = kv_block(type, &lim), low = 0, high = bytes / tile_bytes(&lim) * KERN_TILE / block + 1;

    /* types without a pool round their budget to tiles */
    if (!kv_type_pooled(type))
        return bytes / (kv_token_bytes(&lim) * KERN_TILE) * KERN_TILE;
    while (low + 1 < high) { /* binary search: LOW blocks fit, HIGH blocks do not */
        size_t mid = low + (high - low) / 2;

        lim.pool_tokens = mid * block;
        if (kv_pool_bytes(type, &lim) <= bytes)
            low = mid;
        else
            high = mid;
    }
    return low * block;
}

/* ---- open ---- */

int kv_check_limits(const char *type, const struct kv_limits *lim, struct err *e)
{
    if (!find_type(type))
        return err_set(e, ERR_INPUT, "unknown KV cache type %s (expected dynamic, bmc, slab_pool or paged)",
                       type);
    if (lim->dtype != DT_F32 && lim->dtype != DT_BF16 && lim->dtype != DT_I8 && lim->dtype != DT_I4)
        return err_set(e, ERR_INPUT,
                       "KV cache rows of dtype %s are not supported (expected F32, BF16, I8 or I4)",
                       dtype_name(lim->dtype));
    if (lim->block & (lim->block - 1) ||
        (lim->block && (lim->block < KV_MIN_BLOCK || lim->block > KV_MAX_BLOCK)))
        return err_set(e, ERR_INPUT, "the KV block size is %zu rows (expected a power of two from %d to %d)",
                       lim->block, KV_MIN_BLOCK, KV_MAX_BLOCK);
    if (strcmp(type, "bmc") == 0 && lim->splits > lim->max_len)
        return err_set(e, ERR_INPUT,
                       "KV cache type bmc: %zu splits (expected at most %zu, the rows of a sequence)",
                       lim->splits, lim->max_len);
    ASSERT(lim->n_layers && lim->n_kv && lim->head_dim && lim->max_seqs && lim->max_len);
    for (size_t l = 0; l < lim->n_layers; l++)
        ASSERT(kv_layer_dim(lim, l) && kv_layer_dim(lim, l) <= lim->head_dim);
    return 0;
}

int kv_open(struct kv *c, const char *type, const struct kv_limits *lim, struct err *e)
{
    int rc = kv_check_limits(type, lim, e);

    *c = (struct kv){.lim = *lim};
    if (rc)
        return rc;
    c->tile_bytes = tile_bytes(lim);
    c->lim.block = kv_block(type, lim);
    c->group_of = mem_zalloc(lim->n_layers, sizeof(*c->group_of), MEM_KV);
    rc = c->group_of ? form_groups(c, e) : err_nomem(e, "the KV cache");
    if (rc == 0) {
        c->type = find_type(type);
        rc = c->type->ops->open(c, e);
    }
    if (rc) {
        mem_free(c->group_of);
        *c = (struct kv){0};
    }
    return rc;
}

void kv_close(struct kv *c)
{
    if (c->type)
        c->type->ops->close(c);
    mem_free(c->group_of);
    *c = (struct kv){0};
}

/* ---- checked calls of the type's functions ---- */

static void check_seq(const struct kv *c, size_t seq, size_t n)
{
    ASSERT(seq < c->lim.max_seqs && n <= c->lim.max_len, "sequence %zu of %zu, %zu rows of %zu", seq,
           c->lim.max_seqs, n, c->lim.max_len);
}

int kv_reserve(struct kv *c, size_t seq, size_t n)
{
    check_seq(c, seq, n);
    return c->type->ops->reserve(c, seq, n);
}

bool kv_has_room(const struct kv *c, const struct kv_want *want, size_t n)
{
    for (size_t i = 0; i < n; i++)
        check_seq(c, want[i].seq, want[i].n);
    return c->type->ops->has_room(c, want, n);
}

size_t kv_most_rows(const struct kv *c)
{
    size_t unit = kv_type_pooled(c->type->name) ? c->lim.block : KERN_TILE;

    if (kv_type_pooled(c->type->name) && c->group[0].window)
        return 0;
    return (c->lim.pool_tokens / unit + (c->lim.pool_tokens % unit != 0)) * unit;
}

int kv_truncate(struct kv *c, size_t seq, size_t n)
{
    check_seq(c, seq, n);
    return c->type->ops->truncate(c, seq, n);
}

void kv_release(struct kv *c, size_t seq)
{
    check_seq(c, seq, 0);
    c->type->ops->truncate(c, seq, 0); /* a truncation to 0 rows always succeeds */
}

int kv_fork(struct kv *c, size_t from, size_t n, size_t to)
{
    check_seq(c, from, n);
    check_seq(c, to, n);
    return n ? c->type->ops->fork(c, from, n, to) : 0;
}

void kv_advance(struct kv *c, size_t seq, size_t pos)
{
    check_seq(c, seq, pos);
    c->type->ops->advance(c, seq, pos);
}

bool kv_sees(const struct kv *c, size_t seq, size_t n)
{
    check_seq(c, seq, n);
    return c->type->ops->sees(c, seq, n);
}

size_t kv_adopt(struct kv *c, size_t seq, struct prefix_key seed, const int32_t *token, size_t n)
{
    check_seq(c, seq, n);
    return c->type->ops->adopt ? c->type->ops->adopt(c, seq, seed, token, n) : 0;
}

void kv_set_tokens(struct kv *c, size_t seq, size_t pos, const int32_t *token, size_t n)
{
    check_seq(c, seq, pos + n);
    if (c->type->ops->set_tokens)
        c->type->ops->set_tokens(c, seq, pos, token, n);
}

void kv_publish(struct kv *c, size_t seq, const int32_t *token, size_t n, bool last)
{
    check_seq(c, seq, n);
    if (c->type->ops->publish)
        c->type->ops->publish(c, seq, token, n, last);
}

void kv_lend(struct kv *c, size_t seq, const int32_t *block, size_t n)
{
    check_seq(c, seq, 0);
    c->type->ops->lend(c, seq, block, n);
}

void kv_copy_block(struct kv *c, size_t from, size_t to)
{
    c->type->ops->copy_block(c, from, to);
}

size_t kv_n_blocks(const struct kv *c)
{
    return c->type->ops->n_blocks ? c->type->ops->n_blocks(c) : 0;
}

int kv_read_ahead(struct kv *c, struct prefix_key seed, const int32_t *token, size_t n, size_t *from,
                  size_t *to)
{
    check_seq(c, 0, n);
    return c->type->ops->read_ahead ? c->type->ops->read_ahead(c, seed, token, n, from, to)
                                    : KV_READ_AHEAD_NOTHING;
}

bool kv_read_ahead_go_on(struct kv *c, int handle)
{
    return c->type->ops->read_ahead_go_on(c, handle);
}

void kv_read_ahead_end(struct kv *c, int handle)
{
    c->type->ops->read_ahead_end(c, handle);
}

void kv_read_ahead_wait(struct kv *c, double seconds)
{
    c->type->ops->read_ahead_wait(c, seconds);
}

struct kv_view kv_view(const struct kv *c, size_t seq)
{
    check_seq(c, seq, 0);
    return c->type->ops->view(c, seq);
}

size_t kv_bytes(const struct kv *c)
{
    return c->type->ops->bytes(c);
}

size_t kv_held_bytes(const struct kv *c, size_t seq)
{
    check_seq(c, seq, 0);
    return c->type->ops->held(c, seq);
}

int kv_check(const struct kv *c, struct err *e)
{
    return c->type->ops->check(c, e);
}
