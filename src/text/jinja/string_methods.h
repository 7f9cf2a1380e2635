/* string_methods.h - the methods of strings, and the filters that share their code. */
#ifndef GALLOP_TEXT_JINJA_STRING_METHODS_H
#define GALLOP_TEXT_JINJA_STRING_METHODS_H

#include "text/jinja/builtin.h"
#include "text/jinja/value/value.h"

/* The ends of a string that a method changes or compares. */
enum { STRING_LEFT = 1, STRING_RIGHT = 2 };

/* The case that letters get. STRING_WORDS is the filter title, STRING_TITLE the method title(). */
enum string_case { STRING_UPPER, STRING_LOWER, STRING_CAPITALIZED, STRING_TITLE, STRING_WORDS };

struct value jinja_change_case(struct rendering *r, struct value v, const struct builtin_call *g);

/* Strips white space, or the characters of the argument, from the ends in g->how. */
struct value jinja_strip(struct rendering *r, struct value v, const struct builtin_call *g);

/* The method replace() or, if g->how is set, the filter, which accepts any value. */
struct value jinja_replace(struct rendering *r, struct value s, const struct builtin_call *g);
struct value jinja_indent(struct rendering *r, struct value v, const struct builtin_call *g);

extern const struct builtin jinja_string_methods[];

#endif
