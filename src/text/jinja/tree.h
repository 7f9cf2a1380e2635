/* tree.h - the syntax tree of a parsed template. */
#ifndef GALLOP_TEXT_JINJA_TREE_H
#define GALLOP_TEXT_JINJA_TREE_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "text/jinja/value/value.h"

struct builtin;

/* clang-format off */
enum tree_kind {
    /* expressions */
    TREE_CONSTANT, TREE_VARIABLE, TREE_BLOCK_TEXT, TREE_TUPLE, TREE_LIST, TREE_DICT, TREE_CALCULATION,
    TREE_SIGN, TREE_NOT, TREE_AND, TREE_OR, TREE_COMPARISON, TREE_CONDITIONAL, TREE_ATTRIBUTE, TREE_ELEMENT,
    TREE_SLICE, TREE_CALL, TREE_FILTER, TREE_TEST,
    /* statements */
    TREE_DATA, TREE_OUTPUT, TREE_IF, TREE_FOR, TREE_SET, TREE_SET_BLOCK, TREE_MACRO_BLOCK, TREE_CALL_BLOCK,
    TREE_FILTER_BLOCK, TREE_GENERATION, TREE_BREAK, TREE_CONTINUE,
    /* the left side of an assignment to an attribute of a namespace */
    TREE_NAMESPACE_TARGET
};
/* clang-format on */

struct tree_nodes {
    struct tree_node **v;
    size_t n, room;
};

struct tree_named {
    struct value name;
    struct tree_node *value;
};

/* A call, filter or test. */
struct tree_call {
    struct tree_node *of; /* the operand that is called, filtered or tested */
    struct value name;
    const struct builtin *row; /* the filter or test; NULL: a call, or an unknown name */
    struct tree_nodes arguments;
    struct tree_named *keywords;
    size_t n_keywords;
    struct tree_node *list, *dict; /* the operands of *list and **dict, or NULL */
};

/* The special names that a macro uses; its calls must set them. */
enum { TREE_USES_VARARGS = 1, TREE_USES_KWARGS = 2, TREE_USES_CALLER = 4 };

struct tree_macro {
    struct value name;            /* None for a call block */
    uint32_t number;              /* the number of NAME */
    struct tree_nodes parameters; /* TREE_VARIABLE nodes */
    struct tree_nodes defaults;   /* the defaults of the last parameters */
    struct tree_nodes body;
    struct tree_node *call; /* call block: the call that gets this macro as its caller; else NULL */
    unsigned uses;          /* TREE_USES_* */
};

/* The parts of a for, if, set or filter statement. Parts that a statement does not have are NULL. */
struct tree_statement {
    struct tree_node *target; /* for, set: the assigned variables */
    /* For: the value to iterate over; set: the value; blocks: the filters, applied to a TREE_BLOCK_TEXT. */
    struct tree_node *value;
    struct tree_node *test; /* for, if: the condition; NULL in an else branch */
    struct tree_node *next; /* if: the next branch (elif or else) */
    struct tree_nodes body, otherwise;
};

/* A node. PART has its operands in order. CONDITIONAL: the test and the two choices. SLICE: the object,
 * start, stop and step. COMPARISON: both sides, then the next comparison of a chain (a < b < c), whose left
 * side is the right side of this comparison. */
struct tree_node {
    uint8_t kind; /* enum tree_kind */
    uint8_t op;   /* enum calculate_op, enum compare_how, or the sign as a character */
    uint32_t line;
    union {
        struct value constant; /* also the text of TREE_DATA */
        struct {
            struct value name, attribute;
            uint32_t number;
        } variable;
        struct tree_nodes items;
        struct tree_node *part[4];
        struct tree_call *call;
        struct tree_macro *macro;
        struct tree_statement *statement;
    };
};

struct jinja {
    char *name;
    struct arena arena;
    struct tree_nodes body;
    struct value_dict *names;               /* name -> number, counted from 0 */
    uint32_t loop, varargs, kwargs, caller; /* the numbers of these names */
};

#endif
