/* help.c - temporary folders, files, refusals and failing allocations for the tests of several folders. */
#include "help.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

void help_folder(char *dir)
{
    const char *tmp = getenv("TMPDIR");

    snprintf(dir, 64, "%.40s/gallop-ckpt-XXXXXX", tmp && strlen(tmp) <= 40 ? tmp : "/tmp");
    assert_non_null(mkdtemp(dir));
}

void help_folder_remove(const char *dir)
{
    char path[512];
    const struct dirent *d;
    DIR *open_dir = opendir(dir);

    assert_non_null(open_dir);
    while ((d = readdir(open_dir)) != NULL) {
        snprintf(path, sizeof(path), "%.200s/%.255s", dir, d->d_name);
        if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0)
            assert_int_equal(remove(path), 0);
    }
    closedir(open_dir);
    assert_int_equal(rmdir(dir), 0);
}

void help_write(const char *dir, const char *file, const void *bytes, size_t len)
{
    char path[512];
    FILE *f;

    snprintf(path, sizeof(path), "%.200s/%.255s", dir, file);
    f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
}

char *help_read(const char *path, size_t *len)
{
    FILE *f = fopen(path, "rb");
    struct stat st;
    char *bytes;

    if (!f)
        fail_msg("cannot open %s", path);
    assert_int_equal(fstat(fileno(f), &st), 0);
    *len = (size_t)st.st_size;
    bytes = mem_alloc(*len + 1, MEM_CKPT);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *len, f), *len);
    bytes[*len] = 0;
    fclose(f);
    return bytes;
}

void help_refused(int rc, int code, const struct err *e, ...)
{
    const char *word;
    va_list ap;

    if (rc != code)
        fail_msg("code %d instead of %d: %s", rc, code, rc ? e->msg : "");
    assert_int_equal(e->code, code);
    va_start(ap, e);
    while ((word = va_arg(ap, const char *)) != NULL)
        if (!strstr(e->msg, word))
            fail_msg("\"%s\" does not say \"%s\"", e->msg, word);
    va_end(ap);
}

void help_every_allocation(int (*open)(void *arg, struct err *e), void *arg)
{
    size_t blocks = mem_live_blocks(), bytes = mem_live_bytes();
    bool failed;
    struct err e;
    int rc;

    for (long n = 1;; n++) {
        mem_fail_at(n);
        rc = open(arg, &e);
        failed = mem_failed();
        mem_fail_at(0);
        assert_int_equal(mem_live_blocks(), blocks);
        assert_int_equal(mem_live_bytes(), bytes);
        if (rc == 0) {
            assert_true(n > 1 && !failed);
            return;
        }
        if (rc != ERR_NOMEM)
            fail_msg("allocation %ld: %s", n, e.msg);
    }
}

bool help_shared(char *out, const char *what)
{
    const char *shared = getenv("GALLOP_SHARED");
    struct stat st;

    snprintf(out, 512, "%.300s/%.150s", shared ? shared : GALLOP_SOURCE_DIR "/../shared", what);
    return stat(out, &st) == 0;
}
