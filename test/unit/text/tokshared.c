/* tokshared.c - reads reference data, and unpacks it with gzip(1). */
#include "tokshared.h"

#include <unistd.h>

static bool find(const char *name, char *path, size_t size)
{
    const char *root = getenv("GALLOP_SHARED");

    if (root)
        snprintf(path, size, "%s/%s", root, name);
    else
        snprintf(path, size, "%s/../shared/%s", GALLOP_SOURCE_DIR, name);
    return access(path, R_OK) == 0;
}

bool tokshared_exists(void)
{
    char path[1200];

    return find("data/tokenizers", path, sizeof(path));
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

    if (find(name, path, sizeof(path))) {
        f = fopen(path, "rb");
        s = f ? read_all(f, n) : NULL;
        if (f)
            fclose(f);
        return s;
    }
    snprintf(packed, sizeof(packed), "%s.gz", name);
    if (!find(packed, path, sizeof(path)))
        return NULL;
    snprintf(command, sizeof(command), "gzip -dc '%s'", path);
    f = popen(command, "r");
    s = f ? read_all(f, n) : NULL;
    if (f)
        pclose(f);
    return s;
}

static void unpack(const char *name, const char *to)
{
    size_t n;
    char *s = tokshared_read(name, &n);
    FILE *f = fopen(to, "wb");

    assert_true(s && f && fwrite(s, 1, n, f) == n);
    fclose(f);
    free(s);
}

struct tok *tokshared_open(const char *name)
{
    const char *slash = strrchr(name, '/');
    char below[600], path[1200], unpacked[] = "tokshared-XXXXXX";
    struct tok *t = NULL;
    struct err e = {0};
    bool packed;

    snprintf(below, sizeof(below), "data/tokenizers/%s", name);
    if (strlen(below) > 3 && strcmp(below + strlen(below) - 3, ".gz") == 0)
        below[strlen(below) - 3] = 0;
    packed = !find(below, path, sizeof(path));
    if (packed) {
        size_t n;
        char *s = tokshared_read(below, &n);
        int fd;

        if (!s)
            return NULL;
        free(s);
        fd = mkstemp(unpacked);
        assert_true(fd >= 0);
        close(fd);
        unpack(below, unpacked);
        snprintf(path, sizeof(path), "%s", unpacked);
    }
    if (tok_open(&t, folder_at(path), &e) != 0)
        fail_msg("%s: %s", slash ? slash + 1 : name, e.msg);
    if (packed)
        unlink(unpacked);
    return t;
}
