/* test_artifacts.c - files of compiled programs that are damaged, cut off, foreign or refused by the plugin
 * (test/pjrt/fake.c): each is compiled again and replaced, with one line in the log. */
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/pjrt/artifacts.h"
#include "engine/pjrt/plugin.h"
#include "engine/pjrt/plugin_source.h"

static const char text[] = "{tf.aliasing_output = 0} -> (tensor<9xf32>, tensor<2x3xf32>) {\n";

/* Where a program came from, and whether its file exists now. */
enum artifact { ARTIFACT_LOADED, ARTIFACT_KEPT, ARTIFACT_COMPILED };

static struct plugin_source source;
static struct plugin plugin;
static char file[400]; /* the only file of the cache folder */

static enum artifact how_of(const struct artifact_counts *n)
{
    assert_int_equal(n->n_loaded + n->n_compiled, 1);
    return n->n_loaded ? ARTIFACT_LOADED : n->n_kept ? ARTIFACT_KEPT : ARTIFACT_COMPILED;
}

/* Opens the program, and counts the lines that are logged meanwhile. */
static enum artifact open_program(size_t *n_lines)
{
    struct buf program = {.data = (char *)(uintptr_t)text, .len = sizeof(text) - 1};
    struct artifact_counts counts = {0};
    struct pjrt_loaded *loaded;
    struct err e = {0};
    int log = open("log", O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0600), old = dup(2), rc;
    char line[2000];
    ssize_t n;

    assert_true(log >= 0 && old >= 0);
    dup2(log, 2);
    rc = artifacts_open(&plugin, &program, &loaded, &counts, &e);
    dup2(old, 2);
    close(old);
    if (rc)
        fail_msg("%s", e.msg);
    plugin_free_program(&plugin, loaded);
    n = pread(log, line, sizeof(line), 0);
    *n_lines = 0;
    for (ssize_t i = 0; i < n; i++)
        *n_lines += line[i] == '\n';
    close(log);
    return how_of(&counts);
}

static size_t read_it(char *bytes, size_t size)
{
    int fd = open(file, O_RDONLY);
    ssize_t n = read(fd, bytes, size);

    assert_true(fd >= 0 && n > 0 && (size_t)n < size);
    close(fd);
    return (size_t)n;
}

static void write_it(const char *bytes, size_t n)
{
    int fd = open(file, O_WRONLY | O_TRUNC);

    assert_int_equal(write(fd, bytes, n), n);
    close(fd);
}

static void find_file(void)
{
    DIR *d = opendir("cache/gallop/pjrt");

    assert_non_null(d);
    for (struct dirent *f; (f = readdir(d)) != NULL;)
        if (f->d_name[0] != '.')
            snprintf(file, sizeof(file), "cache/gallop/pjrt/%s", f->d_name);
    closedir(d);
}

/* A plugin, and an empty cache folder with a file of its program. */
static int open_all(void **state)
{
    size_t lines;

    assert_int_equal(system("rm -rf cache"), 0);
    setenv("XDG_CACHE_HOME", "cache", 1);
    setenv("FAKE_PJRT_KEEP", "1", 1);
    unsetenv("FAKE_PJRT_FAIL");
    assert_int_equal(plugin_source_read(&source, FAKE_PJRT, NULL, 0, NULL), 0);
    assert_int_equal(plugin_open(&plugin, &source, NULL), 0);
    assert_int_equal(open_program(&lines), ARTIFACT_KEPT);
    assert_int_equal(lines, 0);
    find_file();
    return 0;
}

static int close_all(void **state)
{
    plugin_close(&plugin);
    plugin_source_fini(&source);
    return 0;
}

static void expect_again(const char *what, size_t at)
{
    size_t lines;

    if (open_program(&lines) != ARTIFACT_KEPT || lines != 1)
        fail_msg("%s %zu: %zu lines", what, at, lines);
    if (open_program(&lines) != ARTIFACT_LOADED || lines != 0)
        fail_msg("%s %zu: the file is not replaced", what, at);
}

static void a_flipped_byte_is_compiled_again(void **state)
{
    char good[400], bytes[400];
    size_t n = read_it(good, sizeof(good)), live = mem_live_blocks(), after;

    assert_true(n > 40);
    for (size_t i = 0; i < n; i++)
        for (int bit = 0; bit < 8; bit += 7) {
            memcpy(bytes, good, n);
            bytes[i] = (char)(bytes[i] ^ (1 << bit));
            write_it(bytes, n);
            expect_again("byte", i);
            after = read_it(bytes, sizeof(bytes));
            assert_int_equal(after, n);
            assert_memory_equal(bytes, good, n);
        }
    assert_int_equal(mem_live_blocks(), live);
}

