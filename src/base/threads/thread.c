/* thread.c - sets the signal mask and the signal stack of a thread.
 *
 * The signal stack is an array at the beginning of the thread's own stack, where an overflow does not reach.
 * So it needs no allocation.
 */
#include "base/threads/thread.h"

#include <signal.h>
#include <stddef.h>
#include <sys/resource.h>

/* A gemm of level amx keeps 513 KB of sums on the stack, and packing keeps as many bytes of weights. */
enum { STACK = 2 << 20 };

enum { NICE = 5 }; /* added to the nice value of a thread by thread_give_way() */

static void *begin(void *arg)
{
    struct thread *t = arg;
    char stack[THREAD_SIGNAL_STACK];
    const stack_t own = {.ss_sp = stack, .ss_size = sizeof(stack)};
    stack_t before;
    void *out;

    sigaltstack(&own, &before);
    out = t->fn(t->arg);
    /* Restores the previous signal stack, which a sanitizer may have set. */
    sigaltstack(&before, NULL);
    return out;
}

int thread_start(struct thread *t, void *(*fn)(void *arg), void *arg)
{
    static const int own_fault[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};
    pthread_attr_t attr;
    sigset_t all, old;
    size_t stack;
    int rc;

    *t = (struct thread){.fn = fn, .arg = arg};
    sigfillset(&all);
    for (size_t i = 0; i < sizeof(own_fault) / sizeof(own_fault[0]); i++)
        sigdelset(&all, own_fault[i]);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    if ((rc = pthread_attr_init(&attr)) == 0) {
        if ((rc = pthread_attr_getstacksize(&attr, &stack)) == 0 && stack < STACK)
            rc = pthread_attr_setstacksize(&attr, STACK);
        if (rc == 0)
            rc = pthread_create(&t->id, &attr, begin, t);
        pthread_attr_destroy(&attr);
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return rc;
}

void thread_join(struct thread *t)
{
    pthread_join(t->id, NULL);
}

void thread_detach(struct thread *t)
{
    pthread_detach(t->id);
}

void thread_give_way(void)
{
    /* on Linux the calls apply to this thread only */
    setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + NICE);
}
