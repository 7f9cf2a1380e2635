/* frame.h - the frames in which a rendering stores its variables.
 *
 * Names are interned: every name of a template has a number, and a frame has pairs of name number and value. A variable
 * is looked up in the frames from the innermost one outwards, then in the context and among the functions. A loop, a
 * macro, a call, a filter block, a set block and a generation block each have a frame; `if` has none.
 */
#ifndef GALLOP_TEXT_JINJA_FRAME_H
#define GALLOP_TEXT_JINJA_FRAME_H

#include <stddef.h>
#include <stdint.h>

#include "text/jinja/value/value.h"

struct frame_variable {
    uint32_t name;
    struct value value;
};

struct frame {
    struct frame *outer;
    struct frame_variable *variables;
    size_t count, room;
};

/* A macro and the frame in which it was defined. */
struct frame_macro {
    const struct tree_macro *node;
    struct frame *frame;
};

/* Opens a frame inside OUTER. Returns NULL after an error. */
struct frame *jinja_frame_open(struct rendering *r, struct frame *outer);

/* Returns the value of the variable, or MISSING. */
struct value jinja_variable(struct rendering *r, uint32_t name);
void jinja_set_variable(struct rendering *r, struct frame *f, uint32_t name, struct value v);

#endif
