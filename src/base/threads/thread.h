/* thread.h - starts our threads: they handle no signals except their own faults, for which they have a
 * separate stack, so that the crash handler still works when a thread has run out of stack. */
#ifndef GALLOP_BASE_THREADS_THREAD_H
#define GALLOP_BASE_THREADS_THREAD_H

#include <pthread.h>

enum { THREAD_SIGNAL_STACK = 64 << 10 }; /* bytes; the saved registers alone take 11 KiB */

/* A thread and its function. Must not move until thread_join(). */
struct thread {
    pthread_t id;
    void *(*fn)(void *arg);
    void *arg;
};

/* Starts a thread that runs FN(ARG). 0, or an error number: then there is no thread. */
int thread_start(struct thread *t, void *(*fn)(void *arg), void *arg);
void thread_join(struct thread *t);

#endif
