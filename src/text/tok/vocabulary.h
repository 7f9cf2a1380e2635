/* vocabulary.h - maps strings to ids and ids to strings; and a trie of strings.
 *
 * A vocabulary copies its strings. Ids may have gaps.
 */
#ifndef GALLOP_TEXT_TOK_VOCABULARY_H
#define GALLOP_TEXT_TOK_VOCABULARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum {
    VOCAB_MAX_ID = (1 << 22) - 1, /* larger ids are refused; real vocabularies are far smaller */
    VOCAB_BATCH = 64,             /* maximum number of queries of vocab_find_all() */
};

#define VOCAB_NONE UINT32_MAX

struct vocab_entry {
    uint32_t off, n; /* offset and length in bytes; OFF UINT32_MAX: no string has this id */
};

struct vocab {
    struct vocab_entry *str; /* [n_ids] by id */
    size_t n_ids, cap;       /* N_IDS: the largest id + 1 */
    size_t n;                /* number of different strings */
    size_t longest;          /* bytes of the longest string */
    struct buf bytes;        /* the strings one after the other */
    uint64_t *slot;          /* [n_slots] hash << 32 OR id + 1; 0: a free slot */
    size_t n_slots;          /* a power of two, or 0 */
};

void vocab_init(struct vocab *v);
void vocab_fini(struct vocab *v); /* V may be zeroed */

/* Makes room for N strings, so that the table need not grow. False: no memory, which callers may ignore. */
bool vocab_reserve(struct vocab *v, size_t n);

/* Stores S under ID. If V already has S, S moves to the new id. ERR_INPUT (the message has no file name): the
 * id is too large, or another string has it. */
int vocab_add(struct vocab *v, const char *s, size_t n, int64_t id, struct err *e);

/* Stores S as vocab_add() does, but it is ERR_INPUT if V already has S. */
int vocab_add_new(struct vocab *v, const char *s, size_t n, int64_t id, struct err *e);

struct vocab_query {
    const char *s;
    size_t n;
    uint32_t id; /* the result; VOCAB_NONE: not found */
};

/* Runs N queries (at most VOCAB_BATCH), so that their cache misses overlap. */
void vocab_find_all(const struct vocab *v, struct vocab_query *q, size_t n);

bool vocab_find(const struct vocab *v, const char *s, size_t n, uint32_t *id);

/* Finds the ids of the byte pieces <0x00> ... <0xFF>, or VOCAB_NONE. False: V lacks some of them. */
bool vocab_find_bytes(const struct vocab *v, uint32_t id[256]);

/* Finds the string of ID, borrowed until the next vocab_add(). False: no string has this id. */
bool vocab_str(const struct vocab *v, size_t id, const char **s, size_t *n);

/* A trie, which finds the strings that begin at a position of a text. Zeroed = empty. Its edges are in a hash
 * table, because a vocabulary of 250 000 pieces has 1.5 million edges. An edge is one number: (source node,
 * byte, target node). 0 is a free slot: no edge leads to the root, which is node 0. */
enum { VOCAB_NODE_BITS = 28 };

struct vocab_trie {
    uint64_t *edge; /* [n_slots] hash table; n_slots is a power of two */
    size_t n_slots, n_nodes, cap;
    uint32_t *value; /* [n_nodes] the value of the string that ends at the node, or VOCAB_NONE */
};

/* Adds S. If X already has S, its value does not change. False: out of memory or of node numbers. */
bool vocab_trie_add(struct vocab_trie *x, const char *s, size_t n, uint32_t value);
void vocab_trie_fini(struct vocab_trie *x);

/* Returns the slot of the edge with source node and byte KEY, or the free slot for it. */
static inline uint64_t *vocab_trie_slot(const struct vocab_trie *x, uint64_t key)
{
    size_t mask = x->n_slots - 1, i = (size_t)((key * 0x9e3779b97f4a7c15u) >> 29) & mask;

    while (x->edge[i] && x->edge[i] >> VOCAB_NODE_BITS != key)
        i = (i + 1) & mask;
    return &x->edge[i];
}

/* Moves *NODE along the edge BYTE. False: the node has no such edge. X must not be empty. */
static inline bool vocab_trie_step(const struct vocab_trie *x, uint32_t *node, char byte)
{
    uint64_t edge = *vocab_trie_slot(x, ((uint64_t)*node << 8) | (unsigned char)byte);

    *node = (uint32_t)edge & ((1u << VOCAB_NODE_BITS) - 1);
    return edge != 0;
}

#endif
