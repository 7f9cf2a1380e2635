/* jinja.h - chat templates: an interpreter for the Jinja that Hugging Face's chat templates are written in.
 *
 * Templates see what transformers gives them: trim_blocks and lstrip_blocks, break and continue,
 * {% generation %}, tojson without HTML escapes, strftime_now, raise_exception, and values that print as
 * Python prints them. They run in the same sandbox: nothing changes a list or dict, and names with
 * underscores are hidden. The interpreter has what templates in use need: the tags if, for, set, macro, call,
 * filter, generation, raw, break and continue, and the filters, tests, methods and functions in the tables of
 * filters.c, string_methods.c, methods.c and functions.c. The rest of Jinja and of Python is refused by name
 * and line. Integers of any size are read, compared and written; arithmetic has 64 bits, and a larger result
 * is an error.
 *
 * A parsed template is immutable and may be rendered by many threads at once. A rendering has limits, so that
 * a hostile template cannot hang, crash or exhaust memory: 50 million steps (expressions, statements,
 * elements, and bytes: 64 bytes a step where they are copied or compared, 2 to 16 where each is inspected),
 * which is a few seconds of a processor; 256 MiB of values, 64 MiB of text, 2000 levels of nesting. A
 * template has at most 1 MiB, and parsing it has the same limits of steps and memory. Every error is one
 * sentence: "NAME line N: ...". The message of raise_exception is such an error, too.
 */
#ifndef GALLOP_TEXT_JINJA_JINJA_H
#define GALLOP_TEXT_JINJA_JINJA_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "base/buf.h"
#include "base/err.h"

struct jinja;

struct jinja_limits {
    uint64_t steps;
    size_t bytes;  /* of values and intermediate strings */
    size_t output; /* bytes of the rendered text */
    int depth;     /* of nested macros, statements, expressions and values */
};

/* Parses SRC, LEN bytes of UTF-8, which may be freed afterwards, within LIMIT (NULL: the limits above). NAME
 * is for messages ("chat_template line 3: ..."); messages of rendering have only the part after its last
 * slash. ERR_INPUT if SRC is not a template; *out is then NULL. */
int jinja_parse(struct jinja **out, const char *src, size_t len, const char *name,
                const struct jinja_limits *limit, struct err *e);

/* Renders with the members of the JSON object CONTEXT (borrowed) as variables, within LIMIT (NULL: the limits
 * above), and appends the text to OUT, which does not change on failure. NOW is the broken-down time that
 * strftime_now formats, without a change of its zone. */
int jinja_render(const struct jinja *j, json_t *context, const struct tm *now,
                 const struct jinja_limits *limit, struct buf *out, struct err *e);

/* The same; ORIGIN gets a byte for each byte of the text, which is 0 if the template wrote it, and 1 if it
 * came from CONTEXT, through any filters. Members of CONTEXT that are equal to those of OWN (an object, or
 * NULL) count as the template's. On failure ORIGIN does not change, either. */
int jinja_render_marked(const struct jinja *j, json_t *context, const json_t *own, const struct tm *now,
                        struct buf *out, struct buf *origin, struct err *e);

void jinja_free(struct jinja *j); /* NULL is fine */

#endif
