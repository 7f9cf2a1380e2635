/* jinja_meth.h - methods of built-in types: tables of name and function, and a method bound to its object. */
#ifndef GALLOP_TEXT_JINJA_METH_H
#define GALLOP_TEXT_JINJA_METH_H

#include "text/jinja_args.h"

struct jmeth {
    const char *name; /* NULL ends a table */
    struct jv (*call)(struct jrun *r, struct jv self, const struct jargs *a);
};

struct jmethod {
    struct jv self;
    const struct jmeth *row;
};

/* Method NAME of TABLE bound to SELF, or missing. */
struct jv jinja_meth_find(struct jrun *r, const struct jmeth *table, struct jv self, const struct jstr *name);

/* Attribute NAME of OBJ as Python's getattr() sees it: methods and properties, not dict entries. Missing
 * when there is none. What the sandbox refuses (methods that change a list or dict, names with an
 * underscore) gives an undefined value that says so when used. An undefined OBJ is an error. */
struct jv jinja_meth_attr(struct jrun *r, struct jv obj, struct jv name);

#endif
