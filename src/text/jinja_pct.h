/* jinja_pct.h - the operator % on strings. */
#ifndef GALLOP_TEXT_JINJA_PCT_H
#define GALLOP_TEXT_JINJA_PCT_H

#include "text/jinja_val.h"

/* FORMAT % VALUES. On Markup the values are escaped and the result is Markup. */
struct jv jinja_pct_format(struct jrun *r, struct jv format, struct jv values);

#endif
