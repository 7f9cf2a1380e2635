/* thread.h - starts threads that block all signals except their own faults. Faults are handled on a separate
 * stack, so that the crash handler also works after a stack overflow. */
#ifndef GALLOP_BASE_THREADS_THREAD_H
#define GALLOP_BASE_THREADS_THREAD_H

#include <pthread.h>

enum { THREAD_SIGNAL_STACK = 64 << 10 }; /* bytes; saved registers alone use 11 KiB */

/* A thread and its function. The struct must not move until thread_join(). */
struct thread {
    pthread_t id;
    void *(*fn)(void *arg);
    void *arg;
};

/* Starts a thread that runs FN(ARG). Returns 0, or an error number if it was not started. */
int thread_start(struct thread *t, void *(*fn)(void *arg), void *arg);
void thread_join(struct thread *t);
void thread_detach(struct thread *t); /* for a thread that is never joined: it is freed when it ends */

/* Lowers the priority of the calling thread, so that the compute threads, for which all sequences wait, run first. */
void thread_give_way(void);

#endif
