/* schema_properties.h - grammar expressions for objects. */
#ifndef GALLOP_TEXT_GRAMMAR_SCHEMA_PROPERTIES_H
#define GALLOP_TEXT_GRAMMAR_SCHEMA_PROPERTIES_H

#include "text/grammar/schema/schema_form.h"

/* Returns the expression for the objects that satisfy O: members in O's order, then other properties. */
uint32_t schema_properties(struct schema_compiler *c, const struct schema_object *o);

#endif
