/* kv.c - finds the type and does the arithmetic that all types share. */
#include "kv/kv.h"

#include <string.h>

#include "kern/kern.h"

#define KV_TYPE(symbol) extern const struct kv_type symbol;
#include "kv/types.def"
#undef KV_TYPE

static const struct kv_type *const types[] = {
#define KV_TYPE(symbol) &symbol,
#include "kv/types.def"
#undef KV_TYPE
};
enum { N_TYPES = sizeof(types) / sizeof(types[0]) };

static const struct kv_type *find(const char *name)
{
    for (int i = 0; i < N_TYPES; i++)
        if (strcmp(types[i]->name, name) == 0)
            return types[i];
    return NULL;
}

bool kv_type_known(const char *name)
{
    return find(name) != NULL;
}

static size_t row_dims(const struct kv_limits *lim)
{
    return (lim->head_dim + 15) / 16 * 16;
}

const char *kv_type_name(size_t i)
{
    return i < N_TYPES ? types[i]->name : NULL;
}

int kv_open(struct kv *c, const char *type, const struct kv_limits *lim, struct err *e)
{
    int rc;

    *c = (struct kv){.type = find(type), .lim = *lim, .dp = row_dims(lim)};
    if (!c->type)
        return err_set(e, ERR_INPUT, "KV cache type %s is not known", type);
    if (lim->block % KERN_TILE != 0 || lim->block > 4096 || (lim->block & (lim->block - 1)) != 0) {
        c->type = NULL;
        return err_set(e, ERR_INPUT, "block size %zu is not a power of two from 16 to 4096", lim->block);
    }
    c->tile_bytes = c->dp * KERN_TILE * dtype_bytes(lim->dtype);
    rc = c->type->open(c, e);
    if (rc)
        *c = (struct kv){0};
    return rc;
}

int kv_reserve(struct kv *c, size_t seq, size_t n)
{
    ASSERT(seq < c->lim.max_seqs && n <= c->lim.max_len, "sequence %zu, %zu rows", seq, n);
    return c->type->reserve(c, seq, n);
}

void kv_truncate(struct kv *c, size_t seq, size_t n)
{
    c->type->truncate(c, seq, n);
}

void kv_release(struct kv *c, size_t seq)
{
    c->type->truncate(c, seq, 0);
}

int kv_fork(struct kv *c, size_t from, size_t n, size_t to)
{
    return c->type->fork(c, from, n, to);
}

struct kv_view kv_view(const struct kv *c, size_t seq)
{
    return c->type->view(c, seq);
}

size_t kv_bytes(const struct kv *c)
{
    return c->type->bytes(c);
}

size_t kv_token_bytes(const struct kv_limits *lim)
{
    return lim->n_layers * 2 * lim->n_kv * row_dims(lim) * dtype_bytes(lim->dtype);
}

void kv_close(struct kv *c)
{
    if (c->type)
        c->type->close(c);
    *c = (struct kv){0};
}