static void a_file_of_another_length_is_compiled_again(void **state)
{
    char good[400];
    size_t n = read_it(good, sizeof(good)), lines;

    for (size_t i = 0; i < n; i++) {
        write_it(good, i);
        expect_again("length", i);
    }
    memcpy(good + n, good, 8);
    write_it(good, n + 8);
    expect_again("length", n + 8);
    assert_int_equal(truncate(file, (off_t)1 << 33), 0); /* sparse: no memory is taken for it */
    expect_again("length", 0);
    assert_int_equal(unlink(file), 0);
    assert_int_equal(open_program(&lines), ARTIFACT_KEPT);
    assert_int_equal(lines, 0);
}

static void what_is_no_file_is_passed_over(void **state)
{
    size_t lines;

    assert_int_equal(unlink(file), 0);
    assert_int_equal(mkfifo(file, 0600), 0);
    expect_again("pipe", 0);
    assert_int_equal(unlink(file), 0);
    assert_int_equal(mkdir(file, 0700), 0);
    assert_int_equal(open_program(&lines), ARTIFACT_COMPILED); /* a folder cannot be replaced */
    assert_int_equal(lines, 2);
    assert_int_equal(rmdir(file), 0);
}

static void a_file_of_another_program_is_compiled_again(void **state)
{
    struct buf other = {.data = (char[]){"-> (tensor<2x3xf32>) {\n"}, .len = 23};
    struct pjrt_loaded *loaded;
    char first[400], path[400];
    struct artifact_counts counts = {0};

    snprintf(first, sizeof(first), "%s", file);
    assert_int_equal(rename(first, "kept"), 0);
    assert_int_equal(artifacts_open(&plugin, &other, &loaded, &counts, NULL), 0);
    assert_int_equal(how_of(&counts), ARTIFACT_KEPT);
    plugin_free_program(&plugin, loaded);
    find_file();
    snprintf(path, sizeof(path), "%s", file);
    assert_string_not_equal(path, first);
    assert_int_equal(rename(path, first), 0);
    snprintf(file, sizeof(file), "%s", first);
    expect_again("program", 0);
}

/* Opens the program, and expects that it comes from HOW. */
static void expect_from(enum artifact how, const char *what)
{
    size_t lines;
    enum artifact found = open_program(&lines);

    if (found != how || lines)
        fail_msg("%s: %d, %zu lines", what, found, lines);
}

static void variables_that_compilers_read_are_part_of_the_key(void **state)
{
    static const char *const names[] = {"XLA_FLAGS", "TF_XLA_FLAGS", "LIBTPU_INIT_ARGS", "NEURON_CC_FLAGS"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        setenv(names[i], "--a", 1);
        expect_from(ARTIFACT_KEPT, names[i]);
        expect_from(ARTIFACT_LOADED, names[i]);
        setenv(names[i], "--b", 1);
        expect_from(ARTIFACT_KEPT, names[i]);
        unsetenv(names[i]);
        expect_from(ARTIFACT_LOADED, names[i]);
    }
    assert_int_equal(system("echo --a > flags"), 0);
    setenv("XLA_FLAGS", "flags", 1); /* a file */
    expect_from(ARTIFACT_KEPT, "a file of flags");
    expect_from(ARTIFACT_LOADED, "a file of flags");
    assert_int_equal(system("echo --another > flags"), 0);
    expect_from(ARTIFACT_KEPT, "a file that was changed");
    unsetenv("XLA_FLAGS");
    expect_from(ARTIFACT_LOADED, "no flags");
}

static void what_names_plugin_and_device_is_part_of_the_key(void **state)
{
    const struct plugin before = plugin;

    for (int what = 0; what < 6; what++) {
        plugin.options = what == 0 ? "{\"level\":1}" : before.options;
        plugin.path = what == 1 ? "elsewhere" : before.path;
        plugin.device_number = what == 2;
        plugin.platform[0] = what == 3 ? 'x' : before.platform[0];
        plugin.version[0] = what == 4 ? 'x' : before.version[0];
        plugin.kind[0] = what == 5 ? 'x' : before.kind[0];
        expect_from(ARTIFACT_KEPT, "another plugin");
        expect_from(ARTIFACT_LOADED, "the same plugin");
        plugin = before;
        expect_from(ARTIFACT_LOADED, "the first plugin");
    }
}

