/* schema_read.h - computes the normal form of a term, which includes reading the keywords of schemas. */
#ifndef GALLOP_TEXT_GRAMMAR_SCHEMA_READ_H
#define GALLOP_TEXT_GRAMMAR_SCHEMA_READ_H

#include "text/grammar/schema/schema_form.h"

/* Returns the form of TERM, or NULL after an error. */
const struct schema_form *schema_form_of(struct schema_compiler *c, uint32_t term);

/* The depth of schema_is_empty() that detects most schemas without a value. */
enum { SCHEMA_EMPTY_DEPTH = 5 };

/* True if TERM certainly has no value. Examines elements and properties DEPTH levels deep. */
bool schema_is_empty(struct schema_compiler *c, uint32_t term, int depth);

#endif
