/* tree.h - a template between its text and its rendering: tokens, the tree they are parsed into, and the
 * frames in which a rendering keeps its variables.
 *
 * Names are interned: every name of a template has a number, and a frame holds pairs of number and value.
 * A variable is looked for in the frames from the innermost one outwards, then outside. A loop, a macro, a
 * call, a filter block, a set block and a generation block have a frame of their own; `if` has none.
 */
#ifndef GALLOP_TEXT_JINJA_TREE_H
#define GALLOP_TEXT_JINJA_TREE_H

#include "base/arena.h"
#include "text/jinja/value.h"

/* clang-format off */
/* A token of one character is that character. */
enum {
    END_OF_TEMPLATE = 256, DATA, PRINT_BEGIN, PRINT_END, TAG_BEGIN, TAG_END, NAME, TEXT, WHOLE, DECIMAL,
    OVER_FLOOR, POWER_OF, IS_EQUAL, IS_UNEQUAL, IS_GREATER_EQUAL, IS_LESS_EQUAL
};

enum node_kind {
    /* expressions */
    CONSTANT, VARIABLE, BLOCK_TEXT, TUPLE_OF, LIST_OF, DICT_OF, CALCULATION, SIGN, NOT, AND, OR, COMPARISON,
    CONDITIONAL, ATTRIBUTE, ELEMENT, SLICE, CALL, FILTERED, TESTED,
    /* statements */
    OUTPUT_DATA, OUTPUT, IF, FOR, SET, SET_BLOCK, MACRO_BLOCK, CALL_BLOCK, FILTER_BLOCK, GENERATION, BREAK,
    CONTINUE,
    /* the left side of an assignment to an attribute */
    NAMESPACE_TARGET
};
/* clang-format on */

struct token {
    int kind;
    uint32_t line;
    struct value value; /* of DATA, NAME and literals */
};

struct nodes {
    struct node **v;
    size_t n, room;
};

struct named {
    struct value name;
    struct node *value;
};

struct call {
    struct node *of; /* what is called, filtered or tested */
    struct value name;
    const struct row *row; /* of the filter or test; NULL: there is none of this name */
    struct nodes arguments;
    struct named *keywords;
    size_t n_keywords;
    struct node *list, *dict; /* of *list and **dict */
};

enum { USES_VARARGS = 1, USES_KWARGS = 2, USES_CALLER = 4 };

struct macro_node {
    struct value name; /* none: of a call block */
    uint32_t number;
    struct nodes parameters; /* VARIABLEs */
    struct nodes defaults;   /* of the last parameters */
    struct nodes body;
    struct node *call; /* of a call block */
    unsigned uses;     /* of the names varargs, kwargs and caller */
};

/* What for, if, set and filter consist of; the members that one has no use for are NULL. */
struct statement {
    struct node *target; /* of for and set */
    struct node *value;  /* of for: what is walked; of a block: its text, through filters if there are any */
    struct node *test;   /* of for and if; the last branch of an if may have none */
    struct node *next;   /* the next branch of an if */
    struct nodes body, otherwise;
};

/* The parts of a node are its operands in their order. Of CONDITIONAL: the test, and what it chooses between;
 * of SLICE: the object, start, stop and step; of COMPARISON: both sides, and the next one of a chain, which
 * compares the right side of this one. */
struct node {
    uint8_t kind; /* enum node_kind */
    uint8_t op;   /* enum operation or comparison, or the sign */
    uint32_t line;
    union {
        struct value constant; /* also of OUTPUT_DATA */
        struct {
            struct value name, attribute;
            uint32_t number;
        } variable;
        struct nodes items;
        struct node *part[4];
        struct call *call;
        struct macro_node *macro;
        struct statement *statement;
    };
};

struct jinja {
    char *name;
    struct arena arena;
    struct nodes body;
    struct dict *names;                     /* to their numbers, which count from 0 */
    uint32_t loop, varargs, kwargs, caller; /* numbers of these names */
};

struct variable {
    uint32_t name;
    struct value value;
};

struct frame {
    struct frame *outer;
    struct variable *variables;
    size_t count, room;
};

struct macro {
    const struct macro_node *node;
    struct frame *frame; /* where it was defined */
};

struct loop {
    struct generator *source;
    struct value over, before, current, after;
    int64_t index0;
    size_t length;
    bool has_length;
};

/* lex.c: the tokens of a template, which live in the arena of R; *n is 0 after an error. */
struct token *jinja_lex(struct rendering *r, const char *src, size_t len, size_t *n);
const char *jinja_token_name(const struct token *t);

/* parse.c: fills the body and the names of J. */
void jinja_parse_tokens(struct rendering *r, struct jinja *j, const struct token *tokens, size_t n);

/* expression.c */
struct value jinja_evaluate(struct rendering *r, const struct node *n);
/* A call, filter or test; CALLER, unless missing, is one more argument of this name. */
struct value jinja_evaluate_call(struct rendering *r, const struct node *n, struct value caller);

/* statement.c */
enum flow { GO_ON, BREAK_LOOP, CONTINUE_LOOP };
enum flow jinja_execute(struct rendering *r, const struct nodes *body);
struct frame *jinja_frame_open(struct rendering *r, struct frame *outer); /* NULL after an error */
struct value jinja_variable(struct rendering *r, uint32_t name);          /* MISSING: it has no value */
struct value jinja_call_macro(struct rendering *r, const struct macro *m, const struct arguments *a);
struct value jinja_loop_attribute(struct rendering *r, struct loop *l, struct value name);
size_t jinja_loop_length(struct rendering *r, struct loop *l);

#endif
