/* jinja_case.h - str.upper(), lower(), title() and their kin, with Python's full case mappings. */
#ifndef GALLOP_TEXT_JINJA_CASE_H
#define GALLOP_TEXT_JINJA_CASE_H

#include "text/jinja_val.h"

enum jcase { JCASE_UPPER, JCASE_LOWER, JCASE_TITLE, JCASE_CAPITALIZE, JCASE_SWAP, JCASE_FOLD };

/* The string V in another case; keeps V's flags. */
struct jv jinja_case_map(struct jrun *r, struct jv v, enum jcase how);

/* Bytes [FROM, TO) of the string V in HOW, appended to B. Context (final sigma) is that of the whole
 * string. */
struct jbuf;
void jinja_case_put(struct jbuf *b, struct jv v, size_t from, size_t to, enum jcase how);

#endif
