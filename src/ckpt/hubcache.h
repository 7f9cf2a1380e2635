/* hubcache.h - one repository in Hugging Face's cache, on disk.
 *
 *     CACHE/models--ORG--NAME/blobs/ETAG              the files by hash; ETAG.incomplete while they come
 *     CACHE/models--ORG--NAME/refs/REVISION           the commit that a branch or tag meant last
 *     CACHE/models--ORG--NAME/snapshots/COMMIT/FILE   a link to ../../blobs/ETAG; of a FILE in a subfolder,
 *                                                     to ../../../blobs/ETAG
 *     CACHE/.locks/models--ORG--NAME/ETAG.lock        held (flock) while a blob is fetched
 *
 * What huggingface_hub has downloaded is found here and the other way round. Nothing here knows a network.
 */
#ifndef GALLOP_CKPT_HUBCACHE_H
#define GALLOP_CKPT_HUBCACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "ckpt/hubid.h"

enum { HUBCACHE_PATH_MAX = 4096, HUBCACHE_ETAG_MAX = 129 };

struct hubcache {
    char repo[HUBCACHE_PATH_MAX / 2];  /* CACHE/models--ORG--NAME */
    char locks[HUBCACHE_PATH_MAX / 2]; /* CACHE/.locks/models--ORG--NAME */
};

/* Names the folders; touches nothing. */
int hubcache_open(struct hubcache *c, const char *cache, const struct hubid *id, struct err *e);

/* The commit that REVISION stands for, as far as the cache knows; a commit stands for itself. */
bool hubcache_commit(const struct hubcache *c, const char *revision, char commit[HUBID_COMMIT + 1]);

/* Remembers it. A REVISION that is the commit needs no memory. */
int hubcache_set_commit(const struct hubcache *c, const char *revision, const char *commit, struct err *e);

/* The folder of COMMIT to out[size]; with MAKE, it is there afterwards. */
int hubcache_snapshot(const struct hubcache *c, const char *commit, bool make, char *out, size_t size,
                      struct err *e);

/* The path of FILE in it to out[size]. */
int hubcache_file(const struct hubcache *c, const char *commit, const char *file, char *out, size_t size,
                  struct err *e);

/* The blob's path, or that of its unfinished file, to out[HUBCACHE_PATH_MAX]; the folder is made. */
int hubcache_blob(const struct hubcache *c, const char *etag, bool incomplete, char *out, struct err *e);

/* An ETag header as the name of a blob: W/ and quotes are cut off. False if no file can have that name. */
bool hubcache_etag(const char *header, char out[HUBCACHE_ETAG_MAX]);

/* COMMIT/FILE, at most one folder deep, becomes a link to the blob, at one stroke. */
int hubcache_link(const struct hubcache *c, const char *commit, const char *file, const char *etag,
                  struct err *e);

/* True: go on; *fd holds the blob's lock until it is closed, or is -1 where the file system knows no locks.
 * False: somebody else holds it, or *rc is the code of an error. */
bool hubcache_try_lock(const struct hubcache *c, const char *etag, int *fd, int *rc, struct err *e);

/* True if ETAG says what the bytes must be: 64 digits are a SHA-256, 40 are git's SHA-1 of a blob. */
bool hubcache_is_hash(const char *etag);

/* The bytes of PATH, read again from the disk, have the hash ETAG. ERR_INPUT if they have another. */
int hubcache_verify(const char *path, const char *etag, struct err *e);

#endif
