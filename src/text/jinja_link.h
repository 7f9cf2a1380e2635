/* jinja_link.h - the filter urlize: addresses in a text become links. */
#ifndef GALLOP_TEXT_JINJA_LINK_H
#define GALLOP_TEXT_JINJA_LINK_H

#include "text/jinja_args.h"

struct jv jinja_link_filter(struct jrun *r, struct jv v, const struct jargs *a);

#endif
