/* tokvocab.h - strings and their ids, both ways. Strings are copied in; ids may have gaps. */
#ifndef GALLOP_TEXT_TOKVOCAB_H
#define GALLOP_TEXT_TOKVOCAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/mem.h"

enum {
    TOKVOCAB_MAX_ID = (1 << 22) - 1, /* larger ids are refused: no vocabulary comes near */
    TOKVOCAB_BATCH = 64,
};

#define TOKVOCAB_NONE UINT32_MAX

struct tokvocab_str {
    uint32_t off, n; /* of bytes; off UINT32_MAX: no string has this id */
};

struct tokvocab {
    struct tokvocab_str *str; /* [n_ids] by id */
    size_t n_ids, cap;        /* n_ids is the largest id + 1 */
    size_t n;                 /* different strings */
    size_t longest;           /* bytes of the longest one */
    struct buf bytes;
    uint64_t *slot; /* hash << 32 | id + 1; 0: free */
    size_t n_slots; /* a power of two, or 0 */
};

void tokvocab_init(struct tokvocab *v);
void tokvocab_fini(struct tokvocab *v); /* a zeroed one is fine */

/* Room for N strings, so that the table need not grow on the way. false: out of memory, which need not be an
 * error yet. */
bool tokvocab_reserve(struct tokvocab *v, size_t n);

/* Stores S under ID. A string that is there already moves to the new id. ERR_INPUT (id too large, or taken by
 * another string; message without a file name) or ERR_NOMEM. */
int tokvocab_add(struct tokvocab *v, const char *s, size_t n, int64_t id, struct err *e);

struct tokvocab_query {
    const char *s;
    size_t n;
    uint32_t id; /* the answer; TOKVOCAB_NONE: not there */
};

/* Answers N queries (at most TOKVOCAB_BATCH) with their cache misses overlapped. */
void tokvocab_find_all(const struct tokvocab *v, struct tokvocab_query *q, size_t n);

bool tokvocab_find(const struct tokvocab *v, const char *s, size_t n, uint32_t *id);

/* The string of ID, borrowed until the next tokvocab_add(); false: none. */
bool tokvocab_str(const struct tokvocab *v, size_t id, const char **s, size_t *n);

#endif
