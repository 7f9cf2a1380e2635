/* print.h - standard output, and the progress bar on stderr.
 *
 * What is printed arrives, or the program says so and exits with 1. Printing never fails where it is done:
 * the first failure is kept, and what follows is dropped. A verb that goes on for long calls print_flush()
 * after each line or piece and stops when it fails; main() asks for the rest in print_finish(). A reader that
 * is gone (`gallop ... | head`) ends the work too, but without a sentence. Diagnostics are base/err.h's.
 *
 *     print_fmt("%zu tokens\n", n);
 *     if ((rc = print_flush(e)) != 0)
 *         return rc;                      the verb ends as for any other error */
#ifndef GALLOP_APP_PRINT_H
#define GALLOP_APP_PRINT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "text/tok/tok.h"

/* Once, before any file is opened: makes sure that no file becomes descriptor 0, 1 or 2 because it was closed
 * when the program began. Printing to a closed standard output then fails. */
void print_init(void);

void print_bytes(const void *bytes, size_t n);
void print_text(const char *text);
void print_fmt(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* O as one line of JSON; drops O. The other one drops nothing and ends no line. */
void print_json(json_t *o); /* takes O; NULL is said once, and the exit status becomes 1 */
void print_json_value(const json_t *o);

/* A string for print_json() of what may not be UTF-8: U+FFFD stands where it is not. */
json_t *print_json_string(const char *text, size_t n);
json_t *print_json_ids(const struct tok_ids *ids);

void print_ids(const struct tok_ids *ids); /* "1,2,3" */

/* Writes what is held back. ERR_OS with a sentence when something printed so far is lost; ERR_CANCELLED when
 * the reader is gone, seen even if there was nothing to write. */
int print_flush(struct err *e);
bool print_reader_gone(void); /* seen by a flush: nothing is worth saying any more */

/* From now on what is printed goes to FILE, or with NULL to standard output again; what is held back and was
 * not flushed is dropped. */
struct save;
void print_to(struct save *file);

/* The program's exit status: STATUS, or 1 when results were lost, which is said here unless a caller of
 * print_flush() has the sentence. */
int print_finish(int status);

/* A line on standard error that is no warning; nothing with --quiet. */
void print_remark(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* A bar on a terminal once a second has passed, unless --quiet. Begins zeroed but for WHAT. */
struct print_bar {
    const char *what;
    double start;
    bool shown;
};
void print_progress(void *bar, size_t done, size_t total); /* a gallop_progress */
void print_bar_end(struct print_bar *bar);                 /* wipes the line */

#endif
