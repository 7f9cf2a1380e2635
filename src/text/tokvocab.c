/* tokvocab.c - one block of bytes, an array by id, and an open-addressed table of (hash, id) at a load of at
 * most 1/2. The table holds no pointers, so that a look-up that misses touches one cache line only.
 */
#include "text/tokvocab.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define NO_STRING UINT32_MAX

void tokvocab_init(struct tokvocab *v)
{
    *v = (struct tokvocab){0};
    buf_init(&v->bytes, MEM_TEXT);
}

void tokvocab_fini(struct tokvocab *v)
{
    mem_free(v->str);
    mem_free(v->slot);
    buf_fini(&v->bytes);
    *v = (struct tokvocab){0};
}

static uint32_t hash_of(const char *s, size_t n)
{
    return (uint32_t)(XXH3_64bits(s, n) >> 32);
}

/* The slot that holds S, or the free one where it would go. */
static uint64_t *slot_of(const struct tokvocab *v, const char *s, size_t n, uint32_t hash)
{
    size_t mask = v->n_slots - 1, i = hash & mask;

    for (;; i = (i + 1) & mask) {
        uint64_t x = v->slot[i];
        const struct tokvocab_str *t;

        if (x == 0)
            return &v->slot[i];
        if (x >> 32 != hash)
            continue;
        t = &v->str[(uint32_t)x - 1];
        if (t->n == n && t->off != NO_STRING && memcmp(v->bytes.data + t->off, s, n) == 0)
            return &v->slot[i];
    }
}

bool tokvocab_reserve(struct tokvocab *v, size_t n)
{
    size_t want = 256, mask;
    uint64_t *slot;

    while (want < 2 * n)
        want *= 2;
    if (want <= v->n_slots)
        return true;
    slot = mem_zalloc(want, sizeof(*slot), MEM_TEXT);
    if (!slot)
        return false;
    mask = want - 1;
    for (size_t k = 0; k < v->n_slots; k++) {
        size_t i = (size_t)(v->slot[k] >> 32) & mask;

        if (v->slot[k] == 0)
            continue;
        while (slot[i])
            i = (i + 1) & mask;
        slot[i] = v->slot[k];
    }
    mem_free(v->slot);
    v->slot = slot;
    v->n_slots = want;
    return true;
}

static bool room_for_id(struct tokvocab *v, size_t id)
{
    if (!mem_grow((void **)&v->str, &v->cap, id + 1, sizeof(*v->str), MEM_TEXT))
        return false;
    for (; v->n_ids <= id; v->n_ids++)
        v->str[v->n_ids] = (struct tokvocab_str){NO_STRING, 0};
    return true;
}

int tokvocab_add(struct tokvocab *v, const char *s, size_t n, int64_t id, struct err *e)
{
    size_t off = v->bytes.len;
    uint64_t *slot;
    uint32_t hash;

    if (id < 0 || id > TOKVOCAB_MAX_ID)
        return err_set(e, ERR_INPUT, "the id of token \"%.*s\" is %lld; ids are 0..%d",
                       (int)(n < 60 ? n : 60), s, (long long)id, (int)TOKVOCAB_MAX_ID);
    if (n > UINT32_MAX / 2 || off > UINT32_MAX / 2)
        return err_set(e, ERR_INPUT, "the strings of the vocabulary exceed 2 GiB");
    if (!tokvocab_reserve(v, v->n + 1))
        return err_nomem(e, "vocabulary");
    if (!room_for_id(v, (size_t)id))
        return err_nomem(e, "vocabulary");
    if (v->str[id].off != NO_STRING) {
        const struct tokvocab_str *t = &v->str[id];

        if (t->n == n && memcmp(v->bytes.data + t->off, s, n) == 0)
            return 0;
        return err_set(e, ERR_INPUT, "the tokens \"%.*s\" and \"%.*s\" share the id %lld",
                       (int)(t->n < 60 ? t->n : 60), v->bytes.data + t->off, (int)(n < 60 ? n : 60), s,
                       (long long)id);
    }
    hash = hash_of(s, n);
    slot = slot_of(v, s, n, hash);
    buf_add(&v->bytes, s, n);
    if (v->bytes.oom)
        return err_nomem(e, "vocabulary");
    v->str[id] = (struct tokvocab_str){(uint32_t)off, (uint32_t)n};
    if (*slot)
        v->str[(uint32_t)*slot - 1].off = NO_STRING;
    v->n += *slot == 0;
    *slot = (uint64_t)hash << 32 | (uint64_t)(id + 1);
    if (n > v->longest)
        v->longest = n;
    return 0;
}

void tokvocab_find_all(const struct tokvocab *v, struct tokvocab_query *q, size_t n)
{
    uint32_t hash[TOKVOCAB_BATCH];
    size_t mask = v->n_slots - 1;

    for (size_t i = 0; i < n; i++) {
        hash[i] = hash_of(q[i].s, q[i].n);
        if (v->n_slots)
            __builtin_prefetch(&v->slot[hash[i] & mask]);
    }
    for (size_t i = 0; i < n && v->n_slots; i++) {
        uint64_t x = v->slot[hash[i] & mask];

        if (x >> 32 == hash[i] && x)
            __builtin_prefetch(&v->str[(uint32_t)x - 1]);
    }
    for (size_t i = 0; i < n && v->n_slots; i++) {
        uint64_t x = v->slot[hash[i] & mask];

        if (x >> 32 == hash[i] && x && v->str[(uint32_t)x - 1].off != NO_STRING)
            __builtin_prefetch(v->bytes.data + v->str[(uint32_t)x - 1].off);
    }
    for (size_t i = 0; i < n; i++) {
        uint64_t x = v->n_slots ? *slot_of(v, q[i].s, q[i].n, hash[i]) : 0;

        q[i].id = x ? (uint32_t)x - 1 : TOKVOCAB_NONE;
    }
}

bool tokvocab_find(const struct tokvocab *v, const char *s, size_t n, uint32_t *id)
{
    uint64_t x;

    if (v->n_slots == 0)
        return false;
    x = *slot_of(v, s, n, hash_of(s, n));
    if (x == 0)
        return false;
    *id = (uint32_t)x - 1;
    return true;
}

bool tokvocab_str(const struct tokvocab *v, size_t id, const char **s, size_t *n)
{
    if (id >= v->n_ids || v->str[id].off == NO_STRING)
        return false;
    *s = v->bytes.data + v->str[id].off;
    *n = v->str[id].n;
    return true;
}
