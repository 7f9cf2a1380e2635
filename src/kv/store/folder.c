/* folder.c - implements the KV store that keeps its records in a folder: one file per record, named after the record's
 * key in hex.
 *
 * Several processes may use a folder at once. A record is written under a temporary name and renamed when it is
 * complete; unfinished files are removed after an hour. Files are not synced: after a crash of the machine a file may
 * hold wrong bytes, which its checksum detects. The modification time of a file is the time of its last use. When the
 * folder is full, the process that holds the folder's lock removes the oldest files; other processes do not wait. The
 * file "gallop-kv-store" holds the version. Files with other names are not touched.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/files/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "kv/store/store.h"

enum { NAME = 32 + 3, STALE_S = 3600 };

static const char mark[] = "gallop-kv-store", version[] = "1\n";

struct place {
    char path[FILE_PATH_MAX - 64];
    /* Bytes: the maximum size, and the size as far as this process knows it. */
    uint64_t limit, used;
};

/* A record's file in the folder. */
struct entry {
    struct prefix_key key;
    uint64_t bytes;
    struct timespec time;
};

struct entries {
    struct entry *entry;
    size_t n, cap;
    uint64_t bytes;
};

/* ---- names ---- */

static void path_of(const struct place *p, struct prefix_key key, char out[FILE_PATH_MAX])
{
    snprintf(out, FILE_PATH_MAX, "%s/%016llx%016llx.kv", p->path, (unsigned long long)key.w[0],
             (unsigned long long)key.w[1]);
}

static bool key_of(const char *name, struct prefix_key *key)
{
    char half[17] = "";

    if (strlen(name) != NAME || strspn(name, "0123456789abcdef") != NAME - 3 ||
        strcmp(name + NAME - 3, ".kv") != 0)
        return false;
    for (int w = 0; w < 2; w++) {
        memcpy(half, name + (size_t)w * 16, 16);
        key->w[w] = strtoull(half, NULL, 16);
    }
    return true;
}

/* Returns whether NAME is KEY.kv.THREAD.part, the temporary name of a record. */
static bool is_unfinished(const char *name)
{
    size_t n = strlen(name);

    return n > NAME + 5 && strspn(name, "0123456789abcdef") == NAME - 3 &&
           strncmp(name + NAME - 3, ".kv.", 4) == 0 && strcmp(name + n - 5, ".part") == 0;
}

/* ---- the list ---- */

static int add_entry(struct entries *all, DIR *dir, const char *name, struct err *e)
{
    struct entry own = {0};
    struct stat st;

    if (is_unfinished(name) && fstatat(dirfd(dir), name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        st.st_mtim.tv_sec < time(NULL) - STALE_S)
        unlinkat(dirfd(dir), name, 0);
    if (!key_of(name, &own.key) || fstatat(dirfd(dir), name, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(st.st_mode))
        return 0;
    own.bytes = (uint64_t)st.st_size;
    own.time = st.st_mtim;
    if (!mem_grow((void **)&all->entry, &all->cap, all->n + 1, sizeof(*all->entry), MEM_KV))
        return err_nomem(e, "the files of a KV store");
    all->entry[all->n++] = own;
    all->bytes += own.bytes;
    return 0;
}

static int read_entries(const struct place *p, struct entries *all, struct err *e)
{
    const struct dirent *d;
    DIR *dir = opendir(p->path);
    int rc = 0;

    *all = (struct entries){0};
    if (!dir)
        return err_os(e, "read", p->path);
    while (rc == 0 && (d = readdir(dir)) != NULL)
        rc = add_entry(all, dir, d->d_name, e);
    closedir(dir);
    if (rc)
        mem_free(all->entry);
    return rc;
}

static int older(const void *a, const void *b)
{
    const struct timespec *x = &((const struct entry *)a)->time, *y = &((const struct entry *)b)->time;

    return x->tv_sec != y->tv_sec ? (x->tv_sec > y->tv_sec) - (x->tv_sec < y->tv_sec)
                                  : (x->tv_nsec > y->tv_nsec) - (x->tv_nsec < y->tv_nsec);
}

/* Removes the oldest files of ALL until MOST bytes are left, unless another process holds the lock. */
static void remove_oldest(const struct place *p, struct entries *all, uint64_t most)
{
    char path[FILE_PATH_MAX];
    int fd;

    snprintf(path, sizeof(path), "%s/%s", p->path, mark);
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        close(fd);
        return;
    }
    qsort(all->entry, all->n, sizeof(*all->entry), older);
    for (size_t i = 0; i < all->n && all->bytes > most; i++) {
        path_of(p, all->entry[i].key, path);
        if (unlink(path) == 0 || errno == ENOENT) {
            all->bytes -= all->entry[i].bytes;
            all->entry[i].bytes = 0;
        }
    }
    /* The lock is on the version file. Without that file the oldest files are removed without a lock. */
    if (fd >= 0)
        close(fd);
}

/* Makes room for N bytes. If the folder is full, frees a tenth of the limit, so that listings are rare. */
static int make_room(struct place *p, uint64_t n, struct err *e)
{
    struct entries all;
    int rc;

    if (p->used + n <= p->limit)
        return 0;
    if ((rc = read_entries(p, &all, e)) != 0)
        return rc;
    if (all.bytes + n > p->limit)
        remove_oldest(p, &all, p->limit - n - (p->limit - n) / 10);
    p->used = all.bytes;
    mem_free(all.entry);
    return 0;
}

/* ---- the functions of struct store_medium ---- */

/* Checks that the version file names this version, or creates it. */
static int read_mark(const struct place *p, struct err *e)
{
    char path[FILE_PATH_MAX], found[64] = "";
    ssize_t n;
    int fd;

    snprintf(path, sizeof(path), "%s/%s", p->path, mark);
    /* O_NONBLOCK: the file may be a pipe */
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT)
        return file_replace(path, version, sizeof(version) - 1, 0600, e);
    if (fd < 0)
        return err_os(e, "read", path);
    n = read(fd, found, sizeof(found) - 1);
    close(fd);
    if (n < 0)
        return err_os(e, "read", path);
    if (strcmp(found, version) == 0)
        return 0;
    found[strcspn(found, "\n")] = 0;
    return err_set(e, ERR_UNSUPPORTED, "%s: found a KV store of version '%s', expected %d; it is not changed",
                   path, found, version[0] - '0');
}

