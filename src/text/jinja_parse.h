/* jinja_parse.h - tokens to a tree: the parser's state and what its two halves, statements and expressions,
 * share.
 *
 * Errors are sticky, as everywhere: after one every token reads as the end of the template, so loops come to
 * an end, and the nodes made are thrown away.
 */
#ifndef GALLOP_TEXT_JINJA_PARSE_H
#define GALLOP_TEXT_JINJA_PARSE_H

#include "text/jinja_ast.h"
#include "text/jinja_lex.h"

enum {
    JPARSE_DEPTH_MAX = 120, /* of brackets and blocks within each other */
    JPARSE_TREE_MAX = 400,  /* of an expression's tree, which chains of operators deepen too */
};

struct jparse {
    struct jrun *r; /* whose arena becomes the template's */
    const struct jtok *tok;
    size_t n, at;
    int depth;
    const char *waiting[JPARSE_DEPTH_MAX + 2]; /* for messages: the end tags looked for, */
    const char *tag[JPARSE_DEPTH_MAX + 2];     /* and the tags they would close */
    size_t n_waiting;
    enum jescape escape; /* of the place */
    struct jn scrap;     /* what new nodes are after an error, and what other new memory is */
    _Alignas(16) char spare[1024];
};

/* Parses the whole template: its statements. */
struct jnlist jinja_parse_template(struct jparse *p);

/* Shared by both halves. */
const struct jtok *jinja_parse_peek(const struct jparse *p, size_t ahead);
struct jtok jinja_parse_next(struct jparse *p);
bool jinja_parse_skip(struct jparse *p, enum jtok_type t); /* true: it was there and is consumed */
struct jtok jinja_parse_expect(struct jparse *p, enum jtok_type t);
bool jinja_parse_at(const struct jparse *p, const char *name); /* the current token is this name */
bool jinja_parse_skip_name(struct jparse *p, const char *name);
bool jinja_parse_expect_name(struct jparse *p, const char *name);
void jinja_parse_fail(struct jparse *p, uint32_t line, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
const char *jinja_parse_describe(struct jparse *p, const struct jtok *t);
struct jn *jinja_parse_node(struct jparse *p, enum jn_kind kind, uint32_t line);
void *jinja_parse_new(struct jparse *p, size_t bytes); /* zeroed; never NULL: after an error it is p->spare */

enum jtok_type jinja_parse_type(const struct jparse *p); /* of the current token */
uint32_t jinja_parse_line(const struct jparse *p);

/* One bracket or block further in; false when that is too deep. Always to be left again. */
bool jinja_parse_enter(struct jparse *p);
void jinja_parse_leave(struct jparse *p);

/* Notes that N stands over CHILD (may be NULL) or a list, and refuses trees too deep to walk. */
void jinja_parse_over(struct jparse *p, struct jn *n, const struct jn *child);
void jinja_parse_over_list(struct jparse *p, struct jn *n, const struct jnlist *l);

/* A node of one or two operands. */
struct jn *jinja_parse_two(struct jparse *p, enum jn_kind kind, uint8_t op, struct jn *a, struct jn *b,
                           uint32_t line);

/* A list of nodes under construction. */
struct jnodes {
    struct jn **v;
    size_t n, cap;
};
void jinja_parse_push(struct jparse *p, struct jnodes *l, struct jn *n);
struct jnlist jinja_parse_list(const struct jnodes *l);

#endif
