/* thread.h - how every thread of ours begins: it handles no signals but its own faults, and has a stack of
 * its own for these, so that a handler can still say something when the thread has run out of stack.
 */
#ifndef GALLOP_BASE_THREADS_THREAD_H
#define GALLOP_BASE_THREADS_THREAD_H

#include <pthread.h>

enum { THREAD_SIGNAL_STACK = 64 << 10 }; /* bytes; registers alone take some 11 KiB of a handler's */

/* A thread and what it runs; stays where it is until thread_join(). */
struct thread {
    pthread_t id;
    void *(*fn)(void *arg);
    void *arg;
};

/* Runs FN(ARG) on a thread of its own. 0, or an error number: then there is none. */
int thread_start(struct thread *t, void *(*fn)(void *arg), void *arg);
void thread_join(struct thread *t);

#endif
