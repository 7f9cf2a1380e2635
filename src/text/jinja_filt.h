/* jinja_filt.h - the table of filters: v | name(arguments).
 *
 * A filter is a function of the value and its arguments. Python's positional and keyword names are kept.
 */
#ifndef GALLOP_TEXT_JINJA_FILT_H
#define GALLOP_TEXT_JINJA_FILT_H

#include "text/jinja_args.h"

struct jfilter {
    const char *name;
    struct jv (*call)(struct jrun *r, struct jv v, const struct jargs *a);
};

/* The filter of this name, or NULL. */
const struct jfilter *jinja_filt_find(const char *name, size_t n);

#endif
