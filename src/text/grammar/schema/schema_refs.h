/* schema_refs.h - identifiers inside a schema, and the schemas that references lead to. */
#ifndef GALLOP_TEXT_GRAMMAR_SCHEMA_REFS_H
#define GALLOP_TEXT_GRAMMAR_SCHEMA_REFS_H

#include "text/grammar/schema/schema_compiler.h"

/* Finds the draft, all identifiers, and whether multiples of numbers are asked for. */
void schema_refs_scan(struct schema_compiler *c, bool *has_multiples);

/* What references in the schema JSON are relative to, if it is RESOURCE for the schema that JSON is in. */
uint32_t schema_resource_of(const struct schema_compiler *c, const json_t *json, uint32_t resource);

/* The term of the subschema JSON of a schema with RESOURCE. */
uint32_t schema_subschema(struct schema_compiler *c, const json_t *json, uint32_t resource);

/* The term that KEYWORD of the schema AT, a reference, leads to. */
uint32_t schema_reference(struct schema_compiler *c, const json_t *at, const char *keyword,
                          uint32_t resource);

#endif
