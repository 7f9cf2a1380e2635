/* out.h - standard output (or a file in its place), through which verbs print their results: what is printed
 * arrives, or the program says so and exits with 1.
 *
 * Printing never fails where it is done: the first failure is kept, and what follows is dropped. A verb that
 * goes on for long asks out_flush() after each line or piece and stops when it fails; main() asks for the
 * rest in out_finish(). A reader that is gone (`gallop ... | head`) ends the work too, but without a
 * sentence. One writer a process; diagnostics are base/err.h's.
 *
 *     out_fmt("%zu tokens\n", n);
 *     if ((rc = out_flush(e)) != 0)
 *         return rc;                      the verb ends as for any other error, with common_fail()
 */
#ifndef GALLOP_APP_OUT_H
#define GALLOP_APP_OUT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* Once, before any file is opened: makes sure that no file becomes descriptor 0, 1 or 2 because it was closed
 * when the program began. Printing to a closed standard output then fails. */
void out_init(void);

void out_bytes(const void *bytes, size_t n);
void out_text(const char *text);
void out_fmt(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Writes what is held back. ERR_OS with a sentence when something printed so far is lost; ERR_CANCELLED when
 * the reader is gone, seen even if there was nothing to write. */
int out_flush(struct err *e);
bool out_reader_gone(void); /* seen by a flush: nothing is worth saying any more */

/* From now on what is printed goes to FILE, or with NULL to standard output again; what is held back and was
 * not flushed is dropped. */
struct output;
void out_to(struct output *file);

/* The program's exit status: STATUS, or 1 when results were lost, which is said here if nobody was told. */
int out_finish(int status);

#endif
