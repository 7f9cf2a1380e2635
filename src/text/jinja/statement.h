/* statement.h - executes statements. */
#ifndef GALLOP_TEXT_JINJA_STATEMENT_H
#define GALLOP_TEXT_JINJA_STATEMENT_H

struct rendering;
struct tree_nodes;

struct builtin_arguments;
struct frame_macro;

/* What happens after a statement: the next statement, or the end of the loop or iteration. */
enum statement_flow { STATEMENT_NEXT, STATEMENT_BREAK, STATEMENT_CONTINUE };

enum statement_flow jinja_execute(struct rendering *r, const struct tree_nodes *body);
struct value jinja_call_macro(struct rendering *r, const struct frame_macro *m,
                              const struct builtin_arguments *a);

#endif
