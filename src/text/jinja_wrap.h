/* jinja_wrap.h - the filter wordwrap: Python's textwrap for each line of a text. */
#ifndef GALLOP_TEXT_JINJA_WRAP_H
#define GALLOP_TEXT_JINJA_WRAP_H

#include "text/jinja_args.h"

struct jv jinja_wrap_filter(struct jrun *r, struct jv v, const struct jargs *a);

#endif
