/* strmap.c - a hash table with linear probing and a load of at most 2/3. */
#include "base/strmap.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/random.h>
#include <xxhash.h>

#include "base/err.h"

void strmap_init(struct strmap *m, enum mem_tag tag)
{
    *m = (struct strmap){.tag = tag};
}

uint64_t strmap_seed(void)
{
    static _Atomic uint64_t drawn;
    uint64_t s = atomic_load_explicit(&drawn, memory_order_relaxed), none = 0;

    if (s)
        return s;
    /* without random bytes (early in boot), uses the stack's random address */
    if (getrandom(&s, sizeof(s), GRND_NONBLOCK) != sizeof(s))
        s = (uint64_t)(uintptr_t)&s;
    s |= 1;
    return atomic_compare_exchange_strong(&drawn, &none, s) ? s : none;
}

static uint32_t hash_of(const char *key, size_t len)
{
    return (uint32_t)XXH3_64bits_withSeed(key, len, strmap_seed());
}

static struct strmap_slot *find_slot(const struct strmap *m, const char *key, size_t len, uint32_t hash)
{
    size_t mask = m->n_slots - 1, i = hash & mask;

    for (;; i = (i + 1) & mask) {
        struct strmap_slot *s = &m->slot[i];
        if (!s->key || (s->hash == hash && s->len == len && memcmp(s->key, key, len) == 0))
            return s;
    }
}

bool strmap_reserve(struct strmap *m, size_t n)
{
    size_t want = 16;
    struct strmap old = *m;

    while (want < n + n / 2 + 1)
        if (__builtin_mul_overflow(want, (size_t)2, &want))
            return false;
    if (want <= m->n_slots)
        return true;
    m->slot = mem_zalloc(want, sizeof(*m->slot), m->tag);
    if (!m->slot) {
        *m = old;
        return false;
    }
    m->n_slots = want;
    for (size_t i = 0; i < old.n_slots; i++)
        if (old.slot[i].key)
            *find_slot(m, old.slot[i].key, old.slot[i].len, old.slot[i].hash) = old.slot[i];
    mem_free(old.slot);
    return true;
}

static int put_key(struct strmap *m, const char *key, size_t len, uint64_t value, bool overwrite)
{
    struct strmap_slot *s;
    uint32_t hash = hash_of(key, len);

    ASSERT(len <= UINT32_MAX);
    s = m->n_slots ? find_slot(m, key, len, hash) : NULL;
    if (s && s->key) { /* an existing key needs no memory */
        if (overwrite)
            s->value = value;
        return 0;
    }
    if (!strmap_reserve(m, m->n + 1))
        return -1;
    s = find_slot(m, key, len, hash);
    *s = (struct strmap_slot){.key = key, .len = (uint32_t)len, .hash = hash, .value = value};
    m->n++;
    return 1;
}

int strmap_put(struct strmap *m, const char *key, size_t len, uint64_t value)
{
    return put_key(m, key, len, value, false);
}

bool strmap_set(struct strmap *m, const char *key, size_t len, uint64_t value)
{
    return put_key(m, key, len, value, true) >= 0;
}

bool strmap_get(const struct strmap *m, const char *key, size_t len, uint64_t *value)
{
    const struct strmap_slot *s;

    if (m->n == 0)
        return false;
    s = find_slot(m, key, len, hash_of(key, len));
    if (!s->key)
        return false;
    *value = s->value;
    return true;
}

void strmap_fini(struct strmap *m)
{
    mem_free(m->slot);
    *m = (struct strmap){.tag = m->tag};
}
