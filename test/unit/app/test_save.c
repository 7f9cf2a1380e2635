/* test_save.c - files under temporary names: what errors, aborts and several open files leave in a folder. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "app/save.h"
#include "files.h"

/* Each test runs in its own empty folder. */
static int enter(void **state)
{
    files_enter();
    return 0;
}

/* Fails unless the folder holds these names, in alphabetical order, each followed by a blank. */
static void expect_names(const char *dir, const char *want)
{
    struct dirent **d;
    char got[1024] = "";
    int n = scandir(dir, &d, NULL, alphasort);

    for (int i = 0; i < n; i++) {
        if (strcmp(d[i]->d_name, ".") != 0 && strcmp(d[i]->d_name, "..") != 0)
            snprintf(got + strlen(got), sizeof(got) - strlen(got), "%s ", d[i]->d_name);
        free(d[i]);
    }
    free(d);
    assert_string_equal(got, want);
}

static void expect_text(const char *path, const char *want)
{
    char got[64] = "";
    FILE *f = fopen(path, "r");

    assert_non_null(f);
    got[fread(got, 1, sizeof(got) - 1, f)] = 0;
    fclose(f);
    assert_string_equal(got, want);
}

static void put(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void a_file_has_its_name_when_it_is_committed_and_not_before(void **state)
{
    struct save o;

    assert_int_equal(save_open(&o, "a", false, NULL), 0);
    fputs("text", o.f);
    assert_int_equal(save_flush(&o, NULL), 0);
    assert_int_not_equal(access("a", F_OK), 0);
    assert_int_equal(save_commit(&o, NULL), 0);
    expect_text("a", "text");
    assert_int_equal(save_commit(&o, NULL), 0); /* The file is closed: nothing happens. */
    save_abort(&o);
    expect_names(".", "a ");
}

static void without_replace_a_file_that_exists_is_refused(void **state)
{
    struct save o;
    struct err e;

    put("a", "mine");
    assert_int_equal(symlink("nowhere", "b"), 0);
    assert_int_equal(save_open(&o, "a", false, &e), ERR_INPUT);
    assert_string_equal(e.msg, "a: the file exists; --force replaces it");
    assert_int_equal(save_open(&o, "b", false, &e), ERR_INPUT);
    assert_int_equal(save_open(&o, ".", true, &e), ERR_INPUT);
    assert_string_equal(e.msg, ".: this is a folder, expected a file");
    assert_int_equal(save_open(&o, "/dev/null", false, &e), 0); /* Nothing is lost there. */
    save_abort(&o);
    expect_text("a", "mine");
    expect_names(".", "a b ");
}

static void an_abort_keeps_the_old_file(void **state)
{
    struct save o, zero = {0};

    put("a", "mine");
    assert_int_equal(save_open(&o, "a", true, NULL), 0);
    fputs("theirs", o.f);
    save_abort(&o);
    save_abort(&o);
    save_abort(&zero);
    expect_text("a", "mine");
    expect_names(".", "a ");
}

static void several_files_close_in_any_order(void **state)
{
    struct save o[3];

    for (int i = 0; i < 3; i++) {
        char name[2] = {(char)('a' + i), 0};

        assert_int_equal(save_open(&o[i], name, false, NULL), 0);
    }
    save_abort(&o[1]);
    assert_int_equal(save_commit(&o[0], NULL), 0);
    assert_int_equal(save_commit(&o[2], NULL), 0);
    expect_names(".", "a c ");
}

/* The limit simulates a disk that becomes full. */
static void limit_files(rlim_t bytes)
{
    struct rlimit r = {bytes, RLIM_INFINITY};

    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &r), 0);
}

static void the_first_error_of_writing_is_remembered_until_the_commit(void **state)
{
    struct save o;
    struct err e;

    limit_files(4);
    assert_int_equal(save_open(&o, "a", true, NULL), 0);
    fputs("longer", o.f);
    fflush(o.f); /* a writer that checks no errors */
    limit_files(RLIM_INFINITY);
    errno = 0;
    fputs("more", o.f);
    assert_int_equal(save_commit(&o, &e), ERR_OS);
    assert_string_equal(e.msg, "a: cannot write: File too large");
    expect_names(".", "");
}

static void a_folder_gets_all_of_its_files_or_none(void **state)
{
    struct save_folder d;
    struct save *o;
    struct err e;

    assert_int_equal(save_folder_open(&d, "m", false, NULL), 0);
    assert_int_equal(save_folder_file(&d, "config.json", &o, NULL), 0);
    fputs("{}", o->f);
    assert_int_equal(save_folder_file(&d, "weights", &o, NULL), 0);
    limit_files(1);
    fputs("12345", o->f);
    assert_int_equal(save_folder_commit(&d, &e), ERR_OS);
    limit_files(RLIM_INFINITY);
    assert_string_equal(e.msg, "m/config.json: cannot write: File too large");
    expect_names(".", "");

    assert_int_equal(save_folder_open(&d, "m", false, NULL), 0);
    assert_int_equal(save_folder_file(&d, "config.json", &o, NULL), 0);
    assert_int_equal(save_folder_commit(&d, NULL), 0);
    save_folder_abort(&d);
    expect_names("m", "config.json ");
    assert_int_equal(save_folder_open(&d, "m", false, &e), ERR_INPUT);
    assert_string_equal(e.msg,
                        "m: the folder is not empty (it holds config.json); --force replaces its files");
    save_folder_abort(&d);
    expect_names("m", "config.json ");
}

/* Ends a program with an open file and a new folder: by the signal HOW, or by exit() if HOW is 0. */
static int end_with_open_files(int how)
{
    struct save_folder d;
    struct save *in_dir, o;
    int status;
    pid_t child = fork();

    if (child == 0) {
        save_folder_open(&d, "m", false, NULL);
        save_folder_file(&d, "x", &in_dir, NULL);
        save_open(&o, "a", false, NULL);
        if (how)
            raise(how);
        exit(3);
    }
    waitpid(child, &status, 0);
    return status;
}

static void signals_and_exit_leave_nothing(void **state)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};

    for (int i = 0; i < 4; i++) {
        int status = end_with_open_files(signals[i]);

        assert_int_equal(WIFSIGNALED(status) ? WTERMSIG(status) : -1, signals[i]);
        expect_names(".", "");
    }
    assert_int_equal(WEXITSTATUS(end_with_open_files(0)), 3);
    expect_names(".", "");
}

static void a_signal_that_is_ignored_stays_ignored(void **state)
{
    struct save o;

    signal(SIGHUP, SIG_IGN);
    assert_int_equal(save_open(&o, "a", false, NULL), 0);
    raise(SIGHUP);
    assert_int_equal(save_commit(&o, NULL), 0);
    signal(SIGHUP, SIG_DFL);
    expect_names(".", "a ");
}

int main(void)
{
#define T(f) cmocka_unit_test_setup(f, enter)
    const struct CMUnitTest tests[] = {
        T(a_file_has_its_name_when_it_is_committed_and_not_before),
        T(without_replace_a_file_that_exists_is_refused),
        T(an_abort_keeps_the_old_file),
        T(several_files_close_in_any_order),
        T(the_first_error_of_writing_is_remembered_until_the_commit),
        T(a_folder_gets_all_of_its_files_or_none),
        T(signals_and_exit_leave_nothing),
        T(a_signal_that_is_ignored_stays_ignored),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
