/* tokadded.h - added tokens: strings that are cut out of a text before the model sees it.
 *
 * Two sets, as in the Hugging Face library: those looked for in the text as it came, and those looked for
 * after normalisation. In either, the leftmost match wins, and the longest among those that begin at the same
 * place.
 */
#ifndef GALLOP_TEXT_TOKADDED_H
#define GALLOP_TEXT_TOKADDED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "text/tokvocab.h"

struct tokadded_token {
    uint32_t id;
    bool special, lstrip, rstrip, single_word, normalized;
};

struct tokadded_trie { /* of the patterns of one set */
    struct tokadded_node *node;
    size_t n_nodes, cap;
    uint32_t root[256]; /* the node of each first byte; 0: none */
};

struct tokadded { /* zeroed = none */
    struct tokadded_token *token;
    size_t n, cap;
    struct tokvocab names; /* content -> id, and back */
    uint32_t *by_id;       /* [n_by_id] index of the token + 1; 0: no added token has this id */
    size_t n_by_id, by_id_cap;
    struct tokadded_trie raw, normalized;
};

/* One cut of a text: a token, or the stretch in front of the next one (token NULL). */
struct tokadded_cut {
    const struct tokadded_token *token;
    size_t begin, end;
};

struct tokadded_iter {
    const struct tokadded *a;
    const struct tokadded_trie *trie;
    const char *s;
    size_t n, at, done; /* at: where to look on; done: how far cuts have been given out */
    bool plain, have;
    struct tokadded_cut next;
};

void tokadded_init(struct tokadded *a);
void tokadded_fini(struct tokadded *a); /* a zeroed one is fine */

/* Adds a token that reads CONTENT. T.id must be set; a token that is there already stays as it is. An id
 * above TOKVOCAB_MAX_ID or taken by another added token is ERR_INPUT. */
int tokadded_add(struct tokadded *a, struct tokadded_token t, const char *content, size_t n, struct err *e);

/* Makes PATTERN (the content, or its normal form) findable for token I. An empty pattern is not. */
int tokadded_index(struct tokadded *a, size_t i, const char *pattern, size_t n, struct err *e);

const struct tokadded_token *tokadded_get(const struct tokadded *a,
                                          size_t id); /* NULL: no added token has this id */

/* Goes through S. PLAIN: special tokens are left in the text. */
void tokadded_start(struct tokadded_iter *it, const struct tokadded *a, bool normalized, bool plain,
                    const char *s, size_t n);
bool tokadded_next(struct tokadded_iter *it,
                   struct tokadded_cut *cut); /* false: the end; empty stretches are left out */

#endif
