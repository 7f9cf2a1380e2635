/* cache.h - the folder of files that Gallop can make again: packed checkpoints and compiled programs.
 *
 * It is $XDG_CACHE_HOME/gallop, else ~/.cache/gallop. Hugging Face's cache (hub/cache.h) is another folder.
 */
#ifndef GALLOP_BASE_CACHE_H
#define GALLOP_BASE_CACHE_H

#include <stddef.h>

#include "base/err.h"

/* Writes the path of FILE in the subfolder FOLDER of the cache folder to OUT [size], without access to the disk.
 * ERR_INPUT: the environment names no cache folder, or the path is too long. */
int cache_path(char *out, size_t size, const char *folder, const char *file, struct err *e);

/* Creates the missing folders above PATH, which cache_path() wrote, for their owner alone (mode 0700). ERR_OS. */
int cache_make_folders(const char *path, struct err *e);

#endif
