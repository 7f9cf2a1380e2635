/* schema_value.h - grammar expressions for the values of terms, and for the marks around them. */
#ifndef GALLOP_TEXT_GRAMMAR_SCHEMA_VALUE_H
#define GALLOP_TEXT_GRAMMAR_SCHEMA_VALUE_H

#include "text/grammar/schema/schema_form.h"

/* The values of F that are no arrays and objects: a regular expression. */
uint32_t schema_scalars(struct schema_compiler *c, const struct schema_form *f);

/* The expression for the values of TERM. Arrays and objects are calls of a rule, which is put on c->queue until
 * it has a body. */
uint32_t schema_value(struct schema_compiler *c, uint32_t term);

/* A regular expression for MARK, with white space before or after it. */
uint32_t schema_mark(struct schema_compiler *c, bool before, char mark, bool after);

#endif
