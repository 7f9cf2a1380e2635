/* folder.c - opens and reads files inside a checkpoint folder.
 *
 * A file that is not a link is opened with O_NOFOLLOW and needs no check. A link is opened first. Then
 * realpath() resolves the link and the folder, the results are compared, and the opened file must be the file
 * to which the link resolves. So a link that changes between opening and check is detected.
 */
#include "base/files/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files/map.h"
#include "base/mem.h"

_Static_assert(FOLDER_PATH_MAX >= 4096, "realpath() needs room for PATH_MAX bytes");

/* ---- names ---- */

static bool part_is_plain(const char *s, size_t n)
{
    if (n == 0 || (n == 1 && s[0] == '.') || (n == 2 && s[0] == '.' && s[1] == '.'))
        return false;
    for (size_t i = 0; i < n; i++)
        if (s[i] == '/' || (unsigned char)s[i] < 0x20 || s[i] == 0x7f)
            return false;
    return true;
}

bool folder_name_is_plain(const char *file)
{
    return part_is_plain(file, strlen(file));
}

bool folder_name_ends(const char *file, const char *suffix)
{
    size_t n = strlen(file), tail = strlen(suffix);

    return n > tail && strcmp(file + n - tail, suffix) == 0;
}

static bool name_is_inside(const char *file)
{
    const char *slash = strchr(file, '/');

    return slash ? part_is_plain(file, (size_t)(slash - file)) && folder_name_is_plain(slash + 1)
                 : folder_name_is_plain(file);
}

int folder_join(char *out, size_t size, const char *dir, const char *file, struct err *e)
{
    size_t n = strlen(dir);
    int len;

    if (!name_is_inside(file))
        return err_set(e, ERR_INPUT, "%s: \"%.200s\" is not the name of a file in this folder", dir, file);
    len = snprintf(out, size, "%s%s%s", dir, n && dir[n - 1] == '/' ? "" : "/", file);
    if (len < 0 || (size_t)len >= size)
        return err_set(e, ERR_INPUT, "%.200s...: the path is longer than %zu bytes", dir, size);
    return 0;
}

static const struct folder_member *find_member(const struct folder_archive *a, const char *file)
{
    for (size_t i = 0; i < a->n; i++)
        if (strcmp(a->member[i].name, file) == 0)
            return &a->member[i];
    return NULL;
}

bool folder_has(struct folder in, const char *file)
{
    char path[FOLDER_PATH_MAX];
    struct stat st;

    if (in.archive)
        return find_member(in.archive, file) != NULL;
    return folder_join(path, sizeof(path), in.path, file, NULL) == 0 && stat(path, &st) == 0 &&
           S_ISREG(st.st_mode);
}

/* ---- links ---- */

/* Returns whether PATH is inside DIR. Both are results of realpath(). */
static bool below(const char *path, const char *dir)
{
    size_t n = strlen(dir);

    if (n == 1 && dir[0] == '/')
        return path[0] == '/';
    return strncmp(path, dir, n) == 0 && path[n] == '/';
}

/* Returns whether DIR is CACHE/X/snapshots/REVISION of a Hugging Face cache, or below it, and PATH is in
 * CACHE/X/blobs or, if X is models--..., in CACHE/blobs, which all models share. */
static bool in_cache_blobs(const char *path, const char *dir)
{
    static const char snapshots[] = "/snapshots/", blobs[] = "/blobs/";
    const char *at = NULL, *model;
    size_t n;

    for (const char *p = dir; (p = strstr(p, snapshots)) != NULL; p++)
        at = p;
    if (!at || !at[sizeof(snapshots) - 1])
        return false;
    n = (size_t)(at - dir);
    if (strncmp(path, dir, n) == 0 && strncmp(path + n, blobs, sizeof(blobs) - 1) == 0)
        return true;
    model = memrchr(dir, '/', n);
    n = model ? (size_t)(model - dir) : 0;
    return model && strncmp(model, "/models--", 9) == 0 && strncmp(path, dir, n) == 0 &&
           strncmp(path + n, blobs, sizeof(blobs) - 1) == 0;
}

/* Checks that a checkpoint in DIR may use the file FD, which was opened as PATH through a link. */
static int prove(int fd, const char *path, const char *dir, struct err *e)
{
    char real_dir[FOLDER_PATH_MAX], real_file[FOLDER_PATH_MAX];
    struct stat opened, named;

    if (!realpath(path, real_file))
        return err_os(e, "follow the link", path);
    if (!realpath(dir, real_dir))
        return err_os(e, "resolve", dir);
    if (!below(real_file, real_dir) && !in_cache_blobs(real_file, real_dir))
        return err_about(
            e, ERR_INPUT, "allow_links",
            "%.300s: this link leads out of the folder, to %.300s; allow_links permits such links", path,
            real_file);
    if (fstat(fd, &opened) != 0 || stat(real_file, &named) != 0)
        return err_os(e, "examine", path);
    if (opened.st_dev != named.st_dev || opened.st_ino != named.st_ino)
        return err_set(e, ERR_INPUT, "%s: the link was changed while it was followed", path);
    return 0;
}

