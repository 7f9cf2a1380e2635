/* file.c - writes a file under a temporary name, then renames it; creates folders. */
#include "base/files/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int file_write(int fd, const char *p, size_t n)
{
    while (n) {
        ssize_t w = write(fd, p, n);

        if (w < 0 && errno == EINTR)
            continue;
        if (w <= 0)
            return -1;
        p += w;
        n -= (size_t)w;
    }
    return 0;
}

int file_replace(const char *path, const void *bytes, size_t n, mode_t mode, struct err *e)
{
    char part[FILE_PATH_MAX];
    int fd, rc = 0;

    if ((size_t)snprintf(part, sizeof(part), "%s.%ld.part", path, (long)gettid()) >= sizeof(part))
        return err_set(e, ERR_INPUT, "%.200s...: the path is too long", path);
    fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode);
    if (fd < 0)
        return err_os(e, "create", part);
    if (file_write(fd, bytes, n) != 0)
        rc = err_os(e, "write", part);
    if (close(fd) != 0 && rc == 0)
        rc = err_os(e, "write", part);
    if (rc == 0 && rename(part, path) != 0)
        rc = err_os(e, "rename", part);
    if (rc)
        unlink(part);
    return rc;
}

int file_make_folders(const char *path, mode_t mode, struct err *e)
{
    char part[FILE_PATH_MAX];

    if ((size_t)snprintf(part, sizeof(part), "%s", path) >= sizeof(part))
        return err_set(e, ERR_INPUT, "%.200s...: the path is too long", path);
    for (char *p = part[0] ? strchr(part + 1, '/') : NULL; p; p = strchr(p + 1, '/')) {
        *p = 0;
        if (mkdir(part, mode) != 0 && errno != EEXIST)
            return err_os(e, "make the folder", part);
        *p = '/';
    }
    return 0;
}
