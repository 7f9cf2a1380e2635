/* jinja_spec.h - one value laid out by a format specification: what {:>8.2f} and %8.2f have in common.
 *
 * Follows Python's "Format Specification Mini-Language".
 */
#ifndef GALLOP_TEXT_JINJA_SPEC_H
#define GALLOP_TEXT_JINJA_SPEC_H

#include "text/jinja_val.h"

struct jbuf;

struct jspec {
    struct jv fill; /* one character; missing: a blank */
    char align;     /* '<' '>' '^' '=', or 0: by type */
    char sign;      /* '+' '-' ' ', or 0 */
    char group;     /* ',' '_', or 0 */
    char type;      /* 0: by value */
    bool alternate;
    int64_t width;
    int64_t precision; /* -1: none */
};

/* Reads the specification TEXT. False and an error when it is malformed. */
bool jinja_spec_parse(struct jrun *r, struct jv text, struct jspec *s);

/* format(v, TEXT): appends V as the specification says. */
void jinja_spec_put(struct jbuf *b, struct jv v, struct jv text);

/* A string, an integer (type b c d o x X) or a double (type e E f F g G % or 0), each laid out by S. */
void jinja_spec_put_str(struct jbuf *b, const struct jspec *s, struct jv v);
void jinja_spec_put_int(struct jbuf *b, const struct jspec *s, struct jv v);
void jinja_spec_put_float(struct jbuf *b, const struct jspec *s, double f);

#endif
