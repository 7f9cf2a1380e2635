/* help.h - temporary folders, files, refusals and failing allocations for the tests of several folders. */
#ifndef TEST_HELP_H
#define TEST_HELP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* A new empty folder; its name goes to dir[64]. help_folder_remove() removes it with the files in it. */
void help_folder(char *dir);
void help_folder_remove(const char *dir);

void help_write(const char *dir, const char *file, const void *bytes, size_t len);

/* The whole of PATH, terminated by a zero byte that *len does not count; from mem_alloc(). */
char *help_read(const char *path, size_t *len);

/* Fails the test unless E says CODE and its sentence holds every word of the NULL-terminated list. */
void help_refused(int rc, int code, const struct err *e, ...) __attribute__((sentinel));

/* Calls open(ARG) with the first, second, third ... allocation failing until none fails: it must return
 * ERR_NOMEM each time and leave nothing allocated. open() closes what it opened when it succeeds. */
void help_every_allocation(int (*open)(void *arg, struct err *e), void *arg);

/* The folder of large test data outside the repository in out[512], or false when this machine has none. */
bool help_shared(char *out, const char *what);

#endif
