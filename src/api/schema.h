/* schema.h - the JSON Schemas of answers, which /openapi.json collects from the table of routes. Each is
 * written beside the code that writes the answer.
 */
#ifndef GALLOP_API_SCHEMA_H
#define GALLOP_API_SCHEMA_H

struct schema {
    const char *name;
    const char *text;                 /* JSON with ' in place of " */
    const struct schema *const *uses; /* schemas that TEXT refers to, and NULL; NULL: none */
};

extern const struct schema schema_empty; /* an answer without a body */
extern const struct schema schema_text;  /* plain text */

#endif
