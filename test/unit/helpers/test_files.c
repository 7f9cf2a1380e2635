/* test_files.c - files of a test are copied completely and removed at the end, and the comparison of answers
 * reports the difference. */
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engines.h"
#include "files.h"

static void a_copied_file_is_another(void **state)
{
    const char *from = files_folder(), *to = files_folder();
    char a[200], b[200], *p;
    size_t n;

    assert_string_not_equal(from, to);
    snprintf(a, sizeof(a), "%s/a.txt", from);
    snprintf(b, sizeof(b), "%s/a.txt", to);
    files_write(a, "one\0two", 7);
    files_copy_all(from, to);
    files_flip(a, -1, 1);
    p = files_read(b, &n);
    assert_int_equal(n, 7);
    assert_memory_equal(p, "one\0two", 8);
    free(p);
    p = files_read(a, &n);
    assert_memory_equal(p, "one\0twn", 8);
    free(p);
}

static void a_folder_stays_when_the_program_has_ended(void **state)
{
    int fd[2], status;
    char name[200] = "";
    pid_t pid;

    assert_int_equal(pipe(fd), 0);
    fflush(NULL);
    if ((pid = fork()) == 0) {
        const char *folder = files_folder();
        char path[200];

        snprintf(path, sizeof(path), "%s/x", folder);
        files_write_text(path, "x");
        exit(write(fd[1], folder, strlen(folder)) > 0 && access(path, R_OK) == 0 ? 0 : 1);
    }
    assert_true(waitpid(pid, &status, 0) == pid && status == 0);
    assert_true(read(fd[0], name, sizeof(name) - 1) > 10);
    assert_int_not_equal(access(name, F_OK), 0);
    close(fd[0]);
    close(fd[1]);
}

static void answers_that_differ_pass_for_the_same(void **state)
{
    static struct engines_answer a[2], b[2];
    char says[256];

    a[1].n = b[1].n = 3;
    assert_false(engines_differ(a, b, 2, says));
    b[1].token[2] = 7;
    assert_true(engines_differ(a, b, 2, says));
    assert_string_equal(says, "token 2 of answer 1 is 0, expected 7");
    b[1].n = 2;
    assert_true(engines_differ(a, b, 2, says));
    assert_non_null(strstr(says, "answer 1 ends behind 3 tokens"));
    b[1].n = 3;
    b[1].token[2] = 0;
    b[0].ended = true;
    assert_true(engines_differ(a, b, 2, says));
    b[0].ended = false;
    b[0].end.finish = GALLOP_FINISH_ERROR;
    assert_true(engines_differ(a, b, 2, says));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copied_file_is_another),
        cmocka_unit_test(a_folder_stays_when_the_program_has_ended),
        cmocka_unit_test(answers_that_differ_pass_for_the_same),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
