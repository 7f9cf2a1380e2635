/* walk.h - iterates over values, and keeps the state of a for loop. */
#ifndef GALLOP_TEXT_JINJA_WALK_H
#define GALLOP_TEXT_JINJA_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text/jinja/value/value.h"

/* An iteration over the value OVER. next() returns false at the end and after an error. */
struct walk_generator {
    bool (*next)(struct rendering *r, struct walk_generator *g, struct value *out);
    struct value over;
    size_t at;
    void *state;
};

/* The variable `loop` of a for loop. */
struct walk_loop {
    struct walk_generator *source;
    struct value over, before, current; /* the iterated value; the previous and the current element */
    struct value after;                 /* the next element if it was read ahead, else MISSING */
    int64_t index0;
    size_t length;
    bool has_length;
};

struct value jinja_generator(struct rendering *r, struct value over, void *state,
                             bool (*next)(struct rendering *r, struct walk_generator *g, struct value *out));

bool jinja_iterable(struct value v);

/* Returns an iteration over V, or NULL after an error; a value that is not iterable is an error. */
struct walk_generator *jinja_walk(struct rendering *r, struct value v);

/* Reads the next element. Returns false at the end and after an error. G may be NULL. */
bool jinja_next(struct rendering *r, struct walk_generator *g, struct value *out);
struct value jinja_to_list(struct rendering *r, struct value v);

/* Returns element I of a list, tuple or range, or key I of a dict. */
struct value jinja_element(struct value v, size_t i);

/* Computes the length of V. False: V has no length. */
bool jinja_length(struct rendering *r, struct value v, size_t *n);

/* Moves to the next element of a for loop. Returns false at the end and after an error. */
bool jinja_loop_next(struct rendering *r, struct walk_loop *l);

/* Returns the attribute loop.NAME, or MISSING. */
struct value jinja_loop_attribute(struct rendering *r, struct walk_loop *l, struct value name);

#endif
