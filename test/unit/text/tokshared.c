/* tokshared.c - see tokshared.h. */
#include "tokshared.h"
#include "base/files/folder.h"

#include <unistd.h>

#include "files.h"

bool tokshared_exists(void)
{
    char path[1200];

    return files_shared(path, sizeof(path), "data/tokenizers");
}

static char *read_all(FILE *f, size_t *n)
{
    size_t cap = 1 << 16, len = 0, got;
    char *s = malloc(cap);

    while (s && (got = fread(s + len, 1, cap - len - 1, f)) > 0) {
        len += got;
        if (cap - len < 2)
            s = realloc(s, cap *= 2);
    }
    if (s)
        s[len] = 0;
    *n = len;
    return s;
}

char *tokshared_read(const char *name, size_t *n)
{
    char path[1200], packed[600], command[1400], *s = NULL;
    FILE *f;

    if (files_shared(path, sizeof(path), name))
        return files_read(path, n);
    snprintf(packed, sizeof(packed), "%s.gz", name);
    if (!files_shared(path, sizeof(path), packed))
        return NULL;
    snprintf(command, sizeof(command), "gzip -dc '%s'", path);
    f = popen(command, "r");
    s = f ? read_all(f, n) : NULL;
    if (f)
        pclose(f);
    return s;
}

struct tok *tokshared_open(const char *name)
{
    const char *slash = strrchr(name, '/');
    char below[600], path[1200];
    struct tok *t = NULL;
    struct err e = {0};
    bool packed;

    snprintf(below, sizeof(below), "data/tokenizers/%s", name);
    if (strlen(below) > 3 && strcmp(below + strlen(below) - 3, ".gz") == 0)
        below[strlen(below) - 3] = 0;
    packed = !files_shared(path, sizeof(path), below);
    if (packed) {
        size_t n;
        char *bytes = tokshared_read(below, &n);

        if (!bytes)
            return NULL;
        snprintf(path, sizeof(path), "tokshared-%d", getpid());
        files_write(path, bytes, n);
        free(bytes);
    }
    if (tok_open(&t, folder_at(path), &e) != 0)
        fail_msg("%s: %s", slash ? slash + 1 : name, e.msg);
    if (packed)
        unlink(path);
    return t;
}
