/* thread.c - the mask and the stack of signals of a thread.
 *
 * The stack for signals lies at the far end of the thread's own, which a thread that runs out of stack does
 * not reach: nothing is allocated, and it ends with the thread.
 */
#include "base/threads/thread.h"

#include <signal.h>
#include <stddef.h>

static void *begin(void *arg)
{
    struct thread *t = arg;
    char stack[THREAD_SIGNAL_STACK];
    const stack_t own = {.ss_sp = stack, .ss_size = sizeof(stack)};
    stack_t before;
    void *out;

    sigaltstack(&own, &before);
    out = t->fn(t->arg);
    sigaltstack(&before, NULL); /* that of a sanitizer, or none */
    return out;
}

int thread_start(struct thread *t, void *(*fn)(void *arg), void *arg)
{
    static const int own_fault[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};
    sigset_t all, old;
    int rc;

    *t = (struct thread){.fn = fn, .arg = arg};
    sigfillset(&all);
    for (size_t i = 0; i < sizeof(own_fault) / sizeof(own_fault[0]); i++)
        sigdelset(&all, own_fault[i]);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    rc = pthread_create(&t->id, NULL, begin, t);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return rc;
}

void thread_join(struct thread *t)
{
    pthread_join(t->id, NULL);
}
