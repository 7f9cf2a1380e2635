/* errand.h - one function at a time on a thread of its own, so that the caller can do other things until it ends.
 *
 * The calls come from one thread; the function may use everything that its caller leaves alone meanwhile.
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
    bool runs; /* from errand_start() to errand_take() */
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool has_ended; /* under the lock */
    int rc;
    struct err err;
};

void errand_init(struct errand *r);
void errand_fini(struct errand *r); /* waits for the function */

/* Starts FN(CTX, e), which returns 0 or an error code, on a new thread. No other function runs. */
int errand_start(struct errand *r, int (*fn)(void *ctx, struct err *e), void *ctx, struct err *e);

/* Waits at most SECONDS for the end of the function, if one runs. Returns true if none runs any more. */
bool errand_wait(struct errand *r, double seconds);

/* Leaves the function that runs behind, with R and all that it uses: nothing waits for its end. No function of R may
 * be called any more. */
void errand_leave(struct errand *r);

/* Waits for the end of the function that was started, and returns its result. */
int errand_take(struct errand *r, struct err *e);

#endif
