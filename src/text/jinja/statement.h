/* statement.h - executes statements. */
#ifndef GALLOP_TEXT_JINJA_STATEMENT_H
#define GALLOP_TEXT_JINJA_STATEMENT_H

#include "text/jinja/builtin.h"
#include "text/jinja/frame.h"
#include "text/jinja/tree.h"

/* How the execution goes on after a statement. */
enum statement_flow { STATEMENT_NEXT, STATEMENT_BREAK, STATEMENT_CONTINUE };

enum statement_flow jinja_execute(struct rendering *r, const struct tree_nodes *body);
struct value jinja_call_macro(struct rendering *r, const struct frame_macro *m,
                              const struct builtin_arguments *a);

#endif
