/* jinja_repr.h - str() and repr() of values, and pprint. */
#ifndef GALLOP_TEXT_JINJA_REPR_H
#define GALLOP_TEXT_JINJA_REPR_H

#include "text/jinja_val.h"

struct jbuf;

void jinja_repr_put_str(struct jbuf *b, struct jv v); /* str(v) */
void jinja_repr_put(struct jbuf *b, struct jv v);     /* repr(v) */

/* str(v) as a string without flags; a string is returned as it is. */
struct jv jinja_repr_str(struct jrun *r, struct jv v);

/* str(v) unless V is a string, flags and all (markupsafe's soft_str). */
struct jv jinja_repr_soft(struct jrun *r, struct jv v);

/* repr(v) with everything beyond ASCII escaped (the conversion !a). */
void jinja_repr_put_ascii(struct jbuf *b, struct jv v);

/* repr(v) for a message: short, terminated, in the arena. Never fails; works after an error too. */
const char *jinja_repr_brief(struct jrun *r, struct jv v);

/* pprint.pformat(v), except that long strings are not broken into pieces. */
struct jv jinja_repr_pretty(struct jrun *r, struct jv v);

#endif
