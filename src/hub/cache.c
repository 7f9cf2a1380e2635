/* cache.c - folders, links, locks and hashes of the hub's cache.
 *
 * Locks only prevent double downloads; correctness does not depend on them, because some network file systems
 * grant flock() to every process. A blob gets its name by rename() after its bytes were read back and hashed,
 * so two processes that write the same incomplete file can only make the download fail and start again.
 * Layout and names follow huggingface_hub ("Manage huggingface_hub cache-system" in its documentation).
 */
#include "hub/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/files/file.h"
#include "base/mem.h"

enum { CHUNK = 1 << 20, FOLDER_MODE = 0777 /* as huggingface_hub creates them */ };

/* ---- paths ---- */

/* Formats a path into out[size]. ERR_INPUT if it does not fit. */
__attribute__((format(printf, 4, 5))) static int put_path(char *out, size_t size, struct err *e,
                                                          const char *fmt, ...)
{
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(out, size, fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= size)
        return err_set(e, ERR_INPUT, "%.200s...: the path is longer than %zu bytes", out, size);
    return 0;
}

int hub_cache_open(struct hub_cache *c, const char *cache, const struct hub_name *id, struct err *e)
{
    char folder[2 * HUB_NAME_REPO_MAX];
    int rc;

    if (!hub_name_folder(id, folder, sizeof(folder)))
        return err_set(e, ERR_INPUT, "%s: the name is too long", id->repo);
    if ((rc = put_path(c->repo, sizeof(c->repo), e, "%s/%s", cache, folder)) != 0)
        return rc;
    return put_path(c->locks, sizeof(c->locks), e, "%s/.locks/%s", cache, folder);
}

int hub_cache_snapshot(const struct hub_cache *c, const char *commit, char *out, size_t size, struct err *e)
{
    return put_path(out, size, e, "%s/snapshots/%s", c->repo, commit);
}

int hub_cache_file(const struct hub_cache *c, const char *commit, const char *file, char *out, size_t size,
                   struct err *e)
{
    return put_path(out, size, e, "%s/snapshots/%s/%s", c->repo, commit, file);
}

int hub_cache_blob(const struct hub_cache *c, const char *etag, bool incomplete, char *out, struct err *e)
{
    int rc =
        put_path(out, HUB_CACHE_PATH_MAX, e, "%s/blobs/%s%s", c->repo, etag, incomplete ? ".incomplete" : "");

    return rc ? rc : file_make_folders(out, FOLDER_MODE, e);
}

bool hub_cache_etag(const char *header, char out[HUB_CACHE_ETAG_MAX])
{
    static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
    size_t n;

    if (strncmp(header, "W/", 2) == 0)
        header += 2;
    n = strlen(header);
    if (n >= 2 && header[0] == '"' && header[n - 1] == '"') {
        header++;
        n -= 2;
    }
    if (n == 0 || n >= HUB_CACHE_ETAG_MAX || header[0] == '.' || strspn(header, good) < n)
        return false;
    memcpy(out, header, n);
    out[n] = 0;
    return true;
}

/* ---- refs ---- */

bool hub_cache_commit(const struct hub_cache *c, const char *revision, char commit[HUB_NAME_COMMIT + 1])
{
    char path[HUB_CACHE_PATH_MAX], text[HUB_NAME_COMMIT + 2];
    ssize_t n;
    int fd;

    if (hub_name_is_commit(revision)) {
        memcpy(commit, revision, HUB_NAME_COMMIT + 1);
        return true;
    }
    if (put_path(path, sizeof(path), NULL, "%s/refs/%s", c->repo, revision) != 0 ||
        (fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)) < 0)
        return false;
    n = read(fd, text, sizeof(text));
    close(fd);
    if (n != HUB_NAME_COMMIT && (n != HUB_NAME_COMMIT + 1 || text[HUB_NAME_COMMIT] != '\n'))
        return false;
    memcpy(commit, text, HUB_NAME_COMMIT);
    commit[HUB_NAME_COMMIT] = 0;
    return hub_name_is_commit(commit);
}

int hub_cache_set_commit(const struct hub_cache *c, const char *revision, const char *commit, struct err *e)
{
    char path[HUB_CACHE_PATH_MAX], known[HUB_NAME_COMMIT + 1];
    int rc;

    if (hub_cache_commit(c, revision, known) && strcmp(known, commit) == 0)
        return 0;
    if ((rc = put_path(path, sizeof(path), e, "%s/refs/%s", c->repo, revision)) != 0 ||
        (rc = file_make_folders(path, FOLDER_MODE, e)) != 0)
        return rc;
    return file_replace(path, commit, HUB_NAME_COMMIT, 0666, e);
}

/* ---- links ---- */

int hub_cache_link(const struct hub_cache *c, const char *commit, const char *file, const char *etag,
                   struct err *e)
{
    char path[HUB_CACHE_PATH_MAX], temp[HUB_CACHE_PATH_MAX], target[HUB_CACHE_ETAG_MAX + 16];
    const char *up = strchr(file, '/') ? "../" : "";
    char blob[HUB_CACHE_PATH_MAX];
    uint64_t number; /* number in the temporary name: threads and containers may share a process id */
    int rc = hub_cache_file(c, commit, file, path, sizeof(path), e);

