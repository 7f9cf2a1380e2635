/* schema_items.h - grammar expressions for arrays. */
#ifndef GALLOP_TEXT_GRAMMAR_SCHEMA_ITEMS_H
#define GALLOP_TEXT_GRAMMAR_SCHEMA_ITEMS_H

#include "text/grammar/schema/schema_form.h"

/* Returns the expression for the arrays that satisfy A. */
uint32_t schema_items(struct schema_compiler *c, const struct schema_array *a);

#endif
