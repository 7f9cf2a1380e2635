/* tokids.h - appending to struct tok_ids; for the files behind tok.h. */
#ifndef GALLOP_TEXT_TOKIDS_H
#define GALLOP_TEXT_TOKIDS_H

#include <string.h>

#include "base/mem.h"
#include "text/tok.h"

/* Appends N ids; false: out of memory, nothing appended. */
static inline bool tokids_add(struct tok_ids *to, const uint32_t *id, size_t n)
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