    if (getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number))
        return err_os(e, "draw", "a random number");
    if (rc == 0)
        rc = put_path(temp, sizeof(temp), e, "%s/snapshots/%s/.%016llx.tmp", c->repo, commit,
                      (unsigned long long)number);
    if (rc || (rc = file_make_folders(path, FOLDER_MODE, e)) != 0)
        return rc;
    snprintf(target, sizeof(target), "%s../../blobs/%s", up, etag);
    if (symlink(target, temp) == 0) {
        if (rename(temp, path) == 0)
            return 0;
        rc = err_os(e, "make the link", path);
        unlink(temp);
        return rc;
    }
    if (errno != EPERM && errno != ENOTSUP && errno != ENOSYS)
        return err_os(e, "make a link in", path);
    /* The file system has no symbolic links: the blob itself is moved to the snapshot. */
    if ((rc = hub_cache_blob(c, etag, false, blob, e)) != 0)
        return rc;
    return rename(blob, path) == 0 ? 0 : err_os(e, "move the file to", path);
}

/* ---- locks ---- */

bool hub_cache_try_lock(const struct hub_cache *c, const char *etag, int *fd, int *rc, struct err *e)
{
    char path[HUB_CACHE_PATH_MAX];
    struct stat held, named;

    *fd = -1;
    if ((*rc = put_path(path, sizeof(path), e, "%s/%s.lock", c->locks, etag)) != 0 ||
        (*rc = file_make_folders(path, FOLDER_MODE, e)) != 0)
        return false;
    *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0664);
    if (*fd < 0) {
        *rc = err_os(e, "open the lock", path);
        return false;
    }
    errno = 0;
    if (flock(*fd, LOCK_EX | LOCK_NB) == 0 && fstat(*fd, &held) == 0 && stat(path, &named) == 0 &&
        held.st_dev == named.st_dev && held.st_ino == named.st_ino)
        return true; /* the locked file still has its name: it was not deleted between open() and flock() */
    if (errno == ENOLCK || errno == ENOTSUP || errno == ENOSYS) {
        close(*fd);
        *fd = -1;
        return true;
    }
    close(*fd);
    *fd = -1;
    return false;
}

/* ---- hashes ---- */

static bool has_digits(const char *etag, size_t n)
{
    return strlen(etag) == n && strspn(etag, "0123456789abcdef") == n;
}

bool hub_cache_is_hash(const char *etag)
{
    return has_digits(etag, 64) || has_digits(etag, 40);
}

/* Starts the hash whose length ETAG has. Git's SHA-1 of a blob covers "blob SIZE" and a zero byte before the file. */
static bool begin_hash(EVP_MD_CTX *md, const char *etag, int fd)
{
    char head[32];
    struct stat st;
    int n;

    if (strlen(etag) == 64)
        return EVP_DigestInit_ex(md, EVP_sha256(), NULL) == 1;
    if (fstat(fd, &st) != 0 || EVP_DigestInit_ex(md, EVP_sha1(), NULL) != 1)
        return false;
    n = snprintf(head, sizeof(head), "blob %lld", (long long)st.st_size);
    return EVP_DigestUpdate(md, head, (size_t)n + 1) == 1;
}

static int hash_file(EVP_MD_CTX *md, int fd, const char *path, const char *etag, char *hex, struct err *e)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    char *chunk = mem_alloc(CHUNK, MEM_CKPT);
    unsigned int n_digest = 0;
    ssize_t n;

    if (!chunk)
        return err_nomem(e, "hashing a file");
    if (!begin_hash(md, etag, fd)) {
        mem_free(chunk);
        return err_nomem(e, "hashing a file");
    }
    while ((n = read(fd, chunk, CHUNK)) > 0 || (n < 0 && errno == EINTR))
        if (n > 0)
            EVP_DigestUpdate(md, chunk, (size_t)n);
    mem_free(chunk);
    if (n < 0)
        return err_os(e, "read", path);
    EVP_DigestFinal_ex(md, digest, &n_digest);
    digest_hex(digest, n_digest, hex);
    return 0;
}

int hub_cache_verify(const char *path, const char *etag, struct err *e)
{
    char hex[2 * EVP_MAX_MD_SIZE + 1] = "";
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW), rc;
    EVP_MD_CTX *md;

    if (fd < 0)
        return err_os(e, "read", path);
    md = EVP_MD_CTX_new();
    rc = md ? hash_file(md, fd, path, etag, hex, e) : err_nomem(e, "hashing a file");
    EVP_MD_CTX_free(md);
    close(fd);
    if (rc == 0 && strcmp(hex, etag) != 0)
        rc = err_set(e, ERR_INPUT, "%s: the downloaded bytes have the hash %s, but the hub gives %s", path,
                     hex, etag);
    return rc;
}
