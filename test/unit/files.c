/* files.c - see files.h. */
#include "files.h"

#include <dirent.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_FOLDERS = 64 };

static char folder[MOST_FOLDERS][256];
static size_t n_folders;
static pid_t owner; /* Children of the process must not remove the folders. */

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    return remove(path);
}

static void remove_all(void)
{
    while (n_folders > 0 && owner == getpid())
        nftw(folder[--n_folders], remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

const char *files_folder(void)
{
    char *name = folder[n_folders];
    const char *below = getenv("TMPDIR");

    assert_true(n_folders < MOST_FOLDERS);
    if (n_folders == 0)
        assert_int_equal(atexit(remove_all), 0);
    owner = getpid();
    below = below && below[0] == '/' && strlen(below) < 200 ? below : P_tmpdir;
    snprintf(name, sizeof(folder[0]), "%.200s/gallop-test-XXXXXX", below);
    assert_non_null(mkdtemp(name));
    n_folders++;
    return name;
}

void files_enter(void)
{
    assert_int_equal(chdir(files_folder()), 0);
}

static FILE *open_file(const char *path, const char *mode)
{
    FILE *f = fopen(path, mode);

    if (!f)
        fail_msg("%s cannot be opened", path);
    return f;
}

char *files_read(const char *path, size_t *n)
{
    FILE *f = open_file(path, "rb");
    struct stat st;
    char *p;

    assert_int_equal(fstat(fileno(f), &st), 0);
    assert_non_null(p = malloc((size_t)st.st_size + 1));
    *n = fread(p, 1, (size_t)st.st_size, f);
    assert_int_equal(*n, st.st_size);
    p[*n] = 0;
    fclose(f);
    return p;
}

void files_write(const char *path, const void *bytes, size_t n)
{
    FILE *f = open_file(path, "wb");

    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

void files_write_text(const char *path, const char *text)
{
    files_write(path, text, strlen(text));
}

void files_write_in(const char *dir, const char *name, const void *bytes, size_t n)
{
    char path[4096];

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    files_write(path, bytes, n);
}

void files_flip(const char *path, long at, unsigned char bits)
{
    FILE *f = open_file(path, "r+b");
    int c;

    assert_int_equal(fseek(f, at, at < 0 ? SEEK_END : SEEK_SET), 0);
    assert_true((c = fgetc(f)) != EOF);
    assert_int_equal(fseek(f, -1, SEEK_CUR), 0);
    assert_true(fputc(c ^ bits, f) != EOF);
    assert_int_equal(fclose(f), 0);
}

void files_copy(const char *from, const char *to)
{
    const char *slash = strrchr(from, '/');
    struct stat st;
    char path[4096];
    size_t n;
    char *p = files_read(from, &n);

    if (stat(to, &st) == 0 && S_ISDIR(st.st_mode)) {
        snprintf(path, sizeof(path), "%s/%s", to, slash ? slash + 1 : from);
        to = path;
    }
    files_write(to, p, n);
    free(p);
}

void files_copy_all(const char *from, const char *to)
{
    DIR *d = opendir(from);
    const struct dirent *x;
    struct stat st;
    char path[4096];

    if (!d)
        fail_msg("%s is no folder", from);
    while ((x = readdir(d)) != NULL) {
        snprintf(path, sizeof(path), "%s/%s", from, x->d_name);
        if (stat(path, &st) == 0 && S_ISREG(st.st_mode))
            files_copy(path, to);
    }
    closedir(d);
}

bool files_shared(char *out, size_t size, const char *what)
{
    const char *shared = getenv("GALLOP_SHARED");

    snprintf(out, size, "%s/%s", shared ? shared : GALLOP_SOURCE_DIR "/../shared", what);
    return access(out, R_OK) == 0;
}
