/* methods.h - attributes and elements of values, and the methods of lists and dicts. */
#ifndef GALLOP_TEXT_JINJA_METHODS_H
#define GALLOP_TEXT_JINJA_METHODS_H

#include <stdbool.h>

#include "text/jinja/value/value.h"

/* object.key for ATTRIBUTE, else object[key]. An element that is not there gives an undefined value. */
struct value jinja_member(struct rendering *r, struct value object, struct value key, bool attribute);

#endif
