/* schema.h - the JSON Schema of an answer. Each schema is defined in the file that writes the answer; routes.def names
 * it, and /openapi.json publishes it.
 */
#ifndef GALLOP_CHAT_SCHEMA_H
#define GALLOP_CHAT_SCHEMA_H

struct schema {
    const char *name;
    const char *text;                 /* the schema as JSON, with ' in place of " */
    const struct schema *const *uses; /* NULL-terminated list of schemas that TEXT refers to, or NULL */
};

extern const struct schema schema_empty; /* schema of answers without a body */
extern const struct schema schema_text;  /* schema of answers in plain text */

#endif
