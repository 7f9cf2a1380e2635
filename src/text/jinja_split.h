/* jinja_split.h - str.split(), rsplit(), splitlines(), partition() and rpartition(), as methods. */
#ifndef GALLOP_TEXT_JINJA_SPLIT_H
#define GALLOP_TEXT_JINJA_SPLIT_H

#include "text/jinja_args.h"

struct jv jinja_split_split(struct jrun *r, struct jv self, const struct jargs *a);
struct jv jinja_split_rsplit(struct jrun *r, struct jv self, const struct jargs *a);
struct jv jinja_split_lines(struct jrun *r, struct jv self, const struct jargs *a);
struct jv jinja_split_partition(struct jrun *r, struct jv self, const struct jargs *a);
struct jv jinja_split_rpartition(struct jrun *r, struct jv self, const struct jargs *a);

/* Appends the lines of the string V to G, without their ends unless KEEP. */
void jinja_split_put_lines(struct jgrow *g, struct jv v, bool keep);

#endif
