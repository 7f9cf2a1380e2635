/* ckpthelp.h - what the tests of the checkpoint floor share: temporary folders, files, fixtures and their
 * expectations. */
#ifndef TEST_CKPTHELP_H
#define TEST_CKPTHELP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/err.h"
#include "ckpt/tensor_file.h"

#define FIXTURES GALLOP_SOURCE_DIR "/test/data/ckpt"

/* A new empty folder; its name goes to dir[64]. help_folder_remove() removes it with the files in it. */
void help_folder(char *dir);
void help_folder_remove(const char *dir);

void help_write(const char *dir, const char *file, const void *bytes, size_t len);

/* The whole of PATH, terminated by a zero byte that *len does not count; from mem_alloc(). */
char *help_read(const char *path, size_t *len);

/* Fails the test unless E says CODE and its sentence holds every word of the NULL-terminated list. */
void help_refused(int rc, int code, const struct err *e, ...) __attribute__((sentinel));

/* Reads every element of V and adds up its bytes, so that the sanitizers see any that lies elsewhere. */
uint64_t help_touch(const struct view *v);

/* The element I (row-major) as a number, whatever the type and the strides. */
double help_element(const struct view *v, size_t i);

/* True if V has this dtype, shape and these values (exactly); else why[200] says what differs. */
bool help_same(const struct view *v, const char *dtype, const size_t *shape, int n_dims, const double *value,
               char *why);

/* Opens DIR with weights_open() and fails unless kind and tensors are exactly those of DIR/expect.json. */
void help_expect(const char *dir);

/* Calls open(ARG) with the first, second, third ... allocation failing until none fails: it must return
 * ERR_NOMEM each time and leave nothing allocated. open() closes what it opened when it succeeds. */
void help_every_allocation(int (*open)(void *arg, struct err *e), void *arg);

/* The folder of large test data outside the repository in out[512], or false when this machine has none. */
bool help_shared(char *out, const char *what);

#endif
