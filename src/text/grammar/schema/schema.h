/* schema.h - compiles a JSON Schema into a grammar of the JSON texts that are valid under it.
 *
 * Every text of the grammar is valid: a keyword that cannot be enforced causes an error. Not every valid
 * text is in the grammar: properties come in the order of the schema, unknown properties after them, white
 * space between tokens is bounded (json_text.h), and numbers have the spellings of json_number.h.
 *
 * Drafts 4 to 2020-12 are supported. `$schema` selects the draft. Keywords that only earlier drafts define
 * (`definitions`, `dependencies`, an array as `items`) are read in every draft.
 */
#ifndef GALLOP_TEXT_GRAMMAR_SCHEMA_H
#define GALLOP_TEXT_GRAMMAR_SCHEMA_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct grammar;

enum { SCHEMA_POINTER_BYTES = 512, SCHEMA_KEYWORD_BYTES = 64, SCHEMA_MOST_WARNINGS = 64 };

struct schema_options {
    bool is_loose;      /* unsupported keywords are ignored, with a warning */
    bool without_space; /* no white space between tokens */
    /* Names of `properties` and values of `enum` and `const` have every spelling of JSON, as in 1, 1.0 and 1e0,
     * instead of the one of the schema. */
    bool every_spelling;
    /* Objects may have any further property that the schema allows. Otherwise, if a schema has `properties` or
     * `patternProperties`, its objects have only properties that some keyword describes, in this schema or another one,
     * as if `additionalProperties` were false by default. */
    bool is_open;
    /* A regular expression for the white space between tokens; NULL: the default. */
    const char *space_pattern;
    /* A JSON pointer to the schema, which precedes the pointers of faults and warnings; NULL: it is the root. */
    const char *pointer;
    bool is_object; /* only objects are valid, whatever the schema allows */
    /* A text that no string contains, unless the schema has it in `enum`, `const` or a name; NULL: none. */
    const char *excluded;
};

/* A keyword of a schema, and the JSON pointer to the schema that contains it. Long strings are cut. */
struct schema_place {
    char keyword[SCHEMA_KEYWORD_BYTES];
    char pointer[SCHEMA_POINTER_BYTES];
};

/* A rule of the grammar, and the JSON pointer to its schema. */
struct schema_rule {
    uint32_t number;
    char *pointer; /* owned */
};

enum { SCHEMA_RULES_BYTES = 64 << 10 /* maximum bytes of the pointers of a report's rules, about */ };

struct schema_report {
    struct schema_place fault;    /* the place of the error; both empty: the error has no place */
    struct schema_place *warning; /* [n] the first ignored keywords, at most SCHEMA_MOST_WARNINGS */
    size_t n, cap;
    bool has_more;            /* more keywords than those in WARNING were ignored */
    struct schema_rule *rule; /* [n_rules] rules of schemas that allow arrays or objects */
    size_t n_rules, cap_rules;
};

/* Adds the texts that are valid under SCHEMA to the open grammar G; *START is their expression. O may be
 * NULL. ERR_INPUT: SCHEMA is malformed. ERR_UNSUPPORTED: a keyword is not supported. ERR_NOSPACE: a limit is
 * reached. The caller zeroes REPORT before and frees it after the call. */
int schema_compile(struct grammar *g, const json_t *schema, const struct schema_options *o, uint32_t *start,
                   struct schema_report *report, struct err *e);

void schema_report_fini(struct schema_report *report);

#endif