/* Warns if other users can write records, because their rows could change answers. */
static void warn_of_writers(const char *path)
{
    struct stat st;

    if (stat(path, &st) != 0)
        return;
    if (st.st_mode & (S_IWGRP | S_IWOTH))
        log_warn("%s: this KV store can be written by other users (mode %04o), who could change answers; "
                 "expected a folder of mode 0700",
                 path, (unsigned)st.st_mode & 07777);
    else if (st.st_uid != geteuid() && st.st_uid != 0)
        log_warn("%s: this KV store belongs to another user (id %u), who could change answers; expected a "
                 "folder of this user",
                 path, (unsigned)st.st_uid);
}

static void folder_close(void *m)
{
    mem_free(m);
}

static int folder_open(void **m, const char *where, uint64_t limit, struct err *e)
{
    struct place *p = *m = mem_zalloc(1, sizeof(*p), MEM_KV);
    int rc = 0;

    if (!p)
        return err_nomem(e, "the KV store");
    p->limit = limit;
    if ((size_t)snprintf(p->path, sizeof(p->path), "%s", where) >= sizeof(p->path))
        rc = err_set(e, ERR_INPUT, "KV store %.200s...: the path is too long", where);
    else if (mkdir(where, 0700) != 0 && errno != EEXIST)
        rc = err_os(e, "make the folder", where);
    else
        rc = read_mark(p, e);
    if (rc == 0)
        warn_of_writers(where);
    if (rc) {
        mem_free(p);
        *m = NULL;
    }
    return rc;
}

/* Reads N bytes of FD into OUT. False: the file is shorter, or cannot be read. */
static bool read_record(int fd, char *out, size_t n)
{
    for (size_t at = 0; at < n;) {
        ssize_t r = read(fd, out + at, n - at);

        if (r < 0 && errno == EINTR)
            continue;
        if (r <= 0)
            return false;
        at += (size_t)r;
    }
    return true;
}

static int folder_get(void *m, struct prefix_key key, void *out, size_t cap, size_t *n, struct err *e)
{
    static const struct timespec now[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_nsec = UTIME_NOW}};
    char path[FILE_PATH_MAX];
    struct stat st;
    int fd;

    *n = 0;
    path_of(m, key, path);
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) /* a file that is a link or belongs to another user counts as missing */
        return errno == ENOENT || errno == ELOOP || errno == EACCES ? 0 : err_os(e, "read", path);
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size <= cap &&
        read_record(fd, out, (size_t)st.st_size)) {
        *n = (size_t)st.st_size;
        futimens(fd, now); /* marks the file as used; may fail in a read-only folder */
    }
    close(fd);
    return 0;
}

static int folder_put(void *m, struct prefix_key key, const void *bytes, size_t n, struct err *e)
{
    struct place *p = m;
    char path[FILE_PATH_MAX];
    int rc;

    if (n > p->limit)
        return err_set(e, ERR_NOSPACE,
                       "KV store %s: a block has %zu bytes, more than the store's limit of %llu bytes",
                       p->path, n, (unsigned long long)p->limit);
    path_of(p, key, path);
    if ((rc = make_room(p, n, e)) == 0 && (rc = file_replace(path, bytes, n, 0600, e)) == 0)
        p->used += n;
    return rc;
}

static void folder_remove(void *m, struct prefix_key key)
{
    char path[FILE_PATH_MAX];

    path_of(m, key, path);
    unlink(path);
}

static int folder_list(void *m, store_found_fn *found, void *ctx, struct err *e)
{
    struct place *p = m;
    struct entries all;
    int rc = read_entries(p, &all, e);

    if (rc)
        return rc;
    if (all.bytes > p->limit)
        remove_oldest(p, &all, p->limit - p->limit / 10);
    p->used = all.bytes;
    for (size_t i = 0; i < all.n; i++)
        if (all.entry[i].bytes)
            found(ctx, all.entry[i].key);
    mem_free(all.entry);
    return 0;
}

const struct store_medium store_folder = {.open = folder_open,
                                          .get = folder_get,
                                          .put = folder_put,
                                          .remove = folder_remove,
                                          .list = folder_list,
                                          .close = folder_close};
