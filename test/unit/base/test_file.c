/* test_file.c - small files that are replaced completely or not at all; nothing else stays in their
 * folder. */
#include <glob.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files/file.h"
#include "files.h"

enum { LONG = 5000 };

static char path[600];

static int new_path(void **state)
{
    snprintf(path, sizeof(path), "%s/file", files_folder());
    return 0;
}

static bool holds(const char *text)
{
    size_t n;
    char *p = files_read(path, &n);
    bool same = n == strlen(text) && memcmp(p, text, n) == 0;

    free(p);
    return same;
}

static bool has_remains(void)
{
    char pattern[700];
    glob_t g = {0};
    int rc;

    snprintf(pattern, sizeof(pattern), "%s.*", path);
    rc = glob(pattern, 0, NULL, &g);
    globfree(&g);
    return rc == 0;
}

static void a_file_is_replaced_whole_and_has_its_mode(void **state)
{
    struct stat st;
    struct err e;

    umask(022);
    assert_int_equal(file_replace(path, "old bytes", 9, 0666, &e), 0);
    assert_int_equal(file_replace(path, "new", 3, 0600, &e), 0);
    assert_true(holds("new") && !holds("old") && !has_remains());
    assert_true(stat(path, &st) == 0 && (st.st_mode & 0777) == 0600);
    assert_int_equal(file_replace(path, NULL, 0, 0666, &e), 0);
    assert_true(holds(""));
    assert_true(stat(path, &st) == 0 && (st.st_mode & 0777) == 0644);
}

static void a_fault_leaves_the_old_file_and_names_the_path(void **state)
{
    const struct rlimit none = {0, RLIM_INFINITY}, all = {RLIM_INFINITY, RLIM_INFINITY};
    static char name[LONG];
    struct err e = {0};

    assert_int_equal(file_replace(path, "old", 3, 0666, &e), 0);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0); /* The writer fails as on a full disk. */
    assert_int_equal(file_replace(path, "new", 3, 0666, &e), ERR_OS);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &all), 0);
    assert_non_null(strstr(e.msg, path));
    assert_true(holds("old") && !has_remains());
    assert_int_equal(file_replace("no/such/folder/x", "new", 3, 0666, &e), ERR_OS);
    assert_non_null(strstr(e.msg, "no/such/folder/x"));
    assert_int_equal(file_replace(files_folder(), "new", 3, 0666, &e), ERR_OS); /* A folder has this name. */
    memset(name, 'x', sizeof(name) - 1);
    assert_int_equal(file_replace(name, "new", 3, 0666, &e), ERR_INPUT);
    assert_non_null(strstr(e.msg, "too long"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_file_is_replaced_whole_and_has_its_mode, new_path),
        cmocka_unit_test_setup(a_fault_leaves_the_old_file_and_names_the_path, new_path),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
