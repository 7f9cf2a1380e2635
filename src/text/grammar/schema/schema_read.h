/* schema_read.h - reads the keywords of schemas, and works out the normal form of any term. */
#ifndef GALLOP_TEXT_GRAMMAR_SCHEMA_READ_H
#define GALLOP_TEXT_GRAMMAR_SCHEMA_READ_H

#include "text/grammar/schema/schema_form.h"

/* The form of TERM. NULL after a fault. */
const struct schema_form *schema_form_of(struct schema_compiler *c, uint32_t term);

/* True if no value is in TERM for certain. Looks DEPTH levels into elements and properties. */
bool schema_is_empty(struct schema_compiler *c, uint32_t term, int depth);

#endif
