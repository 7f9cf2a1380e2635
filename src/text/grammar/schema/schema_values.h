/* schema_values.h - lists the values of terms with few values. */
#ifndef GALLOP_TEXT_GRAMMAR_SCHEMA_VALUES_H
#define GALLOP_TEXT_GRAMMAR_SCHEMA_VALUES_H

#include "text/grammar/schema/schema_compiler.h"

enum { SCHEMA_MOST_VALUES = 10 };

/* A list of values that differ from each other, as JSON Schema compares values. */
struct schema_values {
    const json_t *value[SCHEMA_MOST_VALUES]; /* [n] */
    size_t n;
};

/* Adds all values of TERM to V, and possibly other values. False: there are too many values, or they are
 * unknown. DEPTH: the number of enclosing terms. */
bool schema_values_add(struct schema_compiler *c, struct schema_values *v, uint32_t term, int depth);

#endif
