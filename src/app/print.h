/* print.h - standard output, and the progress bar on stderr.
 *
 * Printed text arrives, or the program reports an error and exits with 1. The functions that print do not fail: the
 * first failure is remembered, and later output is dropped. A verb that runs for long calls print_flush() after each
 * line or piece and stops when it fails; main() calls print_finish() at the end. A reader that is gone
 * (`gallop ... | head`) also ends the work, but without a message. Diagnostics go through base/log.h.
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

/* To be called once, before any file is opened: makes sure that no file gets descriptor 0, 1 or 2 because that was
 * closed at start. Printing to a closed standard output then fails. */
void print_init(void);

void print_bytes(const void *bytes, size_t n);
void print_text(const char *text);
void print_fmt(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Prints O as one line of JSON and releases it. print_json_value() does not release it and does not end the line. */
void print_json(json_t *o); /* takes O; NULL is reported once, and the exit status becomes 1 */
void print_json_value(const json_t *o);

/* A JSON string of text that need not be UTF-8: invalid bytes become U+FFFD. */
json_t *print_json_string(const char *text, size_t n);
json_t *print_json_ids(const struct tok_ids *ids);

void print_ids(const struct tok_ids *ids); /* "1,2,3" */

/* Writes buffered output. ERR_OS: output was lost. ERR_CANCELLED: the reader is gone, which is noticed even if there
 * was nothing to write. */
int print_flush(struct err *e);
bool print_reader_gone(void); /* a flush has noticed it; errors are not reported any more */

/* Sends later output to FILE, or with NULL to standard output again; buffered output that was not flushed is
 * dropped. */
struct save;
void print_to(struct save *file);

/* Returns the exit status of the program: STATUS, or 1 if output was lost, which is reported here unless a caller of
 * print_flush() got the error. */
int print_finish(int status);

/* Prints a line on standard error that is not a warning; nothing with --quiet. */
void print_remark(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* A progress bar, which is shown on a terminal after one second, unless --quiet is given. All members but WHAT
 * begin as zero. */
struct print_bar {
    const char *what;
    double start;
    bool shown;
};
void print_progress(void *bar, size_t done, size_t total); /* a gallop_progress */
void print_bar_end(struct print_bar *bar);                 /* wipes the line */

#endif
