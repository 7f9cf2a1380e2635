/* jinja_loop.h - the variable `loop` of a for loop: where it is, what comes before and after. */
#ifndef GALLOP_TEXT_JINJA_LOOP_H
#define GALLOP_TEXT_JINJA_LOOP_H

#include "text/jinja_val.h"

struct jn;

struct jloop {
    struct jv over;
    struct jiter *it;
    int64_t index0; /* -1 before the first */
    int64_t depth0;
    bool has_length;
    size_t length;
    struct jv after, current, before; /* missing where there is none */
    struct jv changed;                /* the last arguments of loop.changed() */
    const struct jn *node;            /* of a recursive loop, else NULL: what loop(x) runs */
    struct jact *act;                 /* where it runs */
};

/* A loop over V, or NULL after an error. NODE and ACT as in the struct. */
struct jloop *jinja_loop_new(struct jrun *r, struct jv over, int64_t depth0, const struct jn *node,
                             struct jact *act);

bool jinja_loop_next(struct jrun *r, struct jloop *l, struct jv *out);
size_t jinja_loop_length(struct jrun *r, struct jloop *l);

/* loop.NAME, or missing when there is no such attribute. */
struct jv jinja_loop_attr(struct jrun *r, struct jv loop, const struct jstr *name);

struct jbuf;
void jinja_loop_put(struct jbuf *b, struct jloop *l); /* its repr() */

#endif
