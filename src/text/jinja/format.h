/* format.h - the method format() of strings: Python's format strings. */
#ifndef GALLOP_TEXT_JINJA_FORMAT_H
#define GALLOP_TEXT_JINJA_FORMAT_H

#include "text/jinja/value/value.h"

struct builtin_call;

/* The string methods format() and, if g->how is set, format_map(), whose argument has the fields by name. */
struct value jinja_format(struct rendering *r, struct value s, const struct builtin_call *g);

#endif
