/* jinja_iter.h - walking over values, and generators: values that are walked once, element by element, when
 * needed.
 *
 * The filters map, select, unique and so on give generators, as in Jinja: nothing is computed before somebody
 * asks, and a second walk finds nothing. Lists never change, so walking one while the template runs is safe.
 */
#ifndef GALLOP_TEXT_JINJA_ITER_H
#define GALLOP_TEXT_JINJA_ITER_H

#include "text/jinja_val.h"

struct jiter {
    bool (*next)(struct jrun *r, struct jiter *it, struct jv *out); /* false: nothing more, or an error */
    const char *repr;
    struct jv over; /* what is walked */
    size_t at;      /* index, or byte offset of a string */
    void *state;    /* of a generator's own */
    bool done;
};

bool jinja_iter_can(struct jv v); /* iter(v) would work */

/* A walk over V; NULL (and an error) when V cannot be walked. A JV_ITER gives itself. */
struct jiter *jinja_iter_open(struct jrun *r, struct jv v);

/* The next element; counts a step. False at the end or after an error. */
bool jinja_iter_next(struct jrun *r, struct jiter *it, struct jv *out);

/* list(v). */
struct jv jinja_iter_list(struct jrun *r, struct jv v);

/* reversed(v): a JV_ITER, or missing (no error) where Python's reversed() would refuse. */
struct jv jinja_iter_reversed(struct jrun *r, struct jv v);

/* A generator over V. REPR is what printing it shows. */
struct jv jinja_iter_new(struct jrun *r, const char *repr, struct jv over, void *state,
                         bool (*next)(struct jrun *r, struct jiter *it, struct jv *out));

int64_t jinja_iter_range_item(const struct jrange *g, size_t i);

#endif
