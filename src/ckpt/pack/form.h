/* form.h - the binary parts of a packed checkpoint: the first page of each file, and the end of the first
 * file. Numbers are little-endian. */
#ifndef GALLOP_CKPT_PACK_FORM_H
#define GALLOP_CKPT_PACK_FORM_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "ckpt/pack/pack.h"

enum { PACK_PIECE = 1 << 20 }; /* bytes that are hashed separately by pack_sum() */

#define PACK_MAGIC      "gallop packed checkpoint\n"
#define PACK_TAIL_MAGIC "end of gallop packed checkpoint" /* terminated by NUL */

struct pack_tail {
    uint64_t at, bytes, sum; /* offset, size and XXH3-64 hash of the directory */
    uint64_t own_sum;        /* XXH3-64 hash of the fields above */
    char magic[32];
};

_Static_assert(sizeof(struct pack_tail) == 64, "the end of a packed checkpoint has 64 bytes");

/* Writes the first page of file PART to PAGE. */
static inline void pack_head(char page[PACK_ALIGN], size_t part)
{
    memset(page, 0, PACK_ALIGN);
    snprintf(page, PACK_ALIGN, PACK_MAGIC "version %d\npart %zu\n", PACK_VERSION, part);
}

#endif
