/* prefix.h - the index of the prefix cache: which KV blocks hold the rows of which tokens after which others.
 *
 * A tree. Each node stands for the tokens of one block (up to BLOCK tokens, fewer only in the last one of a
 * sequence) after those of its parent. The children of the root also differ in a seed, a hash of all that
 * rows depend on besides tokens (their owner, the RoPE regime). A match always compares the tokens
 * themselves, so that a collision of hashes costs time and never gives a sequence the rows of another. There
 * are two ways to find a child:
 *
 *   hash    by a hash of the tokens of its block and all before it; whole blocks only (as in vLLM)
 *   radix   by its first token; the longest common beginning counts, also within a block (as in SGLang)
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

#define PREFIX_NONE UINT32_MAX /* no node; as a parent: the root */

/* A hash of 128 bits: of a seed, or of a seed and all tokens up to the end of a node. */
struct prefix_key {
    uint64_t w[2];
};

struct prefix_node {
    uint32_t parent;
    uint32_t next;       /* next in its bucket, or in the list of free nodes */
    uint32_t n_children; /* children in the tree */
    uint32_t n_holders;  /* sequences that will add children */
    uint32_t n_tokens;
    uint32_t n_places; /* groups in which it has a block */
};

struct prefix {
    enum prefix_kind kind;
    size_t block, n_groups, n_nodes, n_used;
    struct prefix_node *node; /* [n_nodes] */
    struct prefix_key *seed;  /* [n_nodes] */
    struct prefix_key *chain; /* [n_nodes] */
    int32_t *token;           /* [n_nodes, block] */
    /* [n_nodes, n_groups] The block with its rows. PREFIX_NONE: the rows of that group are not in the
     * pool. */
    uint32_t *place;
    uint32_t *bucket; /* [n_buckets], a power of two */
    size_t n_buckets;
    uint32_t free;
};

bool prefix_kind_of_name(const char *name, enum prefix_kind *kind); /* "hash", "radix" */

/* The XXH3 hash of ABOVE followed by TOKEN [n]. */
struct prefix_key prefix_chain(struct prefix_key above, const int32_t *token, size_t n);

int prefix_open(struct prefix *p, enum prefix_kind kind, size_t n_nodes, size_t block, size_t n_groups,
                struct err *e);
void prefix_close(struct prefix *p); /* a zeroed one is fine */

/* The child of PARENT whose tokens share the longest beginning with TOKEN [n]. *COMMON is the length of that;
 * a hash index matches whole blocks only. PREFIX_NONE: no child shares anything. */
uint32_t prefix_find(const struct prefix *p, uint32_t parent, struct prefix_key seed, const int32_t *token,
                     size_t n, size_t *common);

/* Finds the child of PARENT with exactly TOKEN [n], or adds it. PREFIX_NONE: no node is free, or N is less
 * than a block in a hash index. */
uint32_t prefix_add(struct prefix *p, uint32_t parent, struct prefix_key seed, const int32_t *token,
                    size_t n);

uint32_t prefix_place(const struct prefix *p, uint32_t node, size_t group);
/* Sets the block of NODE in GROUP, or PREFIX_NONE. A node that has no blocks, children and holders is freed,
 * and then its ancestors likewise. */
void prefix_set_place(struct prefix *p, uint32_t node, size_t group, uint32_t place);
void prefix_hold(struct prefix *p, uint32_t node); /* PREFIX_NONE is fine */
void prefix_unhold(struct prefix *p, uint32_t node);

/* Tests: checks that the tree is one, and that every node is reachable or free. */
int prefix_check(const struct prefix *p, struct err *e);

#endif
