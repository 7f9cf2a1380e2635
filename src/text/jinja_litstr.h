/* jinja_litstr.h - what a string literal of a template means. */
#ifndef GALLOP_TEXT_JINJA_LITSTR_H
#define GALLOP_TEXT_JINJA_LITSTR_H

#include "text/jinja_val.h"

/* The string between the quotes: N bytes with Python's escapes (but \N{...}); its characters are counted. */
struct jv jinja_litstr_read(struct jrun *r, const char *p, size_t n);

#endif
