/* cache.h - Hugging Face's cache on disk. The paths of one repository:
 *
 *     CACHE/models--ORG--NAME/blobs/ETAG              a file, named by its hash; ETAG.incomplete during
 *                                                     the download
 *     CACHE/models--ORG--NAME/refs/REVISION           the last known commit of a branch or tag
 *     CACHE/models--ORG--NAME/snapshots/COMMIT/FILE   a link to ../../blobs/ETAG; for a FILE in a subfolder,
 *                                                     to ../../../blobs/ETAG
 *     CACHE/.locks/models--ORG--NAME/ETAG.lock        locked (flock) while a blob is downloaded
 *
 * The layout equals that of huggingface_hub, so that either program uses files that the other downloaded.
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

/* Sets the paths in *C to the folders of ID in the folder CACHE, without access to the disk. */
int hub_cache_open(struct hub_cache *c, const char *cache, const struct hub_name *id, struct err *e);

/* Looks up the commit of REVISION in the cache; if REVISION is a commit itself, copies it. Returns false if
 * the cache does not know the revision. */
bool hub_cache_commit(const struct hub_cache *c, const char *revision, char commit[HUB_NAME_COMMIT + 1]);

/* Stores COMMIT as the commit of REVISION, unless REVISION is a commit. */
int hub_cache_set_commit(const struct hub_cache *c, const char *revision, const char *commit, struct err *e);

/* Writes the path of the snapshot folder of COMMIT to out[size]. */
int hub_cache_snapshot(const struct hub_cache *c, const char *commit, char *out, size_t size, struct err *e);

/* Writes the path of FILE in the snapshot folder of COMMIT to out[size]. */
int hub_cache_file(const struct hub_cache *c, const char *commit, const char *file, char *out, size_t size,
                   struct err *e);

/* Writes the path of the blob, or of the incomplete file of its download, to out[HUB_CACHE_PATH_MAX], and
 * creates its folder. */
int hub_cache_blob(const struct hub_cache *c, const char *etag, bool incomplete, char *out, struct err *e);

/* Converts the value of an ETag header to the name of a blob by removing W/ and quotes. Returns false if the
 * result is not a valid file name. */
bool hub_cache_etag(const char *header, char out[HUB_CACHE_ETAG_MAX]);

/* Replaces FILE in the snapshot of COMMIT by a link to the blob, atomically. FILE has at most one folder. */
int hub_cache_link(const struct hub_cache *c, const char *commit, const char *file, const char *etag,
                   struct err *e);

/* Tries to lock the blob ETAG; the lock is held until *fd is closed. On a file system without locks, sets *fd to -1 and
 * returns true. Returns false if another process has the lock (*rc is 0) or an error occurred (*rc is its code). */
bool hub_cache_try_lock(const struct hub_cache *c, const char *etag, int *fd, int *rc, struct err *e);

/* Returns true if ETAG is a hash: 64 hexadecimal digits are a SHA-256, 40 digits are git's SHA-1 of a blob. */
bool hub_cache_is_hash(const char *etag);

/* Reads the file PATH and compares its hash with ETAG. ERR_INPUT if they differ. */
int hub_cache_verify(const char *path, const char *etag, struct err *e);

#endif
