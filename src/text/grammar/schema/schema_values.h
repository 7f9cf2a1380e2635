/* schema_values.h - terms with few values, listed. */
#ifndef GALLOP_TEXT_GRAMMAR_SCHEMA_VALUES_H
#define GALLOP_TEXT_GRAMMAR_SCHEMA_VALUES_H

#include "text/grammar/schema/schema_compiler.h"

enum { SCHEMA_MOST_VALUES = 10 };

/* Values that differ from each other, as JSON Schema compares them. */
struct schema_values {
    const json_t *value[SCHEMA_MOST_VALUES]; /* [n] */
    size_t n;
};

/* Adds all values of TERM to V, and perhaps more. False: there are too many, or it is not known which. DEPTH: of
 * the terms that it is part of. */
bool schema_values_add(struct schema_compiler *c, struct schema_values *v, uint32_t term, int depth);

#endif
