/* jinja_fgen.h - filters on sequences that give generators: they work when somebody asks for elements. See
 * jinja_filt.h. */
#ifndef GALLOP_TEXT_JINJA_FGEN_H
#define GALLOP_TEXT_JINJA_FGEN_H

#include "text/jinja_args.h"

struct jv jinja_fgen_batch(struct jrun *r, struct jv v, const struct jargs *a);
struct jv jinja_fgen_items(struct jrun *r, struct jv v, const struct jargs *a);
struct jv jinja_fgen_map(struct jrun *r, struct jv v, const struct jargs *a);
struct jv jinja_fgen_reject(struct jrun *r, struct jv v, const struct jargs *a);
struct jv jinja_fgen_rejectattr(struct jrun *r, struct jv v, const struct jargs *a);
struct jv jinja_fgen_select(struct jrun *r, struct jv v, const struct jargs *a);
struct jv jinja_fgen_selectattr(struct jrun *r, struct jv v, const struct jargs *a);
struct jv jinja_fgen_slice(struct jrun *r, struct jv v, const struct jargs *a);
struct jv jinja_fgen_unique(struct jrun *r, struct jv v, const struct jargs *a);

#endif
