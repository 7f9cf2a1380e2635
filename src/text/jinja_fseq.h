/* jinja_fseq.h - filters on sequences that answer at once. See jinja_filt.h. */
#ifndef GALLOP_TEXT_JINJA_FSEQ_H
#define GALLOP_TEXT_JINJA_FSEQ_H

#include "text/jinja_args.h"

struct jv jinja_fseq_attr(struct jrun *r, struct jv v, const struct jargs *a);
struct jv jinja_fseq_default(struct jrun *r, struct jv v, const struct jargs *a);
struct jv jinja_fseq_dictsort(struct jrun *r, struct jv v, const struct jargs *a);
struct jv jinja_fseq_first(struct jrun *r, struct jv v, const struct jargs *a);
struct jv jinja_fseq_groupby(struct jrun *r, struct jv v, const struct jargs *a);
struct jv jinja_fseq_join(struct jrun *r, struct jv v, const struct jargs *a);
struct jv jinja_fseq_last(struct jrun *r, struct jv v, const struct jargs *a);
struct jv jinja_fseq_length(struct jrun *r, struct jv v, const struct jargs *a);
struct jv jinja_fseq_list(struct jrun *r, struct jv v, const struct jargs *a);
struct jv jinja_fseq_max(struct jrun *r, struct jv v, const struct jargs *a);
struct jv jinja_fseq_min(struct jrun *r, struct jv v, const struct jargs *a);
struct jv jinja_fseq_random(struct jrun *r, struct jv v, const struct jargs *a);
struct jv jinja_fseq_reverse(struct jrun *r, struct jv v, const struct jargs *a);
struct jv jinja_fseq_sort(struct jrun *r, struct jv v, const struct jargs *a);
struct jv jinja_fseq_sum(struct jrun *r, struct jv v, const struct jargs *a);

#endif
