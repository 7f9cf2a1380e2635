/* expression.h - evaluates expressions. */
#ifndef GALLOP_TEXT_JINJA_EXPRESSION_H
#define GALLOP_TEXT_JINJA_EXPRESSION_H

struct rendering;
struct tree_node;

struct value jinja_evaluate(struct rendering *r, const struct tree_node *n);

/* Evaluates a call, filter or test. CALLER, unless MISSING, is passed as the keyword argument "caller". */
struct value jinja_evaluate_call(struct rendering *r, const struct tree_node *n, struct value caller);

#endif
