/* jinja_prim.h - the part of the parser that reads operands. */
#ifndef GALLOP_TEXT_JINJA_PRIM_H
#define GALLOP_TEXT_JINJA_PRIM_H

#include "text/jinja_parse.h"

/* An operand with its signs and all that follows it; WITH_FILTER: filters and tests too. */
struct jn *jinja_prim_unary(struct jparse *p, bool with_filter);

/* A literal, a name or something in brackets. WITH_NAMESPACE: name.attr is one thing, to be assigned to. */
struct jn *jinja_prim_parse(struct jparse *p, bool with_namespace);

/* Filters, with or without the | before the first, applied to OF (NULL: the text of a block). */
struct jn *jinja_prim_filters(struct jparse *p, struct jn *of, bool inlined);

#endif
