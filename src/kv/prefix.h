/* prefix.h - the index of the prefix cache, which finds the KV blocks that hold the rows of a prefix of
 * tokens.
 *
 * The index is a tree. Each node has the tokens of one block, which follow the tokens of its parent: BLOCK
 * tokens, or fewer in the last block of a sequence. Prefixes also differ by a seed, a hash of everything that
 * rows depend on besides tokens (the owner, the RoPE regime). A match always compares the tokens themselves,
 * so that a collision of hashes never gives a sequence wrong rows. There are two kinds of index:
 *
 *   hash    finds a child by a hash of the tokens of its block and all before it; whole blocks only (as in
 *           vLLM)
 *   radix   finds a child by its first token, with the longest common beginning also within a block (as in
 *           SGLang)
 *
 * A node has one block number for each group of layers; the pool that owns the blocks sets it. Nothing is
 * allocated after prefix_open(); when all nodes are used, no more are added. Not thread safe.
 */
#ifndef GALLOP_KV_PREFIX_H
#define GALLOP_KV_PREFIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum prefix_kind { PREFIX_HASH, PREFIX_RADIX };

enum { PREFIX_MAX_BLOCK = 256 };

#define PREFIX_NONE UINT32_MAX /* no node; as a parent: the root; as a block: none */

/* A 128-bit hash: a seed, or the chain hash of a seed and all tokens up to the end of a node. */
struct prefix_key {
    uint64_t w[2];
};

struct prefix_node {
    uint32_t parent;
    uint32_t next;       /* next node in its bucket, or in the list of free nodes */
    uint32_t n_children; /* children in the tree */
    uint32_t n_holders;  /* sequences that hold the node, to add children */
    uint32_t n_tokens;
    uint32_t n_places; /* number of groups in which the node has a block */
};

struct prefix {
    enum prefix_kind kind;
    size_t block, n_groups, n_nodes, n_used;
    struct prefix_node *node; /* [n_nodes] */
    struct prefix_key *seed;  /* [n_nodes] */
    struct prefix_key *chain; /* [n_nodes] */
    int32_t *token;           /* [n_nodes, block] */
    /* [n_nodes, n_groups] The block with a node's rows in a group. PREFIX_NONE: the pool lacks the rows. */
    uint32_t *place;
    uint32_t *bucket; /* [n_buckets], a power of two */
    size_t n_buckets;
    uint32_t free;
};

bool prefix_kind_of_name(const char *name, enum prefix_kind *kind); /* NAME: "hash" or "radix" */

/* Returns the chain hash (XXH3) of a node with TOKEN [n]. ABOVE is the chain hash of its parent or, if the
 * parent is the root, the seed. */
struct prefix_key prefix_chain(struct prefix_key above, const int32_t *token, size_t n);

int prefix_open(struct prefix *p, enum prefix_kind kind, size_t n_nodes, size_t block, size_t n_groups,
                struct err *e);
void prefix_close(struct prefix *p); /* P may be zeroed */

/* Returns the child of PARENT whose tokens share the longest beginning with TOKEN [n], and that beginning's length in
 * *COMMON. A hash index matches whole blocks only. PREFIX_NONE: no child begins with TOKEN[0], or no block matches. */
uint32_t prefix_find(const struct prefix *p, uint32_t parent, struct prefix_key seed, const int32_t *token,
                     size_t n, size_t *common);

/* Finds or adds the child of PARENT that has exactly the tokens TOKEN [n]. PREFIX_NONE: no node is free, or
 * the index is a hash index and N is less than a block. */
uint32_t prefix_add(struct prefix *p, uint32_t parent, struct prefix_key seed, const int32_t *token,
                    size_t n);

uint32_t prefix_place(const struct prefix *p, uint32_t node, size_t group);
/* Sets the block of NODE in GROUP; PREFIX_NONE removes it. If NODE then has neither block nor child and is not held,
 * frees it, and treats its parent in the same way, and so on. */
void prefix_set_place(struct prefix *p, uint32_t node, size_t group, uint32_t place);
void prefix_hold(struct prefix *p, uint32_t node); /* does nothing for PREFIX_NONE */
void prefix_unhold(struct prefix *p, uint32_t node);

/* For tests: checks the counters of the tree, and that every node is reachable or free. */
int prefix_check(const struct prefix *p, struct err *e);

#endif
