/* file.h - writes small files so that they are complete or not there. */
#ifndef GALLOP_BASE_FILE_H
#define GALLOP_BASE_FILE_H

#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

enum { FILE_PATH_MAX = 4096 };

/* Makes PATH a file with BYTES [n] and MODE (less the umask). It is written as PATH.THREAD.part and renamed,
 * so that other processes, also after a crash of this one, see the old file or the new one. After a crash of
 * the machine the file may hold anything. On failure ERR_OS or ERR_INPUT (the name is too long), and PATH is
 * unchanged. */
int file_replace(const char *path, const void *bytes, size_t n, mode_t mode, struct err *e);

#endif
