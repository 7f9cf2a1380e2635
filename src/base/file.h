/* file.h - small files that are there whole or not at all. */
#ifndef GALLOP_BASE_FILE_H
#define GALLOP_BASE_FILE_H

#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

enum { FILE_PATH_MAX = 4096 };

/* PATH holds BYTES [n] and has MODE (less the umask): written under another name of its folder
 * (PATH.THREAD.part) and renamed, so that others, and whoever comes behind a crash of the process, see the
 * old file or the new one. What a crash of the machine leaves is for the reader to prove. On failure ERR_OS
 * or ERR_INPUT (the name is too long), and PATH is as it was. */
int file_replace(const char *path, const void *bytes, size_t n, mode_t mode, struct err *e);

#endif
