/* jinja_exec.h - running statements: text goes to the rendering's output, or to what captures it. */
#ifndef GALLOP_TEXT_JINJA_EXEC_H
#define GALLOP_TEXT_JINJA_EXEC_H

#include "text/jinja_act.h"

enum jflow { JFLOW_ON, JFLOW_BREAK, JFLOW_CONTINUE };

/* Runs the statements of L until the end, an error, or a break or continue of a loop around them. */
enum jflow jinja_exec_list(struct jrun *r, struct jact *a, const struct jnlist *l);

/* Runs L and gives what it writes, as a string; *flow is how it ended. */
struct jv jinja_exec_capture(struct jrun *r, struct jact *a, const struct jnlist *l, enum jflow *flow);

/* The text of the recursive loop N, defined in UP, over the elements of OVER. */
struct jv jinja_exec_recurse(struct jrun *r, const struct jn *n, struct jact *up, struct jv over,
                             int64_t depth0);

/* The text of block INDEX. */
struct jv jinja_exec_block_text(struct jrun *r, uint32_t index);

#endif
