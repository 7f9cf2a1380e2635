/* help.h - checks of an error and its sentence, and a call with every allocation failing in turn. */
#ifndef GALLOP_TEST_HELP_H
#define GALLOP_TEST_HELP_H

#include "base/err.h"

/* Fails the test unless RC and E have CODE and the sentence of E contains every word of the NULL-terminated
 * list. */
void help_refused(int rc, int code, const struct err *e, ...) __attribute__((sentinel));

/* Calls open(ARG) with the first, second, third ... allocation failing until none fails: it must return
 * ERR_NOMEM each time and leave no memory allocated. open() closes its objects when it succeeds. */
void help_every_allocation(int (*open)(void *arg, struct err *e), void *arg);

/* Returns true if F aborts and writes all of TEXT to standard error. */
bool help_aborts(void (*f)(void), const char *text);

/* Collects what is written to standard error until help_said(), which returns it in a static buffer. */
void help_listen(void);
const char *help_said(void);

#endif
