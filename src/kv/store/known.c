/* known.c - a hash table of 64 bits per key with open addressing, replaced as a whole when it grows. */
#include "kv/store/known.h"

#include <sched.h>

#include "base/mem.h"

enum { LEAST = 1024, EMPTY = 0, GONE = 1 };

struct known_table {
    size_t n_cells; /* a power of two */
    size_t n_used;  /* cells that are not empty */
    _Atomic uint64_t cell[];
};

static struct known_table *new_table(size_t n_cells)
{
    struct known_table *t;
    size_t bytes;

    if (__builtin_mul_overflow(n_cells, sizeof(t->cell[0]), &bytes) ||
        __builtin_add_overflow(bytes, sizeof(*t), &bytes) || !(t = mem_zalloc(1, bytes, MEM_KV)))
        return NULL;
    t->n_cells = n_cells;
    return t;
}

int known_open(struct known *k, struct err *e)
{
    struct known_table *t = new_table(LEAST);

    *k = (struct known){.table = NULL};
    atomic_store(&k->table, t);
    return t ? 0 : err_nomem(e, "the keys of a KV store");
}

void known_close(struct known *k)
{
    mem_free(atomic_load(&k->table));
    *k = (struct known){.table = NULL};
}

static uint64_t mark_of(struct prefix_key key)
{
    return key.w[0] > GONE ? key.w[0] : key.w[0] + 2;
}

/* Returns the cell with MARK, 64 bits of a key, or an empty cell for it (linear probing). At most half of the cells are
 * used. */
static _Atomic uint64_t *cell_of(struct known_table *t, uint64_t mark)
{
    for (size_t at = mark & (t->n_cells - 1);; at = (at + 1) & (t->n_cells - 1)) {
        uint64_t found = atomic_load_explicit(&t->cell[at], memory_order_relaxed);

        if (found == mark || found == EMPTY)
            return &t->cell[at];
    }
}

bool known_has(struct known *k, struct prefix_key key)
{
    uint64_t mark = mark_of(key);
    bool has;

    atomic_fetch_add(&k->n_readers, 1);
    has = atomic_load_explicit(cell_of(atomic_load(&k->table), mark), memory_order_relaxed) == mark;
    atomic_fetch_sub(&k->n_readers, 1);
    return has;
}

/* Replaces the table of K by T, and frees the old table as soon as no thread reads it. */
static void swap(struct known *k, struct known_table *t)
{
    struct known_table *old = atomic_exchange(&k->table, t);

    while (atomic_load(&k->n_readers))
        sched_yield();
    mem_free(old);
}

static bool grow(struct known *k)
{
    struct known_table *old = atomic_load(&k->table), *t = new_table(2 * old->n_cells);

    if (!t)
        return false;
    for (size_t i = 0; i < old->n_cells; i++)
        if (old->cell[i] > GONE) {
            *cell_of(t, old->cell[i]) = old->cell[i];
            t->n_used++;
        }
    swap(k, t);
    return true;
}

void known_add(struct known *k, struct prefix_key key)
{
    struct known_table *t = atomic_load(&k->table);
    _Atomic uint64_t *cell = cell_of(t, mark_of(key));

    if (*cell != EMPTY)
        return;
    if (2 * (t->n_used + 1) > t->n_cells) {
        if (!grow(k))
            return;
        t = atomic_load(&k->table);
        cell = cell_of(t, mark_of(key));
    }
    *cell = mark_of(key);
    t->n_used++;
}

void known_remove(struct known *k, struct prefix_key key)
{
    _Atomic uint64_t *cell = cell_of(atomic_load(&k->table), mark_of(key));

    if (*cell != EMPTY)
        *cell = GONE;
}

void known_replace(struct known *k, struct known *fresh)
{
    swap(k, atomic_load(&fresh->table));
    *fresh = (struct known){.table = NULL};
}