/* ---- Git LFS pointers and macOS attributes ---- */

/* Fails if the contents BYTES [n] of the file PATH are a Git LFS pointer or macOS attributes. */
static int check_pointer(const char *path, const char *bytes, size_t n, struct err *e)
{
    static const char lfs[] = "version https://git-lfs.github.com/spec/", apple[] = {0, 5, 22, 7};

    if (n >= sizeof(lfs) - 1 && memcmp(bytes, lfs, sizeof(lfs) - 1) == 0)
        return err_set(
            e, ERR_INPUT,
            "%s: this is a Git LFS pointer, not the file itself: run `git lfs pull` in its folder, "
            "or download the file again",
            path);
    if (n >= sizeof(apple) && memcmp(bytes, apple, sizeof(apple)) == 0)
        return err_set(e, ERR_INPUT,
                       "%s: this file has the macOS attributes of another file, whose name lacks \"._\"; "
                       "name that file",
                       path);
    return 0;
}

/* ---- opening ---- */

/* Opens PATH, which is the path of FILE in IN (FILE NULL: in.path itself), as *FD. Sets *MISSING if PATH does
 * not exist. */
static int open_file(int *fd, const char *path, struct folder in, const char *file, bool *missing,
                     struct err *e)
{
    const int how = O_RDONLY | O_CLOEXEC | O_NONBLOCK;
    bool free = !file || in.allow_links, deep = file && strchr(file, '/'), link = false;
    struct stat st;
    int rc = 0;

    *fd = open(path, free || deep ? how : how | O_NOFOLLOW);
    if (*fd < 0 && errno == ELOOP && !free && !deep) {
        link = true;
        *fd = open(path, how);
    }
    if (*fd < 0) {
        rc = errno;
        link = link || (lstat(path, &st) == 0 && S_ISLNK(st.st_mode));
        errno = rc;
        *missing = !link && (rc == ENOENT || rc == ENOTDIR);
        return err_os(e, link ? "follow the link" : "open", path);
    }
    if (!free && (link || deep))
        rc = prove(*fd, path, in.path, e);
    if (rc) {
        close(*fd);
        *fd = -1;
    }
    return rc;
}

/* Sets PATH to the path of FILE of IN, and opens it with open_file(). */
static int folder_open(int *fd, char *path, struct folder in, const char *file, bool *missing, struct err *e)
{
    int rc = 0;

    *fd = -1;
    *missing = false;
    if (file)
        rc = folder_join(path, FOLDER_PATH_MAX, in.path, file, e);
    else if ((size_t)snprintf(path, FOLDER_PATH_MAX, "%s", in.path) >= FOLDER_PATH_MAX)
        rc = err_set(e, ERR_INPUT, "%.200s...: the path is longer than %d bytes", in.path, FOLDER_PATH_MAX);
    return rc ? rc : open_file(fd, path, in, file, missing, e);
}

int folder_map(struct map_file *m, char *path, struct folder in, const char *file, struct err *e)
{
    bool missing;
    int fd, rc = folder_open(&fd, path, in, file, &missing, e);

    *m = (struct map_file){0};
    if (rc == 0)
        rc = map_file_of(m, fd, path, e);
    if (fd >= 0)
        close(fd);
    if (rc == 0 && m->bytes && (rc = check_pointer(path, m->bytes, m->len, e)) != 0)
        map_file_close(m);
    return rc;
}

/* Reads all bytes of FD into T, and checks that the file did not change meanwhile. */
static int folder_read_file(struct folder_text *t, int fd, struct err *e)
{
    struct map_stamp before, after;
    struct stat st;
    ssize_t n = 1;

    if (fstat(fd, &st) != 0)
        return err_os(e, "examine", t->path);
    if (!S_ISREG(st.st_mode))
        return err_set(e, ERR_INPUT, "%s: this is not a regular file", t->path);
    if (st.st_size > FOLDER_TEXT_MAX)
        return err_set(e, ERR_INPUT, "%s: the file has %lld bytes, expected at most %d", t->path,
                       (long long)st.st_size, FOLDER_TEXT_MAX);
    before = map_stamp_of(&st);
    if (!(t->bytes = mem_alloc((size_t)st.st_size + 1, MEM_BASE)))
        return err_nomem(e, t->path);
    while (n > 0 && t->len < before.size) {
        do
            n = read(fd, t->bytes + t->len, before.size - t->len);
        while (n < 0 && errno == EINTR);
        t->len += n > 0 ? (size_t)n : 0;
    }
    if (n < 0)
        return err_os(e, "read", t->path);
    t->bytes[t->len] = 0;
    if (fstat(fd, &st) != 0)
        return err_os(e, "examine", t->path);
    after = map_stamp_of(&st);
    return t->len == before.size && map_stamp_same(&before, &after)
               ? 0
               : err_set(e, ERR_INPUT, "%s: the file was changed while it was read", t->path);
}

