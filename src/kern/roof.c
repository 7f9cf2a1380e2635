/* roof.c - runs the loops of peak.h on all threads of a pool: alone, in rounds whose median is the sustained
 * rate, or alternating with other work.
 *
 * Every round runs every loop, so that a disturbance of the machine affects all of them alike and their
 * ratios hold. A round reads a buffer that is far larger than the caches, because memory is faster in short
 * bursts than over a whole step. A round computes for about a millisecond, so that the clock frequency
 * settles.
 */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/files/map.h"
#include "base/stat.h"
#include "base/threads/pool.h"
#include "kern/kern.h"
#include "kern/roof.h"

enum { MAX_ROUNDS = 256, LEAST_ROUNDS = 3, FIT_TRIES = 4, ROUND_BYTES = 8 << 20 };

/* The work of a thread in one round takes about a millisecond: loop_operations operations, but at least
 * loop_iterations iterations. The minimum matters for the AMX loop, whose iterations have fifty times as many
 * operations as the others and whose first 5 us are slow. */
static const double phase_seconds = 1e-3, loop_operations = 2e8, loop_iterations = 40000;
static const size_t least_bytes = (size_t)256 << 20, thread_bytes = (size_t)32 << 20,
                    piece_bytes = (size_t)4 << 20;

static double timed(struct pool *p, pool_fn *fn, void *job)
{
    uint64_t t = clock_ns();

    pool_run(p, fn, job);
    t = clock_ns() - t;
    return t > 0 ? (double)t * 1e-9 : 1e-9;
}

/* Sets *N, the number of calls that JOB makes, so that they take at least phase_seconds. A number of calls is
 * judged by the shortest of several tries, because other programs may interrupt and so lengthen a try. */
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

/* ---- roofs ---- */

/* The job of running an arithmetic loop. */
struct loop_job {
    peak_loop *loop;
    size_t n;    /* iterations; computed from loop_operations, not timed, because timing may be disturbed */
    double done; /* operations of thread 0; every other thread does the same number */
};

static struct loop_job loop_job_of(peak_loop *loop)
{
    return (struct loop_job){.loop = loop,
                             .n = loop ? (size_t)fmax(loop_operations / loop(1), loop_iterations) : 0};
}

static void run_loop(void *ctx, int thread, int n_threads)
{
    struct loop_job *j = ctx;
    double done = j->loop(j->n);

    (void)n_threads;
    if (thread == 0)
        j->done = done;
}

/* The job of reading or filling BYTES at P; each thread has a range of its own. */
struct read_job {
    peak_reader *read;
    char *p;
    size_t bytes;
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
    sum = j->read(j->p + begin, end - begin);
    if (thread == 0)
        j->sink = sum;
}

int roof_meter_open(struct roof_meter *r, struct pool *p, struct err *e)
{
    size_t threads = (size_t)pool_threads(p), share = least_bytes / threads / piece_bytes * piece_bytes;
    const struct kern *kern = kern_table(cpu_best());
    struct read_job j = {0};

    *r = (struct roof_meter){.pool = p};
    peak_best(&r->peak);
    r->dot = r->peak.dot && strcmp(kern_class(kern, KERN_FN_gemm_bf16), "bf16") != 0;
    r->bytes = (share < thread_bytes ? thread_bytes : share) * threads;
    r->p = map_region_new(r->bytes);
    if (!r->p)
        return err_nomem(e, "the buffer that measures memory");
    j.p = r->p;
    j.bytes = r->bytes;
    pool_run(p, run_fill, &j);
    return 0;
}

void roof_meter_close(struct roof_meter *r)
{
    map_region_free(r->p, r->bytes);
    *r = (struct roof_meter){0};
}

void roof_meter_measure(struct roof_meter *r, double seconds, struct roof *out)
{
    enum { FMA, DOT, DOT8, READ, N };
    peak_loop *const loop[READ] = {r->peak.fma, r->dot ? r->peak.dot : NULL, r->peak.dot8};
    struct read_job read = {.read = r->peak.read, .p = r->p, .bytes = r->bytes};
    struct loop_job job[READ];
    double rate[N][MAX_ROUNDS] = {{0}}, end = clock_seconds() + seconds;
    size_t n = 0;

    for (int i = 0; i < READ; i++)
        job[i] = loop_job_of(loop[i]);
    for (; n < LEAST_ROUNDS || (n < MAX_ROUNDS && clock_seconds() < end); n++) {
        rate[READ][n] = (double)r->bytes / timed(r->pool, run_read, &read);
        for (int i = 0; i < READ; i++) {
            double t = loop[i] ? timed(r->pool, run_loop, &job[i]) : 0;

            rate[i][n] = loop[i] ? job[i].done * pool_threads(r->pool) / t : 0;
        }
    }
    *out = (struct roof){.fp32_flops = stat_median(rate[FMA], n),
                         .int8_ops = stat_median(rate[DOT8], n),
                         .dram_bytes = stat_median(rate[READ], n),
                         .bf16_native = r->dot};
    out->bf16_flops = r->dot ? stat_median(rate[DOT], n) : out->fp32_flops;
}

double roof_flops(const struct roof *r, enum dtype t)
{
    if (t == DT_I8 || t == DT_I4)
        return r->int8_ops > 0 ? r->int8_ops : r->fp32_flops;
    return t == DT_F32 ? r->fp32_flops : r->bf16_flops;
}

struct roof roof_between(const struct roof *a, const struct roof *b)
{
    return (struct roof){.fp32_flops = (a->fp32_flops + b->fp32_flops) / 2,
                         .bf16_flops = (a->bf16_flops + b->bf16_flops) / 2,
                         .int8_ops = (a->int8_ops + b->int8_ops) / 2,
                         .dram_bytes = (a->dram_bytes + b->dram_bytes) / 2,
                         .bf16_native = a->bf16_native};
}

/* ---- rounds ---- */

struct work_job {
    const struct roof_round *b;
    size_t n; /* calls of the work on each thread */
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

struct roof_round_result roof_rounds(const struct roof_round *b, double seconds)
{
    double time[MAX_ROUNDS], share[MAX_ROUNDS], end = clock_seconds() + seconds, by_bytes = 0, by_flops = 0;
    struct loop_job loop = loop_job_of(b->flops > 0 ? b->loop : NULL);
    struct work_job work = {.b = b};
    struct roof_round_result r;
    size_t n = 0;

    fit(b->pool, run_calls, &work, &work.n);
    while (n < LEAST_ROUNDS || (n < MAX_ROUNDS && clock_seconds() < end)) {
        double bytes = 0, flops = 0;

        if (b->flops > 0) {
            bytes = b->bytes * timed(b->pool, run_piece, &work) / ROUND_BYTES;
            flops = timed(b->pool, run_loop, &loop);
            flops = b->flops * flops / loop.done;
        }
        time[n] = timed(b->pool, run_calls, &work) / (double)work.n;
        share[n] = (bytes > flops ? bytes : flops) / time[n];
        by_bytes += bytes;
        by_flops += flops;
        n++;
    }
    r = (struct roof_round_result){.seconds = stat_median(time, n), .memory = by_bytes > by_flops};
    r.share = stat_median(share, n);
    return r;
}
