/* jinja_ast.h - a parsed template as a tree. Immutable once jinja_scope.c has told every name where its value
 * will be.
 *
 * Variables live in numbered slots of activations. A function (struct jfn) is what Jinja would compile to a
 * Python function: the template, a macro, the body of a call block, a recursive loop, the condition of a
 * loop, a block. Running it makes an activation, whose parent is the activation its definition ran in. Scopes
 * within a function (loops, with) load some slots when they are entered.
 */
#ifndef GALLOP_TEXT_JINJA_AST_H
#define GALLOP_TEXT_JINJA_AST_H

#include "text/jinja_cmp.h"
#include "text/jinja_num.h"
#include "text/jinja_val.h"

enum jn_kind {
    /* expressions */
    JN_CONST,
    JN_NAME,
    JN_TUPLE,
    JN_LIST,
    JN_DICT,
    JN_SIGN, /* op: '-' or '+' */
    JN_NOT,
    JN_BINARY, /* op: enum jop */
    JN_AND,
    JN_OR,
    JN_CONCAT,
    JN_COMPARE,
    JN_COND,
    JN_ATTR,
    JN_ITEM,
    JN_SLICE,
    JN_CALL,
    JN_FILTER,
    JN_TEST,
    JN_NSREF, /* ns.attr as a target */
    /* statements */
    JN_DATA,
    JN_OUTPUT,
    JN_IF,
    JN_FOR,
    JN_SET,
    JN_SET_BLOCK,
    JN_MACRO,
    JN_CALL_BLOCK,
    JN_GENERATION,
    JN_FILTER_BLOCK,
    JN_WITH,
    JN_AUTOESCAPE,
    JN_BLOCK,
    JN_BREAK,
    JN_CONTINUE,
    JN_UNAVAILABLE, /* include, import, extends: there are no other templates */
};

enum jescape { JESCAPE_NO, JESCAPE_YES, JESCAPE_DYNAMIC }; /* what {% autoescape %} around a place says */

/* Where a variable is: HOPS activations out, then the slot. */
struct jref {
    uint32_t hops, slot;
};

enum jload_kind { JLOAD_UNDEFINED, JLOAD_RESOLVE, JLOAD_ALIAS };

/* What happens to one slot when a scope is entered: unset, looked up in the context, or copied from
 * another. */
struct jload {
    enum jload_kind kind;
    uint32_t slot;
    struct jref from; /* JLOAD_ALIAS */
    struct jv name;   /* JLOAD_RESOLVE */
};

struct jscope {
    struct jload *load;
    size_t n;
};

struct jfn {
    struct jfn *parent;
    uint32_t n_slots;
    bool captured; /* something made while it runs may still refer to its activation afterwards */
};

struct jn;

struct jnlist {
    struct jn **v;
    size_t n;
};

/* One argument by name. */
struct jnkw {
    struct jv name;
    struct jn *value;
};

struct jncall {
    struct jnlist args;
    struct jnkw *kw;
    size_t n_kw;
    struct jn *star, *star_star; /* NULL: none */
};

struct jn_if {
    struct jn *test;
    struct jnlist body;
    struct jnlist elifs; /* of JN_IF, of which test and body count */
    struct jnlist otherwise;
};

struct jn_for {
    struct jn *target, *over, *test; /* test NULL: none */
    struct jn *test_target;          /* the target as the condition's function sees it */
    struct jnlist body, otherwise;
    bool recursive, extended; /* extended: the variable `loop` is used */
    struct jref loop;         /* where it is */
    struct jfn fn, test_fn;   /* of a recursive loop; of its condition */
    struct jscope scope, else_scope, test_scope;
};

struct jn_set {
    struct jn *target;
    struct jn *value;   /* JN_SET */
    struct jn *filter;  /* JN_SET_BLOCK: JN_FILTERs whose innermost value is NULL, or NULL */
    struct jnlist body; /* JN_SET_BLOCK */
    struct jscope scope;
    struct jv *exported; /* names that become visible to blocks, */
    struct jref *from;   /* and where they are */
    size_t n_exported;
};

struct jn_macro {
    struct jv name;         /* none: of a call block */
    struct jnlist params;   /* JN_NAME */
    struct jnlist defaults; /* of the last parameters */
    struct jnlist body;
    struct jn *call; /* JN_CALL_BLOCK: JN_CALL */
    bool uses_caller, uses_kwargs, uses_varargs, explicit_caller;
    struct jref caller, kwargs, varargs;
    struct jref self; /* where the macro itself is stored */
    bool toplevel;
    struct jfn fn;
    struct jscope scope;
};

struct jn_with {
    struct jnlist targets, values, body;
    struct jscope scope;
};

struct jn_body {     /* JN_FILTER_BLOCK, JN_AUTOESCAPE, JN_BLOCK */
    struct jn *head; /* the filter; the value of autoescape */
    struct jnlist body;
    struct jscope scope;
    struct jv name; /* of a block */
    bool scoped, required;
    uint32_t index; /* of a block */
    bool uses_self, uses_super;
    struct jref self, super;
    struct jfn fn;
    struct jv *local; /* of a scoped block: what it sees beside the context */
    struct jref *from;
    size_t n_local;
};

struct jn {
    uint8_t kind; /* enum jn_kind */
    uint8_t op;
    uint8_t escape; /* enum jescape, of JN_OUTPUT and JN_CONCAT */
    uint32_t line;
    uint32_t depth; /* of the tree below, 1 for a leaf */
    union {
        struct jv value; /* JN_CONST, JN_DATA, JN_UNAVAILABLE (what it is) */
        struct {
            struct jv id, attr; /* attr: of JN_NSREF */
            struct jref ref;
            bool store; /* a target */
        } name;
        struct jnlist items; /* JN_TUPLE, JN_LIST, JN_CONCAT; JN_DICT: key, value, key, value ... */
        struct {
            struct jn *a, *b; /* JN_SIGN, JN_NOT, JN_OUTPUT: a alone */
        } op2;
        struct {
            struct jnlist v;    /* n + 1 operands */
            const uint8_t *rel; /* n enum jrel */
        } compare;
        struct {
            struct jn *test, *yes, *no; /* no: NULL when there is no else */
        } cond;
        struct {
            struct jn *obj;
            struct jv name;
        } attr;
        struct {
            struct jn *obj, *key;
        } item;
        struct {
            struct jn *obj, *start, *stop, *step; /* NULL: left out */
        } slice;
        struct {
            struct jn *of;    /* what is called, filtered or tested; NULL: the text of a filter block */
            struct jv name;   /* of a filter or test */
            const void *what; /* struct jfilter or struct jtest; NULL: there is none, an error when it runs */
            struct jncall *args;
        } call;
        struct jn_if *if_;
        struct jn_for *for_;
        struct jn_set *set;
        struct jn_macro *macro;
        struct jn_with *with;
        struct jn_body *body;
    } u;
};

#endif
