/* jinja_scope.h - tells every name of a parsed template where its value will be, and proves what can be
 * proved before anything is rendered: filters and tests exist, break stands in a loop, blocks have names of
 * their own.
 */
#ifndef GALLOP_TEXT_JINJA_SCOPE_H
#define GALLOP_TEXT_JINJA_SCOPE_H

#include "text/jinja_tree.h"

/* Completes J, whose body has been parsed. Errors go to R, whose arena becomes the template's. */
void jinja_scope_resolve(struct jrun *r, struct jinja *j);

#endif
