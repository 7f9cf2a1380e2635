/* vocabulary.c - stores strings in one array of bytes, with an array by id and an open-addressed hash table
 * of (hash, id) at a load of at most 1/2.
 *
 * The table has no pointers, so that a failed look-up touches only one cache line. It runs several queries at
 * once: with single queries, as in base/strmap.h, a tokenizer of 446 000 merges takes 40% longer to open.
 */
#include "text/tok/vocabulary.h"

#include <stdio.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/utf8.h"
#include "text/tok/unicode.h"

#define NO_STRING UINT32_MAX

void vocab_init(struct vocab *v)
{
    *v = (struct vocab){0};
    buf_init(&v->bytes, MEM_TEXT);
}

void vocab_fini(struct vocab *v)
{
    mem_free(v->str);
    mem_free(v->slot);
    buf_fini(&v->bytes);
    *v = (struct vocab){0};
}

static uint32_t hash_of(const char *s, size_t n)
{
    return (uint32_t)(XXH3_64bits(s, n) >> 32);
}

/* Returns the slot of S, or the free slot for it. */
static uint64_t *slot_of(const struct vocab *v, const char *s, size_t n, uint32_t hash)
{
    size_t mask = v->n_slots - 1, i = hash & mask;

    for (;; i = (i + 1) & mask) {
        uint64_t x = v->slot[i];
        const struct vocab_entry *t;

        if (x == 0)
            return &v->slot[i];
        if (x >> 32 != hash)
            continue;
        t = &v->str[(uint32_t)x - 1];
        if (t->n == n && t->off != NO_STRING && memcmp(v->bytes.data + t->off, s, n) == 0)
            return &v->slot[i];
    }
}

bool vocab_reserve(struct vocab *v, size_t n)
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

static bool room_for_id(struct vocab *v, size_t id)
{
    if (!mem_grow((void **)&v->str, &v->cap, id + 1, sizeof(*v->str), MEM_TEXT))
        return false;
    for (; v->n_ids <= id; v->n_ids++)
        v->str[v->n_ids] = (struct vocab_entry){NO_STRING, 0};
    return true;
}

int vocab_add(struct vocab *v, const char *s, size_t n, int64_t id, struct err *e)
{
    size_t off = v->bytes.len;
    uint64_t *slot;
    uint32_t hash;

    if (id < 0 || id > VOCAB_MAX_ID)
        return err_set(e, ERR_INPUT, "the id of token \"%.*s\" is %lld; ids are 0..%d",
                       (int)(n < 60 ? n : 60), s, (long long)id, (int)VOCAB_MAX_ID);
    if (n > UINT32_MAX / 2 || off > UINT32_MAX / 2)
        return err_set(e, ERR_INPUT, "the strings of the vocabulary exceed 2 GiB");
    if (!vocab_reserve(v, v->n + 1))
        return err_nomem(e, "vocabulary");
    if (!room_for_id(v, (size_t)id))
        return err_nomem(e, "vocabulary");
    if (v->str[id].off != NO_STRING) {
        const struct vocab_entry *t = &v->str[id];

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
    v->str[id] = (struct vocab_entry){(uint32_t)off, (uint32_t)n};
    if (*slot)
        v->str[(uint32_t)*slot - 1].off = NO_STRING;
    v->n += *slot == 0;
    *slot = ((uint64_t)hash << 32) | (uint64_t)(id + 1);
    if (n > v->longest)
        v->longest = n;
    return 0;
}

int vocab_add_new(struct vocab *v, const char *s, size_t n, int64_t id, struct err *e)
{
    size_t before = v->n;
    int rc = vocab_add(v, s, n, id, e);

    if (rc == 0 && v->n == before)
        rc = err_set(e, ERR_INPUT, "token %lld \"%.*s\" is already in the vocabulary", (long long)id,
                     (int)(n < 60 ? n : 60), s);
    return rc;
}

void vocab_find_all(const struct vocab *v, struct vocab_query *q, size_t n)
{
    uint32_t hash[VOCAB_BATCH];
    size_t mask = v->n_slots - 1;

    for (size_t i = 0; i < n; i++) {
        q[i].id = VOCAB_NONE;
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
    for (size_t i = 0; i < n && v->n_slots; i++)
        q[i].id = (uint32_t)*slot_of(v, q[i].s, q[i].n, hash[i]) -
                  1; /* a free slot is 0, which becomes VOCAB_NONE */
}

bool vocab_find(const struct vocab *v, const char *s, size_t n, uint32_t *id)
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

bool vocab_str(const struct vocab *v, size_t id, const char **s, size_t *n)
{
    if (id >= v->n_ids || v->str[id].off == NO_STRING)
        return false;
    *s = v->bytes.data + v->str[id].off;
    *n = v->str[id].n;
    return true;
}

bool vocab_find_bytes(const struct vocab *v, uint32_t id[256])
{
    bool all = true;

    for (unsigned c = 0; c < 256; c++) {
        char s[8];

        snprintf(s, sizeof(s), "<0x%02X>", c);
        id[c] = VOCAB_NONE;
        all = vocab_find(v, s, 6, &id[c]) && all;
    }
    return all;
}

/* ---- trie ---- */

/* Makes room for N edges at a load of at most 1/2. */
static bool reserve_edges(struct vocab_trie *x, size_t n)
{
    struct vocab_trie old = *x;
    size_t want = 256;

    while (want < 2 * n)
        want *= 2;
    if (want <= x->n_slots)
        return true;
    x->edge = mem_zalloc(want, sizeof(*x->edge), MEM_TEXT);
    if (!x->edge) {
        x->edge = old.edge;
        return false;
    }
    x->n_slots = want;
    for (size_t k = 0; k < old.n_slots; k++)
        if (old.edge[k])
            *vocab_trie_slot(x, old.edge[k] >> VOCAB_NODE_BITS) = old.edge[k];
    mem_free(old.edge);
    return true;
}

static bool add_node(struct vocab_trie *x)
{
    if (x->n_nodes >> VOCAB_NODE_BITS || !reserve_edges(x, x->n_nodes) ||
        !mem_grow((void **)&x->value, &x->cap, x->n_nodes + 1, sizeof(*x->value), MEM_TEXT))
        return false;
    x->value[x->n_nodes++] = VOCAB_NONE;
    return true;
}

bool vocab_trie_add(struct vocab_trie *x, const char *s, size_t n, uint32_t value)
{
    uint32_t node = 0;

    if (x->n_nodes == 0 && !add_node(x))
        return false;
    for (size_t k = 0; k < n; k++) {
        uint64_t key = ((uint64_t)node << 8) | (unsigned char)s[k];

        if (vocab_trie_step(x, &node, s[k]))
            continue;
        if (!add_node(x))
            return false;
        node = (uint32_t)(x->n_nodes - 1);
        *vocab_trie_slot(x, key) = (key << VOCAB_NODE_BITS) | node;
    }
    if (x->value[node] == VOCAB_NONE)
        x->value[node] = value;
    return true;
}

void vocab_trie_fini(struct vocab_trie *x)
{
    mem_free(x->edge);
    mem_free(x->value);
    *x = (struct vocab_trie){0};
}
