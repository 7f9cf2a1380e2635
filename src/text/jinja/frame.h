/* frame.h - the frames in which a rendering keeps its variables.
 *
 * Names are interned: every name of a template has a number, and a frame holds pairs of number and value.
 * A variable is looked up in the frames from the innermost one outwards, then outside. A loop, a macro, a
 * call, a filter block, a set block and a generation block have a frame of their own; `if` has none.
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

/* A macro with the frame in which it was defined. */
struct frame_macro {
    const struct tree_macro *node;
    struct frame *frame;
};

/* A new frame inside OUTER. NULL after an error. */
struct frame *jinja_frame_open(struct rendering *r, struct frame *outer);

/* The value of the variable, or MISSING. */
struct value jinja_variable(struct rendering *r, uint32_t name);
void jinja_set_variable(struct rendering *r, struct frame *f, uint32_t name, struct value v);

#endif
