/* vocabulary.h - the strings of a vocabulary and their ids, both ways; and the added tokens, which are cut
 * out of a text before the model sees it.
 *
 * Strings are copied in; ids may have gaps. Added tokens are two sets, as in the Hugging Face library: those
 * looked for in the text as it came, and those looked for after normalization. In either, the leftmost match
 * wins, and the longest among those that begin at the same place.
 */
#ifndef GALLOP_TEXT_TOK_VOCABULARY_H
#define GALLOP_TEXT_TOK_VOCABULARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "text/tok/tok.h"

enum {
    VOCAB_MAX_ID = (1 << 22) - 1, /* larger ids are refused: no vocabulary comes near */
    VOCAB_BATCH = 64,
};

#define VOCAB_NONE UINT32_MAX

struct vocab_entry {
    uint32_t off, n; /* of bytes; off UINT32_MAX: no string has this id */
};

struct vocab {
    struct vocab_entry *str; /* [n_ids] by id */
    size_t n_ids, cap;       /* n_ids is the largest id + 1 */
    size_t n;                /* different strings */
    size_t longest;          /* bytes of the longest one */
    struct buf bytes;
    uint64_t *slot; /* hash << 32 | id + 1; 0: free */
    size_t n_slots; /* a power of two, or 0 */
};

void vocab_init(struct vocab *v);
void vocab_fini(struct vocab *v); /* a zeroed one is fine */

/* Room for N strings, so that the table need not grow on the way. false: out of memory, which need not be an
 * error yet. */
bool vocab_reserve(struct vocab *v, size_t n);

/* Stores S under ID. A string that is there already moves to the new id. ERR_INPUT (id too large, or taken by
 * another string; message without a file name) or ERR_NOMEM. */
int vocab_add(struct vocab *v, const char *s, size_t n, int64_t id, struct err *e);

struct vocab_query {
    const char *s;
    size_t n;
    uint32_t id; /* the answer; VOCAB_NONE: not there */
};

/* Answers N queries (at most VOCAB_BATCH) with their cache misses overlapped. */
void vocab_find_all(const struct vocab *v, struct vocab_query *q, size_t n);

bool vocab_find(const struct vocab *v, const char *s, size_t n, uint32_t *id);

/* The string of ID, borrowed until the next vocab_add(); false: none. */
bool vocab_str(const struct vocab *v, size_t id, const char **s, size_t *n);

/* A trie of strings: which of them begin at a place of a text? Zeroed = empty. Its edges are a hash table,
 * since a vocabulary of 250 000 pieces has 1.5 million of them. An edge is one number: the node it leaves,
 * its byte, and the node it leads to; 0 is a free slot, for none leads to the root, which is node 0. */
enum { VOCAB_NODE_BITS = 28 };

struct vocab_trie {
    uint64_t *edge; /* [n_slots] a power of two */
    size_t n_slots, n_nodes, cap;
    uint32_t *value; /* [n_nodes] of the string that ends at the node, or VOCAB_NONE */
};

/* Adds S; a string that is there already keeps its value. false: out of memory, or of numbers for nodes. */
bool vocab_trie_add(struct vocab_trie *x, const char *s, size_t n, uint32_t value);
void vocab_trie_fini(struct vocab_trie *x);

/* The slot of the edge that begins with KEY, a node and a byte, or the free one where it would go. */
static inline uint64_t *vocab_trie_slot(const struct vocab_trie *x, uint64_t key)
{
    size_t mask = x->n_slots - 1, i = (size_t)((key * 0x9e3779b97f4a7c15u) >> 29) & mask;

    while (x->edge[i] && x->edge[i] >> VOCAB_NODE_BITS != key)
        i = (i + 1) & mask;
    return &x->edge[i];
}

/* Goes from *NODE along BYTE; false: no string goes on so. X is not empty. */
static inline bool vocab_trie_step(const struct vocab_trie *x, uint32_t *node, char byte)
{
    uint64_t edge = *vocab_trie_slot(x, (uint64_t)*node << 8 | (unsigned char)byte);

    *node = (uint32_t)edge & ((1u << VOCAB_NODE_BITS) - 1);
    return edge != 0;
}

struct tok_added {
    uint32_t id;
    bool special, lstrip, rstrip, single_word, normalized;
};

struct tok_added_patterns { /* of one set */
    struct vocab_trie trie; /* to the index of the token */
    bool begins[256];       /* a pattern begins with this byte */
};

struct tok_added_set { /* zeroed = none */
    struct tok_added *token;
    size_t n, cap;
    struct vocab names; /* content -> id, and back */
    uint32_t *by_id;    /* [n_by_id] index of the token + 1; 0: no added token has this id */
    size_t n_by_id, by_id_cap;
    struct tok_added_patterns raw, normalized;
};

/* One cut of a text: a token, or the stretch in front of the next one (token NULL). */
struct tok_added_cut {
    const struct tok_added *token;
    size_t begin, end;
};

struct tok_added_iter {
    const struct tok_added_set *a;
    const struct tok_added_patterns *patterns;
    const char *s;
    size_t n, at, done; /* at: where to look on; done: how far cuts have been given out */
    bool plain, have;
    struct tok_added_cut next;
};

void tok_added_init(struct tok_added_set *a);
void tok_added_fini(struct tok_added_set *a); /* a zeroed one is fine */

/* Adds a token that reads CONTENT. T.id must be set; a token that is there already stays as it is. An id
 * above VOCAB_MAX_ID or taken by another added token is ERR_INPUT. */
int tok_added_add(struct tok_added_set *a, struct tok_added t, const char *content, size_t n, struct err *e);

/* Makes PATTERN (the content, or its normal form) findable for token I. An empty pattern is not. */
int tok_added_index(struct tok_added_set *a, size_t i, const char *pattern, size_t n, struct err *e);

/* NULL: no added token has this id. */
const struct tok_added *tok_added_get(const struct tok_added_set *a, size_t id);

/* Goes through S. PLAIN: special tokens are left in the text. */
void tok_added_start(struct tok_added_iter *it, const struct tok_added_set *a, bool normalized, bool plain,
                     const char *s, size_t n);

/* false: the end. Empty stretches are left out. */
bool tok_added_next(struct tok_added_iter *it, struct tok_added_cut *cut);

/* Appends N ids; false: out of memory, nothing appended. */
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
