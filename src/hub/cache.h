/* cache.h - Hugging Face's cache on disk. One repository in it:
 *
 *     CACHE/models--ORG--NAME/blobs/ETAG              the files by hash; ETAG.incomplete during the download
 *     CACHE/models--ORG--NAME/refs/REVISION           the last known commit of a branch or tag
 *     CACHE/models--ORG--NAME/snapshots/COMMIT/FILE   a link to ../../blobs/ETAG; for a FILE in a subfolder,
 *                                                     to ../../../blobs/ETAG
 *     CACHE/.locks/models--ORG--NAME/ETAG.lock        locked (flock) while a blob is downloaded
 *
 * Files that huggingface_hub has downloaded are found here, and the other way round.
 */
#ifndef GALLOP_HUB_CACHE_H
#define GALLOP_HUB_CACHE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "hub/name.h"

enum { HUB_CACHE_PATH_MAX = 4096, HUB_CACHE_ETAG_MAX = 129 };

struct hub_cache {
    char repo[HUB_CACHE_PATH_MAX / 2];  /* CACHE/models--ORG--NAME */
    char locks[HUB_CACHE_PATH_MAX / 2]; /* CACHE/.locks/models--ORG--NAME */
};

/* Sets the names of the folders. Creates and reads nothing. */
int hub_cache_open(struct hub_cache *c, const char *cache, const struct hub_name *id, struct err *e);

/* Looks up the commit of REVISION in the cache. A commit is its own revision. False: not known. */
bool hub_cache_commit(const struct hub_cache *c, const char *revision, char commit[HUB_NAME_COMMIT + 1]);

/* Stores COMMIT as the commit of REVISION, unless REVISION is a commit. */
int hub_cache_set_commit(const struct hub_cache *c, const char *revision, const char *commit, struct err *e);

/* Writes the path of the folder of COMMIT to out[size]. */
int hub_cache_snapshot(const struct hub_cache *c, const char *commit, char *out, size_t size, struct err *e);

/* Writes the path of FILE in that folder to out[size]. */
int hub_cache_file(const struct hub_cache *c, const char *commit, const char *file, char *out, size_t size,
                   struct err *e);

/* Writes the path of the blob, or of its unfinished file, to out[HUB_CACHE_PATH_MAX], and creates its
 * folder. */
int hub_cache_blob(const struct hub_cache *c, const char *etag, bool incomplete, char *out, struct err *e);

/* Turns an ETag header into the name of a blob: removes W/ and quotes. False: the result cannot be the name
 * of a file. */
bool hub_cache_etag(const char *header, char out[HUB_CACHE_ETAG_MAX]);

/* Makes COMMIT/FILE, which is at most one folder deep, a link to the blob, atomically. */
int hub_cache_link(const struct hub_cache *c, const char *commit, const char *file, const char *etag,
                   struct err *e);

/* Locks the blob until *fd is closed. *fd is -1 on a file system without locks. False: another process has
 * the lock, or *rc is the code of an error. */
bool hub_cache_try_lock(const struct hub_cache *c, const char *etag, int *fd, int *rc, struct err *e);

/* True if ETAG is a hash: 64 digits are a SHA-256, 40 digits are git's SHA-1 of a blob. */
bool hub_cache_is_hash(const char *etag);

/* Reads PATH from the disk again and compares its hash with ETAG. ERR_INPUT if they differ. */
int hub_cache_verify(const char *path, const char *etag, struct err *e);

#endif
