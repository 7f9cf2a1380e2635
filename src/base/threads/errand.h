/* errand.h - runs one function at a time on a thread of its own, while the caller does other things.
 *
 * All functions below are called from one thread. The function that runs may use all data that the calling thread does
 * not use meanwhile.
 */
#ifndef GALLOP_BASE_THREADS_ERRAND_H
#define GALLOP_BASE_THREADS_ERRAND_H

#include <pthread.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/threads/thread.h"

struct errand {
    struct thread thread;
    int (*fn)(void *ctx, struct err *e);
    void *ctx;
    bool runs; /* between errand_start() and errand_take() */
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool has_ended; /* FN has returned; guarded by LOCK */
    int rc;
    struct err err;
};

void errand_init(struct errand *r);
void errand_fini(struct errand *r); /* waits for the function */

/* Starts FN(CTX, e), which returns 0 or an error code, on a new thread. Call errand_take() before the next
 * errand_start(). */
int errand_start(struct errand *r, int (*fn)(void *ctx, struct err *e), void *ctx, struct err *e);

/* Waits at most SECONDS for the function to return. Returns true if no function runs any more. */
bool errand_wait(struct errand *r, double seconds);

/* Abandons the running function: nothing waits for its end any more. R and all data that the function uses must stay
 * valid, and no other function may be called with R. */
void errand_leave(struct errand *r);

/* Waits for the started function to return, and returns its result, with its error in E. */
int errand_take(struct errand *r, struct err *e);

#endif
