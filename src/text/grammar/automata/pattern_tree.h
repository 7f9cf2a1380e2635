/* pattern_tree.h - the syntax tree of a regular expression. Its leaves are expressions of regex.h. */
#ifndef GALLOP_TEXT_GRAMMAR_PATTERN_TREE_H
#define GALLOP_TEXT_GRAMMAR_PATTERN_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "text/grammar/automata/pattern.h"

enum pattern_kind {
    PATTERN_EMPTY,    /* the empty text */
    PATTERN_ONE,      /* one character, as the regular expression `a` */
    PATTERN_SEQUENCE, /* a sequence of members; `a` is the last member */
    PATTERN_CHOICE,   /* alternatives; `a` is the last alternative */
    PATTERN_REPEAT,   /* part `a`, `least` to `most` times */
    PATTERN_START,
    PATTERN_END,
    PATTERN_BOUNDARY,  /* \b */
    PATTERN_INSIDE,    /* \B */
    PATTERN_AHEAD,     /* positive look-ahead: a match of part `a` follows */
    PATTERN_NOT_AHEAD, /* negative look-ahead: no match of part `a` follows */
};

/* The assertions that a part contains. */
enum pattern_asks {
    PATTERN_ASKS_NOTHING,
    PATTERN_ASKS_EDGES,   /* ^ or $ only */
    PATTERN_ASKS_CONTEXT, /* word boundaries or look-ahead */
};

/* A node of the tree. Members of a sequence or choice are linked from the last to the first. */
struct pattern_part {
    uint8_t kind, asks;
    bool may_be_empty; /* nullable: matches the empty text */
    bool leads;        /* all earlier members of the sequence are nullable and have no assertions */
    uint32_t a;
    uint32_t before; /* index of the previous member; 0: this is the first member */
    uint32_t least, most;
    uint32_t at; /* offset of the part in the pattern */
};

struct pattern_tree {
    struct pattern_part *part; /* [n] nodes; index 0 is unused */
    size_t n, cap;
    uint32_t root;
};

/* Parses TEXT[n]. Errors are those of pattern_read(). */
int pattern_tree_read(struct pattern_tree *tree, struct regex_store *s, const char *text, size_t n,
                      pattern_alphabet *alphabet, enum pattern_dialect dialect, struct err *e);
void pattern_tree_fini(struct pattern_tree *tree);

#endif
