/* benchround.c - rounds of reading, computing and working, each by all threads of a pool. */
#include "app/benchround.h"

#include <stdint.h>

#include "base/clock.h"
#include "base/stat.h"

enum { MAX_ROUNDS = 256, LEAST_ROUNDS = 3, FIT_TRIES = 4, READ_BYTES = 8 << 20 };

static const double phase_seconds = 1e-3; /* at least, of the loop and of the work */

/* One phase of a round. */
struct phase {
    const struct benchround *b;
    size_t n;    /* calls, or turns of the loop */
    double done; /* by thread 0; the others do as much */
    volatile uint64_t sink;
};

static void run_read(void *ctx, int thread, int n_threads)
{
    struct phase *p = ctx;
    uint64_t sum = p->b->read(p->b->piece(p->b->work[thread], READ_BYTES), READ_BYTES);

    (void)n_threads;
    if (thread == 0)
        p->sink = sum;
}

static void run_loop(void *ctx, int thread, int n_threads)
{
    struct phase *p = ctx;
    double done = p->b->loop(p->n);

    (void)n_threads;
    if (thread == 0)
        p->done = done;
}

static void run_calls(void *ctx, int thread, int n_threads)
{
    struct phase *p = ctx;

    (void)n_threads;
    for (size_t i = 0; i < p->n; i++)
        p->b->call(p->b->work[thread]);
}

static double timed(struct phase *p, pool_fn *fn)
{
    uint64_t t = clock_ns();

    pool_run(p->b->pool, fn, p);
    t = clock_ns() - t;
    return t > 0 ? (double)t * 1e-9 : 1e-9;
}

/* As many turns as take a phase. The best of some tries counts: one that another program interrupts takes
 * long with any number of turns. */
static void fit(struct phase *p, pool_fn *fn)
{
    double best = 0;

    for (p->n = 1; best < phase_seconds; p->n *= best < phase_seconds ? 2 : 1) {
        best = timed(p, fn);
        for (int i = 1; i < FIT_TRIES && best >= phase_seconds; i++) {
            double t = timed(p, fn);

            best = t < best ? t : best;
        }
    }
}

struct benchround_result benchround_run(const struct benchround *b, double seconds)
{
    struct phase read = {.b = b}, loop = {.b = b}, work = {.b = b};
    double time[MAX_ROUNDS], share[MAX_ROUNDS], end = clock_seconds() + seconds, by_bytes = 0, by_flops = 0;
    struct benchround_result r;
    size_t n = 0;

    fit(&work, run_calls);
    if (b->flops > 0)
        fit(&loop, run_loop);
    while (n < LEAST_ROUNDS || (n < MAX_ROUNDS && clock_seconds() < end)) {
        double bytes = 0, flops = 0;

        if (b->flops > 0) {
            bytes = b->bytes * timed(&read, run_read) / READ_BYTES;
            flops = timed(&loop, run_loop);
            flops = b->flops * flops / (loop.done * b->loop_worth);
        }
        time[n] = timed(&work, run_calls) / (double)work.n;
        share[n] = (bytes > flops ? bytes : flops) / time[n];
        by_bytes += bytes;
        by_flops += flops;
        n++;
    }
    r = (struct benchround_result){.seconds = stat_median(time, n), .memory = by_bytes > by_flops};
    r.share = stat_median(share, n);
    return r;
}
