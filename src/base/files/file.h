/* file.h - writes small files atomically, completely or not at all, and creates the folders of files. */
#ifndef GALLOP_BASE_FILE_H
#define GALLOP_BASE_FILE_H

#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

enum { FILE_PATH_MAX = 4096 };

/* Creates or replaces the file PATH with BYTES [n] and MODE (modified by the umask). The file is written as
 * PATH.THREAD.part and renamed, so that other processes always see the old or the new contents, even if this
 * process crashes. It is not synced: after a crash of the machine the contents may be wrong. On failure
 * (ERR_OS; ERR_INPUT if the path is too long) PATH is unchanged. */
int file_replace(const char *path, const void *bytes, size_t n, mode_t mode, struct err *e);

/* Creates the missing folders above the file PATH with MODE (modified by the umask). ERR_OS; ERR_INPUT if the path is
 * too long. */
int file_make_folders(const char *path, mode_t mode, struct err *e);

#endif
