/* jinja_tree.h - the template itself: its tree, its blocks, and the memory they live in. */
#ifndef GALLOP_TEXT_JINJA_TREE_H
#define GALLOP_TEXT_JINJA_TREE_H

#include "text/jinja_ast.h"

struct jinja {
    struct arena arena;
    char *name;
    struct jnlist body;
    struct jfn fn;
    struct jscope scope;
    bool uses_self;
    struct jref self;
    struct jn **block; /* JN_BLOCK, by index */
    size_t n_blocks;
};

/* self.NAME: the block of that name as a JV_BLOCK, or missing. */
struct jv jinja_tree_block(struct jrun *r, struct jv name);

#endif
