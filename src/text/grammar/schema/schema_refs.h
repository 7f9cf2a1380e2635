/* schema_refs.h - finds identifiers inside a schema, and resolves references to schemas. */
#ifndef GALLOP_TEXT_GRAMMAR_SCHEMA_REFS_H
#define GALLOP_TEXT_GRAMMAR_SCHEMA_REFS_H

#include "text/grammar/schema/schema_compiler.h"

/* Determines the draft, registers all identifiers, and sets *HAS_MULTIPLES if `multipleOf` occurs. */
void schema_refs_scan(struct schema_compiler *c, bool *has_multiples);

/* Returns the resource against which `$ref` in JSON is resolved. RESOURCE is the resource of the enclosing schema. */
uint32_t schema_resource_of(const struct schema_compiler *c, const json_t *json, uint32_t resource);

/* Returns the term of JSON, a subschema of a schema that belongs to the resource RESOURCE. */
uint32_t schema_subschema(struct schema_compiler *c, const json_t *json, uint32_t resource);

/* Returns the term of the schema that KEYWORD of the schema AT refers to. */
uint32_t schema_reference(struct schema_compiler *c, const json_t *at, const char *keyword,
                          uint32_t resource);

#endif