/* Copies the member FILE of the archive IN into T. */
static int folder_copy_member(struct folder_text *t, struct folder in, const char *file, bool *there,
                              struct err *e)
{
    const struct folder_member *m = find_member(in.archive, file);

    snprintf(t->path, sizeof(t->path), "%s/%s", in.path, file);
    if (there)
        *there = m != NULL;
    if (!m)
        return there ? 0 : err_set(e, ERR_INPUT, "%s: the packed checkpoint has no file %s", in.path, file);
    if (!(t->bytes = mem_alloc(m->len + 1, MEM_BASE)))
        return err_nomem(e, t->path);
    memcpy(t->bytes, m->bytes, m->len);
    t->bytes[m->len] = 0;
    t->len = m->len;
    return 0;
}

int folder_read(struct folder_text *t, struct folder in, const char *file, bool *there, struct err *e)
{
    struct err why = {0};
    bool missing;
    int fd, rc;

    t->bytes = NULL;
    t->len = 0;
    if (in.archive && file)
        return folder_copy_member(t, in, file, there, e);
    rc = folder_open(&fd, t->path, in, file, &missing, &why);
    if (there)
        *there = !missing;
    if (missing && there)
        return 0;
    if (rc) {
        if (e)
            *e = why;
        return rc;
    }
    rc = folder_read_file(t, fd, e);
    close(fd);
    if (rc == 0)
        rc = check_pointer(t->path, t->bytes, t->len, e);
    if (rc)
        folder_text_fini(t);
    return rc;
}

void folder_text_fini(struct folder_text *t)
{
    mem_free(t->bytes);
    t->bytes = NULL;
    t->len = 0;
}

/* ---- lists ---- */

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int add_name(struct folder_names *l, const char *name, const char *dir, struct err *e)
{
    if (!mem_grow((void **)&l->name, &l->cap, l->n + 1, sizeof(*l->name), MEM_BASE) ||
        !(l->name[l->n] = mem_strdup(name, MEM_BASE)))
        return err_nomem(e, dir);
    l->n++;
    return 0;
}

static int list_members(struct folder_names *l, struct folder in, const char *sub, const char *suffix,
                        struct err *e)
{
    size_t skip = sub ? strlen(sub) + 1 : 0;
    int rc = 0;

    for (size_t i = 0; i < in.archive->n && rc == 0; i++) {
        const char *name = in.archive->member[i].name;

        if (sub && (strncmp(name, sub, skip - 1) != 0 || name[skip - 1] != '/'))
            continue;
        if (!strchr(name + skip, '/') && folder_name_ends(name + skip, suffix))
            rc = add_name(l, name + skip, in.path, e);
    }
    return rc;
}

static int list_files(struct folder_names *l, const char *dir, const char *suffix, struct err *e)
{
    const struct dirent *d;
    DIR *folder = opendir(dir);
    int rc = 0;

    if (!folder)
        return err_os(e, "read the folder", dir);
    while (rc == 0 && (d = readdir(folder)) != NULL)
        if (folder_name_ends(d->d_name, suffix) && strncmp(d->d_name, "._", 2) != 0)
            rc = add_name(l, d->d_name, dir, e);
    closedir(folder);
    return rc;
}

int folder_list(struct folder_names *l, struct folder in, const char *sub, const char *suffix, struct err *e)
{
    char dir[FOLDER_PATH_MAX];
    int rc = 0;

    *l = (struct folder_names){0};
    if (in.archive)
        rc = list_members(l, in, sub, suffix, e);
    else if (!sub || (rc = folder_join(dir, sizeof(dir), in.path, sub, e)) == 0)
        rc = list_files(l, sub ? dir : in.path, suffix, e);
    if (rc)
        folder_names_fini(l);
    else if (l->n)
        qsort(l->name, l->n, sizeof(*l->name), by_text);
    return rc;
}

void folder_names_fini(struct folder_names *l)
{
    for (size_t i = 0; i < l->n; i++)
        mem_free(l->name[i]);
    mem_free(l->name);
    *l = (struct folder_names){0};
}
