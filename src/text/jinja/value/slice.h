/* slice.h - slices of strings, lists, tuples and ranges. */
#ifndef GALLOP_TEXT_JINJA_SLICE_H
#define GALLOP_TEXT_JINJA_SLICE_H

#include "text/jinja/value/value.h"

/* Returns object[start:stop:step]; each of the three is an integer or None. */
struct value jinja_slice(struct rendering *r, struct value object, struct value start, struct value stop,
                         struct value step);

#endif
