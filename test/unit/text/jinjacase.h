/* jinjacase.h - helpers of the tests of templates: fixtures of test/data/templates, a fixed clock, one-line
 * renderings. */
#ifndef GALLOP_TEST_JINJACASE_H
#define GALLOP_TEST_JINJACASE_H

#include <time.h>

#include "base/buf.h"
#include "base/err.h"

extern const struct tm jinjacase_now; /* 26 July 2024, 12:00:00 */

/* Returns the path of the fixture NAME in a static buffer. */
const char *jinjacase_path(const char *name);

/* Returns the bytes of the fixture NAME, followed by a zero byte. mem_free(). The test fails if the file is
 * missing. */
char *jinjacase_read(const char *name, size_t *n);

/* Renders TEMPLATE with the members of the JSON object VARIABLES. Returns the code; OUT is initialized even
 * after an error. */
int jinjacase_render(const char *template, const char *variables, struct buf *out, struct err *e);

/* Runs the cases of a fixture {"context": {...}, "cases": [...]}. A case is {"template", "output"},
 * {"template", "error"}, or {"template", "refused": words of the message}. Returns the number of cases with
 * another result, and prints them if SHOW is set. *n_cases is the number of all cases. */
size_t jinjacase_run(const char *text, size_t n, size_t *n_cases, bool show);

/* Returns true if the rendering of TEMPLATE is exactly TEXT; otherwise prints the rendering. */
bool jinjacase_gives(const char *template, const char *variables, const char *text);

/* Returns true if TEMPLATE is refused with a message that contains WORDS. */
bool jinjacase_refused(const char *template, const char *variables, const char *words);

#endif
