/* help.h - temporary folders, files, refusals and failing allocations for the tests of several folders. */
#ifndef TEST_HELP_H
#define TEST_HELP_H

#include "base/err.h"

/* Creates an empty folder and writes its name to dir[64]. help_folder_remove() removes it with the files in
 * it. */
void help_folder(char *dir);
void help_folder_remove(const char *dir);

void help_write(const char *dir, const char *file, const void *bytes, size_t len);

/* Reads the file PATH, terminated by a zero byte that *len does not count; from mem_alloc(). */
char *help_read(const char *path, size_t *len);

/* Fails the test unless RC and E have CODE and the sentence of E contains every word of the NULL-terminated
 * list. */
void help_refused(int rc, int code, const struct err *e, ...) __attribute__((sentinel));

/* Calls open(ARG) with the first, second, third ... allocation failing until none fails: it must return
 * ERR_NOMEM each time and leave no memory allocated. open() closes its objects when it succeeds. */
void help_every_allocation(int (*open)(void *arg, struct err *e), void *arg);

/* Writes the path of WHAT in the folder of large test data outside the repository to out[512]. False: it does
 * not exist. */
bool help_shared(char *out, const char *what);

#endif
