/* test_crash.c - the crash report, in child processes: on a thread whose stack is full, and when making the
 * report fails as well. */
#include <limits.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "app/crash.h"
#include "base/threads/thread.h"

static char said[1 << 16];
static bool is_sanitized; /* A sanitizer has its own handlers, which stay. */

static void describe_well(void)
{
    struct crash_line l = {.n = 0};

    crash_put(&l, "described");
    crash_end(&l);
}

static volatile int depth, deepest = INT_MAX; /* This keeps a compiler from making a loop of it. */

/* Uses up the stack of its thread. */
static void *fall(void *arg)
{
    volatile char bytes[4096];

    bytes[0] = (char)depth;
    if (depth++ < deepest)
        fall(arg);
    return bytes[0] ? arg : NULL;
}

static void fall_on_a_thread(void)
{
    struct thread t;

    if (thread_start(&t, fall, NULL) == 0)
        thread_join(&t);
}

static void fall_here(void)
{
    fall(NULL);
}

static void fault_again(void)
{
    raise(SIGSEGV);
}

/* Returns how a child process ends, and what it writes to `said`, if it does FAULT and describes its requests
 * by DESCRIBE. */
static int end_of(void (*fault)(void), void (*describe)(void))
{
    size_t n = 0;
    int fd[2], status;
    pid_t child;
    ssize_t k;

    assert_int_equal(pipe(fd), 0);
    child = fork();
    if (child == 0) {
        dup2(fd[1], STDERR_FILENO);
        for (int sig = 1; sig < 32; sig++)
            signal(sig, SIG_DFL); /* The handlers of cmocka are installed, too. */
        crash_watch(describe);
        fault();
        _exit(1);
    }
    close(fd[1]);
    while ((k = read(fd[0], said + n, sizeof(said) - 1 - n)) > 0)
        n += (size_t)k;
    said[n] = 0;
    close(fd[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void a_thread_without_stack_is_reported(void **state)
{
    if (is_sanitized)
        skip();
    for (int thread = 0; thread < 2; thread++) {
        int status = end_of(thread ? fall_on_a_thread : fall_here, describe_well);

        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), SIGSEGV);
        assert_non_null(strstr(said, "gallop: crash: SIGSEGV at 0x"));
        assert_non_null(strstr(said, "gallop: crash: described\n"));
        assert_non_null(strstr(said, "calls, the last first"));
    }
}

static void a_fault_within_the_report_ends_the_program(void **state)
{
    static void (*const faults[])(void) = {abort, fault_again};

    if (is_sanitized)
        skip();
    for (int i = 0; i < 2; i++) {
        int status = end_of(fault_again, faults[i]);

        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), i ? SIGSEGV : SIGABRT);
        assert_non_null(strstr(said, "gallop: crash: SIGSEGV sent by process "));
    }
}

int main(void)
{
    struct sigaction sa;
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_thread_without_stack_is_reported),
                                       cmocka_unit_test(a_fault_within_the_report_ends_the_program)};

    is_sanitized = sigaction(SIGSEGV, NULL, &sa) != 0 || sa.sa_handler != SIG_DFL;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
