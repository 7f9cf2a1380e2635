/* ids.h - a list of token ids. */
#ifndef GALLOP_TEXT_TOK_IDS_H
#define GALLOP_TEXT_TOK_IDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/mem.h"

/* A growing list of ids, tagged MEM_TEXT. Zeroed = empty. */
struct tok_ids {
    int32_t *id;
    size_t n, cap;
};

void tok_ids_fini(struct tok_ids *ids);

/* Appends N ids. False: out of memory, and nothing was appended. */
static inline bool tok_ids_add(struct tok_ids *to, const uint32_t *id, size_t n)
{
    if (n == 0)
        return true;
    if (to->cap - to->n < n && !mem_grow((void **)&to->id, &to->cap, to->n + n, sizeof(*to->id), MEM_TEXT))
        return false;
    memcpy(to->id + to->n, id, n * sizeof(*id));
    to->n += n;
    return true;
}

#endif
