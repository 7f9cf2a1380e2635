/* prefix.h - which blocks of rows hold which tokens behind which others: the index of the prefix cache.
 *
 * A tree. Each node stands for the tokens of one block (up to BLOCK of them, fewer only in the last of a
 * sequence) behind those of its parent; a root's children also differ in a seed, which stands for all that
 * rows depend on beside tokens (whose they are, rope regime). Every match compares the tokens themselves, so
 * a collision of hashes costs time and never gives one sequence the rows of another. Two ways to find a
 * child:
 *
 *   hash    by a hash of the tokens of its block and all before it; whole blocks only (as vLLM does)
 *   radix   by its first token; the longest common beginning counts, within a block too (as SGLang's tree
 *           does)
 *
 * Where the rows of a node lie is the owner's business: one number for each group of layers. Nothing is
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

/* 128 bits: of a seed, or of a seed and all tokens up to the end of a node. */
struct prefix_key {
    uint64_t w[2];
};

struct prefix_node {
    uint32_t parent;
    uint32_t next;       /* in its bucket, or in the list of free nodes */
    uint32_t n_children; /* of the tree */
    uint32_t n_holders;  /* sequences that will continue it */
    uint32_t n_tokens;
    uint32_t n_places; /* of its places are taken */
};

struct prefix {
    enum prefix_kind kind;
    size_t block, n_groups, n_nodes, n_used;
    struct prefix_node *node; /* [n_nodes] */
    struct prefix_key *seed;  /* [n_nodes] */
    struct prefix_key *chain; /* [n_nodes] */
    int32_t *token;           /* [n_nodes, block] */
    uint32_t *place;          /* [n_nodes, n_groups] PREFIX_NONE: the rows of that group are gone */
    uint32_t *bucket;         /* [n_buckets], a power of two */
    size_t n_buckets;
    uint32_t free;
};

bool prefix_kind_of_name(const char *name, enum prefix_kind *kind); /* "hash", "radix" */

/* XXH3 of what ABOVE stands for and TOKEN [n] behind it. */
struct prefix_key prefix_chain(struct prefix_key above, const int32_t *token, size_t n);

int prefix_open(struct prefix *p, enum prefix_kind kind, size_t n_nodes, size_t block, size_t n_groups,
                struct err *e);
void prefix_close(struct prefix *p); /* a zeroed one is fine */

/* The child of PARENT whose tokens begin like TOKEN [n]; PREFIX_NONE: there is none. *COMMON is how many do:
 * of a hash index always all of a whole block. Of several the one with most, which needs not be whole. */
uint32_t prefix_find(const struct prefix *p, uint32_t parent, struct prefix_key seed, const int32_t *token,
                     size_t n, size_t *common);

/* The child of PARENT with exactly TOKEN [n], which is added where there was none. PREFIX_NONE: no node is
 * left, or N is less than a block in a hash index. */
uint32_t prefix_add(struct prefix *p, uint32_t parent, struct prefix_key seed, const int32_t *token,
                    size_t n);

uint32_t prefix_place(const struct prefix *p, uint32_t node, size_t group);
/* PLACE may be PREFIX_NONE. A node without places, children and holders is gone, and so may be those above
 * it. */
void prefix_set_place(struct prefix *p, uint32_t node, size_t group, uint32_t place);
void prefix_hold(struct prefix *p, uint32_t node); /* PREFIX_NONE is fine */
void prefix_unhold(struct prefix *p, uint32_t node);

/* Tests: the tree is one, every node is reachable or free. */
int prefix_check(const struct prefix *p, struct err *e);

#endif
