/* outage.c - computes when the next try to open an executor again is made. */
#include "engine/schedule/outage.h"

static const double first_s = 0.1, longest_s = 10;

/* Returns the seconds before the next try if N tries were made. */
static double pause_s(size_t n)
{
    double s = n ? first_s : 0;

    while (n-- > 1 && s < longest_s)
        s *= 2;
    return s < longest_s ? s : longest_s;
}

void outage_begin(struct outage *o, double now_s)
{
    atomic_store(&o->is_down, true);
    o->since_s = now_s;
    o->next_s = now_s + pause_s(o->n_tries);
}

double outage_wait_s(const struct outage *o, double now_s)
{
    return o->next_s > now_s ? o->next_s - now_s : 0;
}

bool outage_try_failed(struct outage *o, double now_s)
{
    o->n_tries++;
    o->next_s = now_s + pause_s(o->n_tries);
    return o->n_tries >= OUTAGE_TRIES;
}

void outage_end(struct outage *o)
{
    o->n_tries++;
    atomic_fetch_add(&o->n_restarts, 1);
    atomic_store(&o->is_down, false);
}

void outage_computed(struct outage *o)
{
    o->n_tries = 0;
}
