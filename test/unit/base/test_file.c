/* test_file.c - small files that are replaced completely or not at all; nothing else stays in their
 * folder. */
#include <glob.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files/cache.h"
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

static void folders_of_the_cache_are_made_for_their_owner_alone(void **state)
{
    char home[500], found[700];
    struct stat st;
    struct err e = {0};

    umask(022);
    snprintf(home, sizeof(home), "%s/home", files_folder());
    unsetenv("XDG_CACHE_HOME");
    setenv("HOME", home, 1);
    assert_int_equal(cache_path(path, sizeof(path), "programs", "a", &e), 0);
    assert_string_equal(path + strlen(home), "/.cache/gallop/programs/a");
    setenv("XDG_CACHE_HOME", home, 1);
    assert_int_equal(cache_path(path, sizeof(path), "programs", "a", &e), 0);
    assert_string_equal(path + strlen(home), "/gallop/programs/a");
    assert_int_not_equal(stat(home, &st), 0); /* A path alone makes no folder. */
    for (int again = 0; again < 2; again++) {
        assert_int_equal(cache_make_folders(path, &e), 0);
        assert_true(stat(home, &st) == 0 && (st.st_mode & 0777) == 0700);
        snprintf(found, sizeof(found), "%s/gallop/programs", home);
        assert_true(stat(found, &st) == 0 && (st.st_mode & 0777) == 0700);
    }
    assert_int_not_equal(stat(path, &st), 0);
}

static void a_cache_without_a_place_is_an_error(void **state)
{
    static char name[LONG];
    struct err e = {0};

    setenv("XDG_CACHE_HOME", "/dev/null", 1);
    assert_int_equal(cache_path(path, sizeof(path), "programs", "a", &e), 0);
    assert_int_equal(cache_make_folders(path, &e), ERR_OS);
    assert_non_null(strstr(e.msg, "/dev/null/gallop"));
    assert_int_equal(cache_path(path, 27, "programs", "a", &e), ERR_INPUT); /* One byte is missing. */
    assert_int_equal(cache_path(path, 28, "programs", "a", &e), 0);
    memset(name, 'x', sizeof(name) - 1);
    assert_int_equal(file_make_folders(name, 0700, &e), ERR_INPUT);
    assert_int_equal(file_make_folders("", 0700, &e), 0);
    setenv("XDG_CACHE_HOME", "", 1);
    unsetenv("HOME");
    assert_int_equal(cache_path(path, sizeof(path), "programs", "a", &e), ERR_INPUT);
    assert_non_null(strstr(e.msg, "XDG_CACHE_HOME"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_file_is_replaced_whole_and_has_its_mode, new_path),
        cmocka_unit_test_setup(a_fault_leaves_the_old_file_and_names_the_path, new_path),
        cmocka_unit_test(folders_of_the_cache_are_made_for_their_owner_alone),
        cmocka_unit_test(a_cache_without_a_place_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
