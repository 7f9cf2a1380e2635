/* key_tree.h - the names of an object's properties as a tree of their common prefixes, and expressions for one of these
 * names and the text after it.
 *
 * At a position where any of N names can come, a plain expression has N alternatives, each with a regular expression
 * for one name. The expression of the tree has only a few alternatives at each position. It is built from the last
 * property to the first: each step adds a name, and makes new expressions only on the way from the name to the root.
 */
#ifndef GALLOP_TEXT_GRAMMAR_KEY_TREE_H
#define GALLOP_TEXT_GRAMMAR_KEY_TREE_H

#include "text/grammar/schema/schema_compiler.h"

struct key_tree_node;

struct key_tree {
    struct key_tree_node *node; /* [n]; node 0 is the root */
    size_t n;
    uint32_t *leaf; /* [n_keys] the node of each name */
    size_t n_steps; /* number of expressions that adding every name once makes, at most */
};

/* The expressions of a tree's nodes for one set of names. */
struct key_tree_names {
    uint32_t *at;    /* [n] the expression of each node */
    uint32_t *round; /* [n] the round in which AT[i] was made; if it is not NOW, node i has no names */
    uint32_t now;    /* the current round */
};

/* Builds the tree of the names KEY [n_keys], which are numbers of schema_key(). False: there is an error, or common
 * prefixes are nested too deeply. */
bool key_tree_build(struct schema_compiler *c, struct key_tree *t, const uint32_t *key, size_t n_keys);

/* Initializes X as an empty set of names of T. False: there is an error. */
bool key_tree_names_init(struct schema_compiler *c, const struct key_tree *t, struct key_tree_names *x);

/* Removes all names. */
static inline void key_tree_names_clear(struct key_tree_names *x)
{
    x->now++;
}

/* Adds name I, which the expression AFTER follows. Returns the expression of all names of X. */
uint32_t key_tree_names_add(struct schema_compiler *c, const struct key_tree *t, struct key_tree_names *x,
                            size_t i, uint32_t after);

#endif
