/* string_methods.h - the methods of strings, and the filters that do the same. */
#ifndef GALLOP_TEXT_JINJA_STRING_METHODS_H
#define GALLOP_TEXT_JINJA_STRING_METHODS_H

#include "text/jinja/builtin.h"
#include "text/jinja/value/value.h"

/* The ends that strip and the like change. */
enum { STRING_LEFT = 1, STRING_RIGHT = 2 };

/* How letters change case; STRING_WORDS is the filter title, STRING_TITLE the method. */
enum string_case { STRING_UPPER, STRING_LOWER, STRING_CAPITALIZED, STRING_TITLE, STRING_WORDS };

struct value jinja_change_case(struct rendering *r, struct value v, const struct builtin_call *g);

/* Removes white space, or the given characters, at the ends that HOW names. */
struct value jinja_strip(struct rendering *r, struct value v, const struct builtin_call *g);

/* HOW: it is the filter, which takes any value. */
struct value jinja_replace(struct rendering *r, struct value s, const struct builtin_call *g);
struct value jinja_indent(struct rendering *r, struct value v, const struct builtin_call *g);

extern const struct builtin jinja_string_methods[];

#endif
