/* test_thread.c - threads of the program: their results, the signals that they block, and that a signal
 * handler has a stack if the thread's own stack is full. */
#include "base/threads/thread.h"

#include <limits.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void *note_mask(void *out)
{
    pthread_sigmask(SIG_SETMASK, NULL, out);
    return NULL;
}

static void signals_are_left_to_others(void **state)
{
    sigset_t before, during, after;
    struct thread t;

    pthread_sigmask(SIG_SETMASK, NULL, &before);
    assert_int_equal(thread_start(&t, note_mask, &during), 0);
    thread_join(&t);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    for (int sig = 1; sig < 32; sig++)
        assert_int_equal(sigismember(&after, sig), sigismember(&before, sig));
    assert_true(sigismember(&during, SIGTERM) && sigismember(&during, SIGHUP) &&
                sigismember(&during, SIGPIPE));
    assert_false(sigismember(&during, SIGSEGV) || sigismember(&during, SIGBUS) ||
                 sigismember(&during, SIGABRT));
}

static void *note_stacks(void *out)
{
    sigaltstack(NULL, out);
    return NULL;
}

static void each_thread_has_a_stack_for_signals(void **state)
{
    stack_t own[2], mine, after;
    struct thread t[2];

    sigaltstack(NULL, &mine);
    for (int i = 0; i < 2; i++)
        assert_int_equal(thread_start(&t[i], note_stacks, &own[i]), 0);
    for (int i = 0; i < 2; i++)
        thread_join(&t[i]);
    for (int i = 0; i < 2; i++)
        assert_true(!(own[i].ss_flags & SS_DISABLE) && own[i].ss_size == THREAD_SIGNAL_STACK);
    sigaltstack(NULL, &after);
    assert_true(after.ss_sp == mine.ss_sp && after.ss_flags == mine.ss_flags);
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

static void say_so(int sig)
{
    _exit(40 + (sig == SIGSEGV));
}

static void a_thread_without_stack_still_reaches_its_handler(void **state)
{
    int status;
    pid_t child = fork();

    if (child == 0) {
        struct sigaction sa = {.sa_handler = say_so, .sa_flags = SA_ONSTACK};
        struct thread t;

        sigaction(SIGSEGV, &sa, NULL);
        sigaction(SIGBUS, &sa, NULL);
        if (thread_start(&t, fall, NULL) == 0)
            thread_join(&t);
        _exit(1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 41);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(signals_are_left_to_others),
                                       cmocka_unit_test(each_thread_has_a_stack_for_signals),
                                       cmocka_unit_test(a_thread_without_stack_still_reaches_its_handler)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
