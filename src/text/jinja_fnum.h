/* jinja_fnum.h - filters on numbers. See jinja_filt.h. */
#ifndef GALLOP_TEXT_JINJA_FNUM_H
#define GALLOP_TEXT_JINJA_FNUM_H

#include "text/jinja_args.h"

struct jv jinja_fnum_abs(struct jrun *r, struct jv v, const struct jargs *a);
struct jv jinja_fnum_filesizeformat(struct jrun *r, struct jv v, const struct jargs *a);
struct jv jinja_fnum_float(struct jrun *r, struct jv v, const struct jargs *a);
struct jv jinja_fnum_int(struct jrun *r, struct jv v, const struct jargs *a);
struct jv jinja_fnum_round(struct jrun *r, struct jv v, const struct jargs *a);

#endif
