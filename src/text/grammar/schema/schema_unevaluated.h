/* schema_unevaluated.h - computes which properties and elements the keywords of a schema evaluate, for
 * `unevaluatedProperties` and `unevaluatedItems`.
 *
 * This depends on which branches of the schema (anyOf, if ...) a value is valid under. A case is one choice
 * of branches: it has a condition, and the set of properties and elements that are evaluated if the condition
 * holds.
 */
#ifndef GALLOP_TEXT_GRAMMAR_SCHEMA_UNEVALUATED_H
#define GALLOP_TEXT_GRAMMAR_SCHEMA_UNEVALUATED_H

#include "text/grammar/schema/schema_compiler.h"

struct schema_case {
    uint32_t condition;  /* the values of this case: a term */
    const uint32_t *key; /* [n_keys] names of evaluated properties */
    size_t n_keys;
    uint32_t names; /* regular expression of further evaluated names */
    bool all_properties;
    size_t n_elements; /* number of evaluated elements at the start of the array */
    uint32_t elements; /* term: all elements in it are evaluated too */
    bool all_elements;
};

/* Sets *OUT to the cases of the schema JSON, and returns their number; 0 after an error. JSON's own
 * `unevaluatedProperties` and `unevaluatedItems` are ignored. */
size_t schema_cases(struct schema_compiler *c, const json_t *json, uint32_t resource,
                    const struct schema_case **out);

#endif
