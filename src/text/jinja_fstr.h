/* jinja_fstr.h - filters on strings. See jinja_filt.h. */
#ifndef GALLOP_TEXT_JINJA_FSTR_H
#define GALLOP_TEXT_JINJA_FSTR_H

#include "text/jinja_args.h"

struct jv jinja_fstr_capitalize(struct jrun *r, struct jv v, const struct jargs *a);
struct jv jinja_fstr_center(struct jrun *r, struct jv v, const struct jargs *a);
struct jv jinja_fstr_format(struct jrun *r, struct jv v, const struct jargs *a);
struct jv jinja_fstr_indent(struct jrun *r, struct jv v, const struct jargs *a);
struct jv jinja_fstr_lower(struct jrun *r, struct jv v, const struct jargs *a);
struct jv jinja_fstr_pprint(struct jrun *r, struct jv v, const struct jargs *a);
struct jv jinja_fstr_replace(struct jrun *r, struct jv v, const struct jargs *a);
struct jv jinja_fstr_string(struct jrun *r, struct jv v, const struct jargs *a);
struct jv jinja_fstr_title(struct jrun *r, struct jv v, const struct jargs *a);
struct jv jinja_fstr_trim(struct jrun *r, struct jv v, const struct jargs *a);
struct jv jinja_fstr_truncate(struct jrun *r, struct jv v, const struct jargs *a);
struct jv jinja_fstr_upper(struct jrun *r, struct jv v, const struct jargs *a);
struct jv jinja_fstr_wordcount(struct jrun *r, struct jv v, const struct jargs *a);

#endif
