/* jinja_expr.h - the half of the parser that reads expressions. */
#ifndef GALLOP_TEXT_JINJA_EXPR_H
#define GALLOP_TEXT_JINJA_EXPR_H

#include "text/jinja_parse.h"

/* An expression; WITH_COND: `a if b else c` may be one. */
struct jn *jinja_expr_parse(struct jparse *p, bool with_cond);

/* An expression, or several with commas between them as a tuple. END: a name that ends it too, or NULL. */
struct jn *jinja_expr_tuple(struct jparse *p, bool with_cond, const char *end);

/* What may be assigned to: a name, or a tuple of such; with WITH_NAMESPACE also ns.attr. */
struct jn *jinja_expr_target(struct jparse *p, const char *end, bool with_namespace);

/* A single name as a target. */
struct jn *jinja_expr_name(struct jparse *p);

#endif
