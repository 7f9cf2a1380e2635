/* roof.c - runs the loops of kern/peak.h on all threads of a pool and keeps the best rate of each.
 *
 * Arithmetic: the turns are doubled until a job takes half a millisecond, then jobs repeat until the time is
 * up. Reading: each thread walks through a share of a buffer far larger than the caches, which it has filled
 * itself, so that the pages lie in its node's memory; jobs are short, because a neighbour that takes the
 * processor in between spoils them.
 */
#include "app/roof.h"

#include <stdint.h>
#include <string.h>

#include "base/clock.h"
#include "base/map.h"
#include "kern/peak.h"

static const double job_seconds = 5e-4;
static const size_t least_bytes = (size_t)256 << 20, thread_bytes = (size_t)32 << 20,
                    piece_bytes = (size_t)4 << 20;

/* One job on all threads: a loop of N turns, or the N-th piece of each thread's share of BYTES at P. */
struct job {
    peak_loop *loop;
    peak_reader *read;
    char *p;
    size_t n, bytes;
    double done; /* by thread 0; the others do as much */
    volatile uint64_t sink;
};

static void run_loop(void *ctx, int thread, int n_threads)
{
    struct job *j = ctx;
    double done = j->loop(j->n);

    (void)n_threads;
    if (thread == 0)
        j->done = done;
}

static void run_fill(void *ctx, int thread, int n_threads)
{
    struct job *j = ctx;
    size_t begin, end;

    pool_share(j->bytes, piece_bytes, thread, n_threads, &begin, &end);
    memset(j->p + begin, 1, end - begin);
}

static void run_read(void *ctx, int thread, int n_threads)
{
    struct job *j = ctx;
    size_t begin, end;
    uint64_t sum;

    pool_share(j->bytes, piece_bytes, thread, n_threads, &begin, &end);
    begin += j->n % ((end - begin) / piece_bytes) * piece_bytes;
    sum = j->read(j->p + begin, piece_bytes);
    if (thread == 0)
        j->sink = sum;
}

static double timed(struct pool *p, pool_fn *fn, struct job *j)
{
    uint64_t t = clock_ns();

    pool_run(p, fn, j);
    t = clock_ns() - t;
    return t > 0 ? (double)t * 1e-9 : 1e-9;
}

/* The best rate of LOOP within SECONDS; 0 where there is no such loop. */
static double loop_rate(struct pool *p, peak_loop *loop, double seconds)
{
    struct job j = {.loop = loop, .n = 1000};
    double best = 0, end = clock_seconds() + seconds, t;

    if (!loop)
        return 0;
    do {
        t = timed(p, run_loop, &j);
        if (j.done * pool_threads(p) / t > best)
            best = j.done * pool_threads(p) / t;
        if (t < job_seconds)
            j.n *= 2;
    } while (t < job_seconds || clock_seconds() < end);
    return best;
}

static double read_rate(struct pool *p, peak_reader *read, double seconds)
{
    size_t threads = (size_t)pool_threads(p), share = least_bytes / threads / piece_bytes * piece_bytes;
    struct job j = {.read = read};
    double best = 0, end, t;

    if (share < thread_bytes)
        share = thread_bytes;
    j.bytes = share * threads;
    j.p = map_region_new(j.bytes);
    if (!j.p)
        return 0;
    pool_run(p, run_fill, &j);
    end = clock_seconds() + seconds;
    for (; j.n < share / piece_bytes || clock_seconds() < end; j.n++) {
        t = timed(p, run_read, &j);
        if ((double)(piece_bytes * threads) / t > best)
            best = (double)(piece_bytes * threads) / t;
    }
    map_region_free(j.p, j.bytes);
    return best;
}

void roof_measure(struct pool *p, struct roof *r, double seconds)
{
    struct peak peak;
    double dot;

    peak_best(&peak);
    *r = (struct roof){.fp32_flops = loop_rate(p, peak.fma, seconds * 0.2)};
    dot = loop_rate(p, peak.dot, seconds * 0.2);
    r->bf16_native = dot > r->fp32_flops;
    r->bf16_flops = r->bf16_native ? dot : r->fp32_flops;
    r->int8_ops = loop_rate(p, peak.dot8, seconds * 0.2);
    r->dram_bytes = read_rate(p, peak.read, seconds * 0.4);
}
