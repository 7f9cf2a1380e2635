/* jinjacase.h - what the tests of templates share: fixtures of test/data/templates, a fixed clock,
 * one-line renderings. */
#ifndef GALLOP_TEST_JINJACASE_H
#define GALLOP_TEST_JINJACASE_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include "base/buf.h"
#include "base/err.h"

extern const struct tm jinjacase_now; /* 26 July 2024, 12:00:00 */

/* Path of fixture NAME, in a buffer of the function's own. */
const char *jinjacase_path(const char *name);

/* The bytes of fixture NAME, zero-terminated, for mem_free(). The test fails if it is not there. */
char *jinjacase_read(const char *name, size_t *n);

/* Renders TEMPLATE with the members of the JSON object VARIABLES. Returns the code; OUT is initialised
 * either way. */
int jinjacase_render(const char *template, const char *variables, struct buf *out, struct err *e);

/* Runs the cases of the fixture TEXT, {"context": {...}, "cases": [{"template", "output"}, {"template",
 * "error"} or {"template", "refused": words of the message}...]}. Returns how many come to something else,
 * and SHOWs those; *n_cases is how many there are. */
size_t jinjacase_run(const char *text, size_t n, size_t *n_cases, bool show);

/* True when TEMPLATE comes to exactly TEXT; prints what it comes to otherwise. */
bool jinjacase_gives(const char *template, const char *variables, const char *text);

/* True when TEMPLATE is refused with a message that contains WORDS. */
bool jinjacase_refused(const char *template, const char *variables, const char *words);

#endif
