/* schema_unevaluated.h - which properties and elements the keywords of a schema look at, for `unevaluatedProperties`
 * and `unevaluatedItems`.
 *
 * That depends on which of its branches hold for a value. The cases of a schema are these choices: each has a
 * condition, and what is looked at where it holds.
 */
#ifndef GALLOP_TEXT_GRAMMAR_SCHEMA_UNEVALUATED_H
#define GALLOP_TEXT_GRAMMAR_SCHEMA_UNEVALUATED_H

#include "text/grammar/schema/schema_compiler.h"

struct schema_case {
    uint32_t condition;  /* term */
    const uint32_t *key; /* [n_keys] names of properties */
    size_t n_keys;
    uint32_t names; /* more names, as a regular expression */
    bool all_properties;
    size_t n_elements; /* the first elements */
    uint32_t elements; /* and all in this term */
    bool all_elements;
};

/* The cases of the schema JSON, in *OUT: their number, 0 after a fault. The keywords `unevaluatedProperties` and
 * `unevaluatedItems` of JSON itself do not count. */
size_t schema_cases(struct schema_compiler *c, const json_t *json, uint32_t resource,
                    const struct schema_case **out);

#endif
