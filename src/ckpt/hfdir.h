/* hfdir.h - names inside a checkpoint folder, and the proof that they stay inside it.
 *
 * A checkpoint comes from strangers: an index may name "../../etc/passwd", an unpacked archive may hold a
 * symbolic link to anywhere. Every file of a folder is reached through hfdir_path(). One layout of links is
 * allowed, that of the Hugging Face cache: models--X/snapshots/REVISION/file points into models--X/blobs/,
 * and what lies there may point into the blobs/ beside models--X.
 */
#ifndef GALLOP_CKPT_HFDIR_H
#define GALLOP_CKPT_HFDIR_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum { HFDIR_PATH_MAX = 4096 };

/* Writes DIR/FILE to out[size]. ERR_INPUT if FILE is empty, has a '/' or a control character, is "." or
 * "..", or is a link that leads out of DIR; a file that does not exist is no error here: whoever opens it
 * reports it. */
int hfdir_path(char *out, size_t size, const char *dir, const char *file, struct err *e);

/* True if DIR/FILE is a regular file, also through a link (whether the link may be followed is
 * hfdir_path()'s word). */
bool hfdir_has(const char *dir, const char *file);

/* The names in DIR that end with SUFFIX: *n counts them, and the first in byte order is written to
 * first[size]. A DIR that cannot be read is an error that names it. */
int hfdir_find(const char *dir, const char *suffix, char *first, size_t size, size_t *n, struct err *e);

#endif
