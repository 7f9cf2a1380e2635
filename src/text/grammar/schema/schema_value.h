/* schema_value.h - grammar expressions for the values of terms, and for structural characters. */
#ifndef GALLOP_TEXT_GRAMMAR_SCHEMA_VALUE_H
#define GALLOP_TEXT_GRAMMAR_SCHEMA_VALUE_H

#include "text/grammar/schema/schema_form.h"

/* Returns a regular expression for the values of F that are neither arrays nor objects. */
uint32_t schema_scalars(struct schema_compiler *c, const struct schema_form *f);

/* Returns the expression for the values of TERM. Terms with arrays or objects become a call of a rule; the
 * term stays on c->queue until the rule has a body. */
uint32_t schema_value(struct schema_compiler *c, uint32_t term);

/* Returns a regular expression for the character MARK with optional white space BEFORE and AFTER it. */
uint32_t schema_mark(struct schema_compiler *c, bool before, char mark, bool after);

#endif
