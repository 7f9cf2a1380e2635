/* schematexts.h - compiles JSON Schemas in tests, and compares the texts that they accept with expected ones. */
#ifndef GALLOP_TEST_TEXT_SCHEMATEXTS_H
#define GALLOP_TEST_TEXT_SCHEMATEXTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "text/grammar/automata/recognizer.h"
#include "text/grammar/schema/schema.h"

enum { SCHEMATEXTS_MEMORY = 64 << 20, SCHEMATEXTS_STEPS = 1 << 21 };

/* A schema that is compiled, or the error. */
struct compiled {
    json_t *json;
    struct grammar grammar;
    struct recognizer recognizer;
    struct schema_report report;
    struct err e;
    int rc;
};

void schematexts_compile(struct compiled *x, const char *schema, const struct schema_options *o);
void schematexts_drop(struct compiled *x);

/* True if X accepts TEXT as a whole answer. */
bool schematexts_accepts(struct compiled *x, const char *text);

/* Texts of a schema: accepted ones first, then NULL, then others, then NULL. */
struct example {
    const char *schema;
    const char *text[16];
};

void schematexts_check(const struct example *example, size_t n, const struct schema_options *o);

/* The options with which every valid value is accepted, not only those that answers have. */
extern const struct schema_options schematexts_valid;

#endif
