/* methods.h - looks up attributes and elements of values, and the methods of lists and dicts. */
#ifndef GALLOP_TEXT_JINJA_METHODS_H
#define GALLOP_TEXT_JINJA_METHODS_H

#include <stdbool.h>

#include "text/jinja/value/value.h"

/* Returns object.key (ATTRIBUTE) or object[key]. A missing element gives an undefined value. */
struct value jinja_member(struct rendering *r, struct value object, struct value key, bool attribute);

#endif
