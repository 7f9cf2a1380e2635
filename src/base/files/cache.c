/* cache.c - composes paths in the cache folder, and creates their folders. */
#include "base/files/cache.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/files/file.h"

int cache_path(char *out, size_t size, const char *folder, const char *file, struct err *e)
{
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n;

    if (xdg && *xdg)
        n = snprintf(out, size, "%s/gallop/%s/%s", xdg, folder, file);
    else if (home && *home)
        n = snprintf(out, size, "%s/.cache/gallop/%s/%s", home, folder, file);
    else
        return err_set(e, ERR_INPUT,
                       "found no cache folder, expected XDG_CACHE_HOME or HOME in the environment");
    if (n < 0 || (size_t)n >= size)
        return err_set(e, ERR_INPUT, "%.200s...: the path is too long", out);
    return 0;
}

int cache_make_folders(const char *path, struct err *e)
{
    return file_make_folders(path, 0700, e);
}
