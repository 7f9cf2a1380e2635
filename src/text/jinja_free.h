/* jinja_free.h - which of the special names (loop, caller, kwargs, varargs, self, super) some nodes use
 * without setting them first. Scopes within do not matter: only the order in which names are met does.
 */
#ifndef GALLOP_TEXT_JINJA_FREE_H
#define GALLOP_TEXT_JINJA_FREE_H

#include "text/jinja_ast.h"

enum {
    JFREE_LOOP = 1,
    JFREE_CALLER = 2,
    JFREE_KWARGS = 4,
    JFREE_VARARGS = 8,
    JFREE_SELF = 16,
    JFREE_SUPER = 32
};

/* Of the names in the set WANTED, those that L uses. */
unsigned jinja_free_names(const struct jnlist *l, unsigned wanted);

/* True when something in N or below it sets the name `loop`. */
bool jinja_free_sets_loop(const struct jn *n);

/* True when a scoped block is in L or below. */
bool jinja_free_scoped_block(const struct jnlist *l);

#endif
