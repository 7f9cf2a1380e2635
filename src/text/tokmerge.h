/* tokmerge.h - merges given as pairs of strings become rules between ids. */
#ifndef GALLOP_TEXT_TOKMERGE_H
#define GALLOP_TEXT_TOKMERGE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/mem.h"
#include "text/bpe.h"
#include "text/tokvocab.h"

struct tokmerge {
    struct bpe *bpe;                            /* borrowed: gets the rules, in the order of ranks */
    const struct tokvocab *vocab;               /* borrowed */
    size_t skip;                                /* bytes of a subword prefix that the right part loses */
    struct tokvocab_query part[TOKVOCAB_BATCH]; /* left and right by turns */
    size_t n;                                   /* parts that wait */
    struct buf whole;
    uint32_t rank, last; /* of the next merge; the last result */
};

void tokmerge_init(struct tokmerge *m, struct bpe *b, const struct tokvocab *v, size_t skip);
void tokmerge_fini(struct tokmerge *m);

/* Adds one merge; the strings must stay until tokmerge_end(). ERR_INPUT (without a file name) when a part or
 * the result of an earlier merge is not in the vocabulary, or ERR_NOMEM. */
int tokmerge_add(struct tokmerge *m, const char *left, size_t n_left, const char *right, size_t n_right,
                 struct err *e);

/* Adds what waits. */
int tokmerge_end(struct tokmerge *m, struct err *e);

#endif
