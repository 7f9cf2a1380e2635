/* jinja_stris.h - str.isalpha() and its kin, as methods. */
#ifndef GALLOP_TEXT_JINJA_STRIS_H
#define GALLOP_TEXT_JINJA_STRIS_H

#include "text/jinja_args.h"

struct jv jinja_stris_alnum(struct jrun *r, struct jv self, const struct jargs *a);
struct jv jinja_stris_alpha(struct jrun *r, struct jv self, const struct jargs *a);
struct jv jinja_stris_ascii(struct jrun *r, struct jv self, const struct jargs *a);
struct jv jinja_stris_decimal(struct jrun *r, struct jv self, const struct jargs *a);
struct jv jinja_stris_digit(struct jrun *r, struct jv self, const struct jargs *a);
struct jv jinja_stris_identifier(struct jrun *r, struct jv self, const struct jargs *a);
struct jv jinja_stris_lower(struct jrun *r, struct jv self, const struct jargs *a);
struct jv jinja_stris_numeric(struct jrun *r, struct jv self, const struct jargs *a);
struct jv jinja_stris_printable(struct jrun *r, struct jv self, const struct jargs *a);
struct jv jinja_stris_space(struct jrun *r, struct jv self, const struct jargs *a);
struct jv jinja_stris_title(struct jrun *r, struct jv self, const struct jargs *a);
struct jv jinja_stris_upper(struct jrun *r, struct jv self, const struct jargs *a);

/* The same two without a call: the tests `is lower` and `is upper`. */
bool jinja_stris_is_lower(struct jrun *r, const struct jstr *s);
bool jinja_stris_is_upper(struct jrun *r, const struct jstr *s);

#endif
