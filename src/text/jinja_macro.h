/* jinja_macro.h - a macro, or the body of a call block, together with the variables it was defined among. */
#ifndef GALLOP_TEXT_JINJA_MACRO_H
#define GALLOP_TEXT_JINJA_MACRO_H

#include "text/jinja_args.h"

struct jn;

struct jmacro {
    const struct jn *node; /* JN_MACRO, JN_CALL_BLOCK or JN_GENERATION */
    struct jact *act;      /* the activation it was defined in */
};

struct jv jinja_macro_value(struct jrun *r, const struct jn *node, struct jact *act);

/* Runs it. The text it renders; Markup inside {% autoescape true %}. */
struct jv jinja_macro_call(struct jrun *r, const struct jmacro *m, const struct jargs *a);

/* macro.NAME, or missing. */
struct jv jinja_macro_attr(struct jrun *r, const struct jmacro *m, const struct jstr *name);

struct jbuf;
void jinja_macro_put(struct jbuf *b, const struct jmacro *m); /* its repr() */

#endif