/* Opens the program in a process in which the first call after plugin_open() ends as HOW says. */
static int open_in_process(const char *how, struct artifact_counts *n, struct err *e)
{
    struct buf program = {.data = (char *)(uintptr_t)text, .len = sizeof(text) - 1};
    struct plugin_source s = source;
    struct pjrt_loaded *loaded;
    struct plugin p;
    int rc;

    setenv("FAKE_PJRT_FAIL", "9", 1);
    setenv("FAKE_PJRT_HOW", how, 1);
    if (getenv("GALLOP_BIN"))
        setenv("GALLOP_PROGRAM", getenv("GALLOP_BIN"), 1);
    s.has_process = true;
    log_set_level(LOG_ERROR);
    assert_int_equal(plugin_open(&p, &s, e), 0);
    if ((rc = artifacts_open(&p, &program, &loaded, n, e)) == 0)
        plugin_free_program(&p, loaded);
    plugin_close(&p);
    log_set_level(LOG_WARN);
    unsetenv("FAKE_PJRT_FAIL");
    unsetenv("FAKE_PJRT_HOW");
    return rc;
}

/* The bytes are whole, and the plugin cannot load them. If it cannot compile the program, either, the reason may be
 * another one, such as the memory of the device, and the file stays. */
static void a_program_that_the_plugin_refuses_is_compiled_again(void **state)
{
    struct artifact_counts none = {0};
    struct err why = {0};

    setenv("FAKE_PJRT_TIMES", "2", 1);
    assert_int_equal(open_in_process("error", &none, &why), ERR_OS);
    unsetenv("FAKE_PJRT_TIMES");
    assert_int_equal(access(file, F_OK), 0);
    for (int keeps = 1; keeps >= 0; keeps--) {
        struct artifact_counts n = {0};
        struct err e = {0};
        size_t lines;

        if (!keeps)
            unsetenv("FAKE_PJRT_KEEP");
        assert_int_equal(open_in_process("error", &n, &e), 0);
        assert_int_equal(n.n_loaded, 0);
        assert_int_equal(n.n_damaged, 1);
        assert_int_equal(n.n_compiled, 1);
        assert_int_equal(n.n_kept, keeps);
        assert_int_equal(access(file, F_OK), keeps ? 0 : -1); /* replaced, or deleted */
        assert_int_equal(open_program(&lines), keeps ? ARTIFACT_LOADED : ARTIFACT_COMPILED);
        assert_int_equal(lines, 0);
    }
    setenv("FAKE_PJRT_KEEP", "1", 1);
}

/* The bytes are whole, and the process of the plugin ends over them. */
static void a_program_over_which_the_process_ends_is_deleted(void **state)
{
    struct artifact_counts counts = {0};
    struct err e = {0};
    size_t lines;

    assert_int_equal(open_in_process("crash", &counts, &e), ERR_OS);
    assert_non_null(strstr(e.msg, "ended by signal 9"));
    assert_int_equal(access(file, F_OK), -1);
    assert_int_equal(open_program(&lines), ARTIFACT_KEPT);
    assert_int_equal(lines, 0);
}

static void every_allocation_may_fail(void **state)
{
    struct buf program = {.data = (char *)(uintptr_t)text, .len = sizeof(text) - 1};
    struct pjrt_loaded *loaded;
    struct artifact_counts counts = {0};
    struct err e = {0};
    size_t live = mem_live_blocks();

    log_set_level(LOG_ERROR);
    for (int turn = 0; turn < 2; turn++)
        for (long n = 1;; n++) {
            bool failed;

            if (turn)
                unlink(file);
            mem_fail_at(n);
            assert_int_equal(artifacts_open(&plugin, &program, &loaded, &counts, &e), 0);
            failed = mem_failed();
            mem_fail_at(0);
            plugin_free_program(&plugin, loaded);
            assert_int_equal(mem_live_blocks(), live);
            if (!failed)
                break;
        }
    log_set_level(LOG_WARN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_flipped_byte_is_compiled_again, open_all, close_all),
        cmocka_unit_test_setup_teardown(a_file_of_another_length_is_compiled_again, open_all, close_all),
        cmocka_unit_test_setup_teardown(what_is_no_file_is_passed_over, open_all, close_all),
        cmocka_unit_test_setup_teardown(a_file_of_another_program_is_compiled_again, open_all, close_all),
        cmocka_unit_test_setup_teardown(variables_that_compilers_read_are_part_of_the_key, open_all,
                                        close_all),
        cmocka_unit_test_setup_teardown(what_names_plugin_and_device_is_part_of_the_key, open_all, close_all),
        cmocka_unit_test_setup_teardown(a_program_that_the_plugin_refuses_is_compiled_again, open_all,
                                        close_all),
        cmocka_unit_test_setup_teardown(a_program_over_which_the_process_ends_is_deleted, open_all,
                                        close_all),
        cmocka_unit_test_setup_teardown(every_allocation_may_fail, open_all, close_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
