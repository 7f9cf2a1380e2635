/* pattern_tree.h - the syntax of a regular expression as a tree, whose sets are already those of a store. */
#ifndef GALLOP_TEXT_GRAMMAR_PATTERN_TREE_H
#define GALLOP_TEXT_GRAMMAR_PATTERN_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "text/grammar/automata/pattern.h"

enum pattern_kind {
    PATTERN_EMPTY,    /* the empty text */
    PATTERN_ONE,      /* one character: the regular expression `a` */
    PATTERN_SEQUENCE, /* its members, of which `a` is the last */
    PATTERN_CHOICE,   /* the same */
    PATTERN_REPEAT,   /* part `a`, `least` to `most` times */
    PATTERN_START,
    PATTERN_END,
    PATTERN_BOUNDARY,  /* \b */
    PATTERN_INSIDE,    /* \B */
    PATTERN_AHEAD,     /* what follows begins with part `a` */
    PATTERN_NOT_AHEAD, /* what follows does not */
};

/* What a part asks of the text around it. */
enum pattern_asks {
    PATTERN_ASKS_NOTHING,
    PATTERN_ASKS_EDGES,   /* has ^ or $ */
    PATTERN_ASKS_CONTEXT, /* has word boundaries or look-ahead */
};

struct pattern_part {
    uint8_t kind, asks;
    bool may_be_empty; /* matches the empty text wherever it stands */
    bool leads;        /* all members before it may be empty, and ask nothing */
    uint32_t a;
    uint32_t before; /* the member before it; 0: it is the first */
    uint32_t least, most;
    uint32_t at; /* offset in the pattern */
};

struct pattern_tree {
    struct pattern_part *part; /* [n] part 0 is unused */
    size_t n, cap;
    uint32_t root;
};

/* Parses TEXT[n]. Errors are those of pattern_read(). */
int pattern_tree_read(struct pattern_tree *tree, struct regex_store *s, const char *text, size_t n,
                      pattern_alphabet *alphabet, enum pattern_dialect dialect, struct err *e);
void pattern_tree_fini(struct pattern_tree *tree);

#endif
