/* hfdir.c - paths inside a checkpoint folder.
 *
 * A link is judged by where it ends: both ends are resolved with realpath() and compared as text. This
 * protects against what a checkpoint contains, not against somebody who changes the folder while it is read.
 */
#include "ckpt/hfdir.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

_Static_assert(HFDIR_PATH_MAX >= 4096, "realpath() needs room for PATH_MAX bytes");

static bool name_is_plain(const char *file)
{
    if (!*file || strcmp(file, ".") == 0 || strcmp(file, "..") == 0)
        return false;
    for (const char *p = file; *p; p++)
        if (*p == '/' || (unsigned char)*p < 0x20 || *p == 0x7f)
            return false;
    return true;
}

/* True if PATH lies below DIR (both resolved). */
static bool below(const char *path, const char *dir, size_t dir_len)
{
    if (dir_len == 1 && dir[0] == '/')
        return path[0] == '/';
    return strncmp(path, dir, dir_len) == 0 && path[dir_len] == '/';
}

/* DIR is CACHE/X/snapshots/REVISION of a Hugging Face cache and PATH lies in CACHE/X/blobs or, for an X named
 * models--..., in the store that all models share, CACHE/blobs. */
static bool in_cache_blobs(const char *path, const char *dir)
{
    static const char snapshots[] = "/snapshots", blobs[] = "/blobs/";
    const char *revision = strrchr(dir, '/'), *model;
    size_t n = revision ? (size_t)(revision - dir) : 0, tail = sizeof(snapshots) - 1;

    if (n < tail || memcmp(dir + n - tail, snapshots, tail) != 0)
        return false;
    n -= tail;
    if (strncmp(path, dir, n) == 0 && strncmp(path + n, blobs, sizeof(blobs) - 1) == 0)
        return true;
    model = memrchr(dir, '/', n);
    n = model ? (size_t)(model - dir) : 0;
    return model && strncmp(model, "/models--", 9) == 0 && strncmp(path, dir, n) == 0 &&
           strncmp(path + n, blobs, sizeof(blobs) - 1) == 0;
}

int hfdir_path(char *out, size_t size, const char *dir, const char *file, struct err *e)
{
    char real_dir[HFDIR_PATH_MAX], real_file[HFDIR_PATH_MAX];
    size_t n = strlen(dir);
    struct stat st;
    int len;

    if (!name_is_plain(file))
        return err_set(e, ERR_INPUT, "%s: \"%.200s\" is not the name of a file in this folder", dir, file);
    len = snprintf(out, size, "%s%s%s", dir, n && dir[n - 1] == '/' ? "" : "/", file);
    if (len < 0 || (size_t)len >= size)
        return err_set(e, ERR_INPUT, "%.200s...: the path is longer than %zu bytes", dir, size);
    if (lstat(out, &st) != 0 || !S_ISLNK(st.st_mode))
        return 0;
    if (!realpath(out, real_file))
        return err_os(e, "follow the link", out);
    if (!realpath(dir, real_dir))
        return err_os(e, "resolve", dir);
    if (!below(real_file, real_dir, strlen(real_dir)) && !in_cache_blobs(real_file, real_dir))
        return err_set(e, ERR_INPUT, "%s: this is a link that leads out of the folder, to %.300s", out,
                       real_file);
    return 0;
}

bool hfdir_has(const char *dir, const char *file)
{
    char path[HFDIR_PATH_MAX];
    struct stat st;
    int len = snprintf(path, sizeof(path), "%s/%s", dir, file);

    return name_is_plain(file) && len > 0 && (size_t)len < sizeof(path) && stat(path, &st) == 0 &&
           S_ISREG(st.st_mode);
}

int hfdir_find(const char *dir, const char *suffix, char *first, size_t size, size_t *n, struct err *e)
{
    size_t tail = strlen(suffix);
    const struct dirent *d;
    DIR *open_dir = opendir(dir);

    *n = 0;
    if (!open_dir)
        return err_os(e, "read the folder", dir);
    while ((d = readdir(open_dir)) != NULL) {
        size_t len = strlen(d->d_name);

        if (len <= tail || len >= size || strcmp(d->d_name + len - tail, suffix) != 0)
            continue;
        if (++*n == 1 || strcmp(d->d_name, first) < 0)
            memcpy(first, d->d_name, len + 1);
    }
    closedir(open_dir);
    return 0;
}
