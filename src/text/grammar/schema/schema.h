/* schema.h - compiles a JSON Schema into a grammar of the JSON texts that are valid under it.
 *
 * Every text of the grammar is valid: a keyword that cannot be enforced is refused by name. Not every valid text
 * is in the grammar: properties come in the order of the schema, unknown ones after them, white space between
 * tokens is bounded (json_text.h), and numbers have the forms of json_number.h.
 *
 * Drafts 4 to 2020-12 are served; `$schema` says which one holds, and what earlier drafts alone define
 * (`definitions`, `dependencies`, an array as `items`) is read in every draft.
 */
#ifndef GALLOP_TEXT_GRAMMAR_SCHEMA_H
#define GALLOP_TEXT_GRAMMAR_SCHEMA_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "text/grammar/automata/grammar.h"

enum { SCHEMA_POINTER_BYTES = 512, SCHEMA_KEYWORD_BYTES = 64, SCHEMA_MOST_WARNINGS = 64 };

struct schema_options {
    bool is_loose;      /* keywords that are not served are left out, with a warning */
    bool without_space; /* no white space between tokens */
    /* A regular expression for the white space between tokens, which stays white space of JSON; NULL: the
     * default. */
    const char *space_pattern;
};

/* A keyword of a schema, and the JSON pointer to the schema that has it. Long ones are cut. */
struct schema_place {
    char keyword[SCHEMA_KEYWORD_BYTES];
    char pointer[SCHEMA_POINTER_BYTES];
};

struct schema_report {
    struct schema_place fault;    /* after an error; both empty: no keyword is at fault */
    struct schema_place *warning; /* [n] what was left out, the first SCHEMA_MOST_WARNINGS of it */
    size_t n, cap;
    bool has_more;
};

/* Adds to the open grammar G what SCHEMA describes: *START is the expression of whole texts. O may be NULL.
 * ERR_INPUT: SCHEMA is no schema; ERR_UNSUPPORTED: a keyword cannot be served, or no value is valid;
 * ERR_NOSPACE: a limit is reached; ERR_NOMEM. REPORT is zeroed by the caller, and freed by it in any case. */
int schema_compile(struct grammar *g, const json_t *schema, const struct schema_options *o, uint32_t *start,
                   struct schema_report *report, struct err *e);

void schema_report_fini(struct schema_report *report);

#endif
