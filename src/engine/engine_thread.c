/* engine_thread.c - computes steps, and stores the time at which the current one began.
 *
 * gallop_step() without a waiting time returns 0 only if the engine has no request. Then the loop sleeps until a
 * submission or, if the executor has failed, until the next try to open it again.
 */
#include "engine/engine_thread.h"

#include "base/clock.h"
#include "engine/engine.h"
#include "engine/engine_priv.h"
#include "engine/step.h"
#include "gallop.h"

#define RETRY_S   0.1 /* seconds between two tries to open a failed executor again */
#define FOREVER_S 1e9

void engine_thread_run(struct engine_thread *t)
{
    while (t->begin(t->ctx)) {
        bool computed;

        atomic_store(&t->step_ns, clock_ns());
        computed = gallop_step(t->g, 0) != 0;
        atomic_store(&t->step_ns, 0);
        if (computed)
            t->collect(t->ctx);
        else
            engine_await(t->g, engine_loop(t->g)->outage.is_down ? RETRY_S : FOREVER_S);
    }
}

uint64_t engine_thread_step_ns(const struct engine_thread *t)
{
    return atomic_load(&t->step_ns);
}
