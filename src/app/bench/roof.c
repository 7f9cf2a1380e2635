/* roof.c - runs the loops of kern/peak.h on all threads of a pool: by themselves for their best rate,
 * or in turns with other work.
 *
 * Arithmetic by itself: the turns are doubled until a job takes half a millisecond, then jobs repeat until
 * the time is up. Reading by itself: each thread walks through a share of a buffer far larger than the
 * caches, which it has filled itself, so that the pages lie in its node's memory; jobs are short, because a
 * neighbour that takes the processor in between spoils them.
 */
#include <stdint.h>
#include <string.h>

#include "app/bench/bench.h"
#include "app/bench/stat.h"
#include "base/clock.h"
#include "base/map.h"

enum { MAX_ROUNDS = 256, LEAST_ROUNDS = 3, FIT_TRIES = 4, ROUND_BYTES = 8 << 20 };

static const double job_seconds = 5e-4, phase_seconds = 1e-3;
static const size_t least_bytes = (size_t)256 << 20, thread_bytes = (size_t)32 << 20,
                    piece_bytes = (size_t)4 << 20;

static double timed(struct pool *p, pool_fn *fn, void *job)
{
    uint64_t t = clock_ns();

    pool_run(p, fn, job);
    t = clock_ns() - t;
    return t > 0 ? (double)t * 1e-9 : 1e-9;
}

/* ---- arithmetic ---- */

struct loop_job {
    peak_loop *loop;
    size_t n;    /* turns */
    double done; /* operations by thread 0; the others do as much */
};

static void run_loop(void *ctx, int thread, int n_threads)
{
    struct loop_job *j = ctx;
    double done = j->loop(j->n);

    (void)n_threads;
    if (thread == 0)
        j->done = done;
}

/* The best rate of LOOP within SECONDS; 0 where there is no such loop. */
static double loop_rate(struct pool *p, peak_loop *loop, double seconds)
{
    struct loop_job j = {.loop = loop, .n = 1000};
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

/* ---- memory ---- */

/* The N-th piece of each thread's share of BYTES at P. */
struct read_job {
    peak_reader *read;
    char *p;
    size_t n, bytes;
    volatile uint64_t sink;
};

static void run_fill(void *ctx, int thread, int n_threads)
{
    struct read_job *j = ctx;
    size_t begin, end;

    pool_share(j->bytes, piece_bytes, thread, n_threads, &begin, &end);
    memset(j->p + begin, 1, end - begin);
}

static void run_read(void *ctx, int thread, int n_threads)
{
    struct read_job *j = ctx;
    size_t begin, end;
    uint64_t sum;

    pool_share(j->bytes, piece_bytes, thread, n_threads, &begin, &end);
    begin += j->n % ((end - begin) / piece_bytes) * piece_bytes;
    sum = j->read(j->p + begin, piece_bytes);
    if (thread == 0)
        j->sink = sum;
}

static double read_rate(struct pool *p, peak_reader *read, double seconds)
{
    size_t threads = (size_t)pool_threads(p), share = least_bytes / threads / piece_bytes * piece_bytes;
    struct read_job j = {.read = read};
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

void bench_roof_measure(struct pool *p, struct bench_roof *r, double seconds)
{
    struct peak peak;
    double dot;

    peak_best(&peak);
    *r = (struct bench_roof){.fp32_flops = loop_rate(p, peak.fma, seconds * 0.2)};
    dot = loop_rate(p, peak.dot, seconds * 0.2);
    r->bf16_native = dot > r->fp32_flops;
    r->bf16_flops = r->bf16_native ? dot : r->fp32_flops;
    r->int8_ops = loop_rate(p, peak.dot8, seconds * 0.2);
    r->dram_bytes = read_rate(p, peak.read, seconds * 0.4);
}

/* ---- rounds ---- */

struct work_job {
    const struct bench_round *b;
    size_t n; /* calls */
    volatile uint64_t sink;
};

static void run_piece(void *ctx, int thread, int n_threads)
{
    struct work_job *j = ctx;
    uint64_t sum = j->b->read(j->b->piece(j->b->work[thread], ROUND_BYTES), ROUND_BYTES);

    (void)n_threads;
    if (thread == 0)
        j->sink = sum;
}

static void run_calls(void *ctx, int thread, int n_threads)
{
    struct work_job *j = ctx;

    (void)n_threads;
    for (size_t i = 0; i < j->n; i++)
        j->b->call(j->b->work[thread]);
}

/* Sets *N, the turns of JOB, to as many as take a phase. The best of some tries counts: one that another
 * program interrupts takes long with any number of turns. */
static void fit(struct pool *p, pool_fn *fn, void *job, size_t *n)
{
    double best = 0;

    for (*n = 1; best < phase_seconds; *n *= best < phase_seconds ? 2 : 1) {
        best = timed(p, fn, job);
        for (int i = 1; i < FIT_TRIES && best >= phase_seconds; i++) {
            double t = timed(p, fn, job);

            best = t < best ? t : best;
        }
    }
}

struct bench_round_result bench_roof_rounds(const struct bench_round *b, double seconds)
{
    double time[MAX_ROUNDS], share[MAX_ROUNDS], end = clock_seconds() + seconds, by_bytes = 0, by_flops = 0;
    struct loop_job loop = {.loop = b->loop};
    struct work_job work = {.b = b};
    struct bench_round_result r;
    size_t n = 0;

    fit(b->pool, run_calls, &work, &work.n);
    if (b->flops > 0)
        fit(b->pool, run_loop, &loop, &loop.n);
    while (n < LEAST_ROUNDS || (n < MAX_ROUNDS && clock_seconds() < end)) {
        double bytes = 0, flops = 0;

        if (b->flops > 0) {
            bytes = b->bytes * timed(b->pool, run_piece, &work) / ROUND_BYTES;
            flops = timed(b->pool, run_loop, &loop);
            flops = b->flops * flops / (loop.done * b->loop_worth);
        }
        time[n] = timed(b->pool, run_calls, &work) / (double)work.n;
        share[n] = (bytes > flops ? bytes : flops) / time[n];
        by_bytes += bytes;
        by_flops += flops;
        n++;
    }
    r = (struct bench_round_result){.seconds = stat_median(time, n), .memory = by_bytes > by_flops};
    r.share = stat_median(share, n);
    return r;
}
