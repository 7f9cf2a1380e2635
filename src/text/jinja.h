/* jinja.h - chat templates: an interpreter for the Jinja that Hugging Face's chat templates are written in.
 *
 * What a template sees is what transformers gives it: trim_blocks and lstrip_blocks, break and continue, {%
 * generation %}, tojson without HTML escapes, strftime_now, raise_exception, and values that print as Python
 * prints them. It runs in the same sandbox: nothing changes a list or dict, names with an underscore stay
 * hidden. There are no other templates to include, no random texts, no complex numbers, and integers end at
 * 16384 bits. A parsed template is immutable and may be rendered by many threads at once. A rendering is held
 * by limits, so that a hostile template cannot hang, crash or eat memory: 50 million steps (expressions,
 * statements, elements, and bytes touched, 64 of them a step), 256 MiB of values, 64 MiB of text, 2000 levels
 * of nesting; a template is at most 1 MiB, and parsing it has the same limits of steps and memory. Every
 * error is one sentence: "NAME line N: ...". What a template says with raise_exception is such an error too.
 */
#ifndef GALLOP_TEXT_JINJA_H
#define GALLOP_TEXT_JINJA_H

#include <jansson.h>
#include <stddef.h>
#include <time.h>

#include "base/buf.h"
#include "base/err.h"

struct jinja;

/* Parses SRC, LEN bytes of UTF-8, which may go away afterwards. NAME stands in messages ("chat_template
 * line 3: ..."). ERR_INPUT when it is no template; *out is then NULL. */
int jinja_parse(struct jinja **out, const char *src, size_t len, const char *name, struct err *e);

/* Renders with the members of the JSON object CONTEXT (borrowed) as variables and appends the text to OUT,
 * which is left alone on failure. NOW is what strftime_now formats: broken down time, taken as it is. */
int jinja_render(const struct jinja *j, json_t *context, const struct tm *now, struct buf *out,
                 struct err *e);

/* The same with the variables as JSON text, which alone can carry integers beyond 64 bits. WHERE names it
 * in messages. */
int jinja_render_text(const struct jinja *j, const char *json, size_t len, const char *where,
                      const struct tm *now, struct buf *out, struct err *e);

void jinja_free(struct jinja *j); /* NULL is fine */

struct jinja_limits;

/* As jinja_parse() and jinja_render(), within other limits (jinja_run.h): for tests and fuzzing. */
int jinja_parse_within(struct jinja **out, const char *src, size_t len, const char *name,
                       const struct jinja_limits *limit, struct err *e);
int jinja_render_within(const struct jinja *j, json_t *context, const struct tm *now,
                        const struct jinja_limits *limit, struct buf *out, struct err *e);

#endif
