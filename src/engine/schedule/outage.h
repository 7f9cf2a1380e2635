/* outage.h - decides when an executor whose run has failed is opened again, and when the waiting requests are given up.
 *
 * The first try is made at once, the others after 0.1, 0.2, 0.4, ... and at most 10 seconds. The count of tries is
 * reset when a run succeeds, not when opening succeeds, so that an executor that fails in each first run is also tried
 * at growing intervals. Before try number OUTAGE_TRIES requests have waited for 12.7 seconds and the duration of the
 * tries; if this try or a later one fails, the requests that wait end with its error. They also end if the executor
 * could be opened, but its first run fails after this try or a later one. The executor is tried for as long as the
 * engine is open.
 *
 * A request may itself be the reason why runs fail. A sequence that has been in OUTAGE_RUNS failed runs, without having
 * computed a new row between them, ends with the error.
 */
#ifndef GALLOP_ENGINE_SCHEDULE_OUTAGE_H
#define GALLOP_ENGINE_SCHEDULE_OUTAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { OUTAGE_TRIES = 8, OUTAGE_RUNS = 4 };

/* The state of an executor that may fail. Zeroed: it has not failed. */
struct outage {
    _Atomic bool is_down;        /* this member and the next may be read by any thread */
    _Atomic uint64_t n_restarts; /* times that the executor was opened again */
    size_t n_tries;              /* tries since the last run that succeeded */
    double since_s, next_s;      /* time of the failed run, and earliest time of the next try */
};

/* Records that a run has failed at the time NOW_S. */
void outage_begin(struct outage *o, double now_s);
/* Returns the seconds until the next try may begin; 0: it may begin or continue now. */
double outage_wait_s(const struct outage *o, double now_s);
/* Records a failed try. Returns true if the waiting requests are to end with its error. */
bool outage_try_failed(struct outage *o, double now_s);
/* Records a successful try: the executor computes again. */
void outage_end(struct outage *o);
/* Records a successful run. */
void outage_computed(struct outage *o);

#endif
