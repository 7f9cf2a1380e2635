/* jinja_fmt.h - str.format() and str.format_map(). */
#ifndef GALLOP_TEXT_JINJA_FMT_H
#define GALLOP_TEXT_JINJA_FMT_H

#include "text/jinja_args.h"

/* Methods of str. */
struct jv jinja_fmt_format(struct jrun *r, struct jv self, const struct jargs *a);
struct jv jinja_fmt_format_map(struct jrun *r, struct jv self, const struct jargs *a);

#endif
