/* jinja.h - chat templates: an interpreter for the part of Jinja that Hugging Face's chat templates use.
 *
 * Templates run in the environment of transformers: trim_blocks and lstrip_blocks, break and continue, {% generation
 * %}, tojson without HTML escapes, strftime_now, raise_exception, and values that print as in Python. They run in the
 * same sandbox: lists and dicts cannot be changed, and names with underscores are hidden. The interpreter has the tags
 * if, for, set, macro, call, filter, generation, raw, break and continue, and the filters, tests, methods and functions
 * in the tables of filters.c, string_methods.c, methods.c and functions.c. Anything else of Jinja and Python is an
 * error that gives its name and line. Integers of any size are read, compared and printed; arithmetic is on 64 bits,
 * and a larger result is an error.
 *
 * A parsed template is immutable and may be rendered by many threads at once. Limits keep a hostile template from
 * hanging, crashing or exhausting memory. A rendering may take 50 million steps, which take a few seconds of a
 * processor; a step is an expression, a statement or an element, or 64 bytes that are copied or compared, or 2 to 16
 * bytes that are inspected one by one. It may use 256 MiB of values, 64 MiB of text and 2000 levels of nesting. A
 * template may have 1 MiB, and parsing it has the same limits of steps and memory. Every error is one sentence: "NAME
 * line N: ...". The message of raise_exception is such an error, too.
 */
#ifndef GALLOP_TEXT_JINJA_JINJA_H
#define GALLOP_TEXT_JINJA_JINJA_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "base/err.h"

struct buf;
struct jinja;

struct jinja_limits {
    uint64_t steps;
    size_t bytes;  /* memory of values and intermediate strings */
    size_t output; /* size of the rendered text in bytes */
    int depth;     /* nested macros, statements, expressions and values */
};

/* Parses SRC (LEN bytes of UTF-8, which may be freed afterwards) within LIMIT (NULL: the limits above). NAME
 * is for messages ("chat_template line 3: ..."); messages of rendering have only the part of NAME after the
 * last slash. ERR_INPUT: SRC is not a template; *OUT is then NULL. */
int jinja_parse(struct jinja **out, const char *src, size_t len, const char *name,
                const struct jinja_limits *limit, struct err *e);

/* Renders J with the members of the JSON object CONTEXT (borrowed) as variables, within LIMIT (NULL: the
 * limits above), and appends the text to OUT. OUT does not change on failure. NOW is the broken-down time
 * that strftime_now formats; it is not converted to another time zone. */
int jinja_render(const struct jinja *j, json_t *context, const struct tm *now,
                 const struct jinja_limits *limit, struct buf *out, struct err *e);

/* Renders as jinja_render() does, and appends a byte to ORIGIN for each byte of the text: 0 if it comes from
 * the template, 1 if it comes from CONTEXT, also through filters. A member of CONTEXT that equals the member
 * of OWN (an object, or NULL) counts as text of the template. On failure ORIGIN does not change. */
int jinja_render_marked(const struct jinja *j, json_t *context, const json_t *own, const struct tm *now,
                        struct buf *out, struct buf *origin, struct err *e);

void jinja_free(struct jinja *j); /* J may be NULL */

#endif
