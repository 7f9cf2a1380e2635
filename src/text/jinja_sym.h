/* jinja_sym.h - which names a scope knows and where their values come from: Jinja's compile-time rules of
 * scoping.
 *
 * These are the rules of jinja2.idtracking, because templates depend on their corners: a name that is set
 * anywhere in a scope belongs to that scope, and is undefined there until it is set, unless it is set in a
 * branch only or read before.
 */
#ifndef GALLOP_TEXT_JINJA_SYM_H
#define GALLOP_TEXT_JINJA_SYM_H

#include "text/jinja_ast.h"

enum jsym_kind { JSYM_NONE, JSYM_PARAM, JSYM_RESOLVE, JSYM_ALIAS, JSYM_UNDEFINED };

struct jsym_entry {
    struct jv name;
    enum jsym_kind kind; /* how it is loaded when the scope is entered */
    bool stored;
    uint32_t slot;
    struct jfn *alias_fn; /* JSYM_ALIAS */
    uint32_t alias_slot;
};

struct jsym {
    struct jsym *parent;
    struct jfn *fn;
    uint32_t level;
    struct jsym_entry *e;
    size_t n, cap;
};

/* All slots handed out so far, so that scopes of one function and level share them. */
struct jslots {
    struct {
        const struct jfn *fn;
        uint32_t level, slot;
        struct jv name;
    } * v;
    size_t n, cap;
};

struct jsyms {
    struct jrun *r;
    struct jslots slots;
};

/* A new scope within PARENT (NULL: outermost), in function FN. */
struct jsym *jinja_sym_new(struct jsyms *s, struct jsym *parent, struct jfn *fn);

/* Makes NAME a parameter of the scope. */
void jinja_sym_param(struct jsyms *s, struct jsym *y, struct jv name);

/* Takes in what a node, the nodes of a list, or the names of a target do to the scope's names. */
void jinja_sym_visit(struct jsyms *s, struct jsym *y, const struct jn *n);
void jinja_sym_visit_list(struct jsyms *s, struct jsym *y, const struct jnlist *l);
void jinja_sym_params(struct jsyms *s, struct jsym *y, const struct jn *target);

/* Where NAME is found from Y on outwards; false when no scope knows it. */
bool jinja_sym_find(struct jsyms *s, const struct jsym *y, struct jv name, struct jfn **fn, uint32_t *slot);

/* What entering the scope has to do. */
struct jscope jinja_sym_scope(struct jsyms *s, const struct jsym *y);

/* The place of a slot of function TO as seen from function FROM. */
struct jref jinja_sym_ref(const struct jfn *from, const struct jfn *to, uint32_t slot);

#endif
