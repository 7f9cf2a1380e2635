/* help.c - see help.h. */
#include "help.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"

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

bool help_aborts(void (*f)(void), const char *text)
{
    char out[1000] = "";
    size_t n = 0;
    ssize_t got;
    int fd[2], status;
    pid_t pid;

    assert_int_equal(pipe(fd), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0});
        signal(SIGABRT, SIG_DFL); /* cmocka would catch the signal. */
        dup2(fd[1], STDERR_FILENO);
        f();
        _exit(0);
    }
    close(fd[1]);
    while (n + 1 < sizeof(out) && (got = read(fd[0], out + n, sizeof(out) - 1 - n)) > 0)
        n += (size_t)got;
    close(fd[0]);
    waitpid(pid, &status, 0);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT && strstr(out, text);
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

static struct {
    FILE *file;
    int error; /* the standard error of the program */
} heard;

void help_listen(void)
{
    heard.file = tmpfile();
    heard.error = dup(STDERR_FILENO);
    assert_true(heard.file && heard.error >= 0);
    dup2(fileno(heard.file), STDERR_FILENO);
}

const char *help_said(void)
{
    static char text[2048];
    ssize_t n = pread(fileno(heard.file), text, sizeof(text) - 1, 0);

    dup2(heard.error, STDERR_FILENO);
    close(heard.error);
    fclose(heard.file);
    text[n > 0 ? n : 0] = 0;
    return text;
}
