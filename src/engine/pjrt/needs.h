/* needs.h - compares the memory that weights and caches need with that of a device, and names sizes that fit. */
#ifndef GALLOP_ENGINE_PJRT_NEEDS_H
#define GALLOP_ENGINE_PJRT_NEEDS_H

#include <stddef.h>

#include "base/err.h"

struct needs {
    size_t weight_bytes, cache_bytes;
    /* the caches have these slots and rows, and one scratch slot and one scratch row more */
    size_t n_slots, context;
    size_t memory_bytes, free_bytes; /* the device's memory and its free part; memory_bytes 0: not reported */
};

/* Returns ERR_NOMEM, with the numbers of slots and of rows that fit, if the device reports its memory and has too
 * little. */
int needs_check(const struct needs *n, struct err *e);

/* Appends the memory that N needs to the sentence of E, an error of the device that may be a lack of memory. */
void needs_add(const struct needs *n, struct err *e);

#endif
