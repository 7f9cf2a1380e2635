/* edges.c - records the edges of a state: up to three in the state itself, more in a table of 256 edges. */
#include "text/grammar/automata/edges.h"

#include <string.h>

#include "base/mem.h"

size_t edges_make_table(struct edges_tables *t, struct edges *e)
{
    if (e->table)
        return 0;
    if (t->n == t->cap && !mem_grow((void **)&t->table, &t->cap, t->n + 1, sizeof(*t->table), MEM_TEXT))
        return SIZE_MAX;
    memset(t->table[t->n], 0xff, sizeof(*t->table));
    for (unsigned i = 0; i < e->n; i++)
        t->table[t->n][e->byte[i]] = e->to[i];
    e->table = (uint32_t)++t->n;
    return sizeof(*t->table);
}

size_t edges_set(struct edges_tables *t, struct edges *e, uint8_t byte, uint32_t to)
{
    size_t taken = 0;

    if (!e->table && e->n < EDGES_OWN) {
        e->byte[e->n] = byte;
        e->to[e->n++] = to;
        return 0;
    }
    taken = edges_make_table(t, e);
    if (taken != SIZE_MAX)
        t->table[e->table - 1][byte] = to;
    return taken;
}

void edges_fini(struct edges_tables *t)
{
    mem_free(t->table);
    *t = (struct edges_tables){0};
}
