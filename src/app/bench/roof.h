/* roof.h - what this machine can do for long, measured just now.
 *
 * The denominators of every share that a benchmark prints. A roof is measured beside the work, in the same
 * minute and on the same threads, because neighbours, clocks and power limits move it. */
#ifndef GALLOP_APP_BENCH_ROOF_H
#define GALLOP_APP_BENCH_ROOF_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/threads/pool.h"
#include "kern/peak.h"
#include "tensor/dtype.h"

/* Medians of rounds: what is sustained, not what the best moment had. Work that takes less than its roof
 * says was done in better moments than those of the rounds. */
struct bench_roof {
    double fp32_flops; /* a second, fused multiply-adds counted as two, on all threads of the pool */
    double bf16_flops; /* of the bf16 dot, where linears take it; else fp32_flops, bf16 being widened */
    double int8_ops;   /* with VNNI; 0 where the processor lacks it */
    double dram_bytes; /* read a second, by all threads at once */
    bool bf16_native;  /* bf16_flops is the dot's: known from the processor, not from the clock */
};

/* The buffer that is read, 256 MB or more: each thread has a range of its own, which it has filled itself, so
 * that the pages lie in its node's memory, and reads from end to end, as a step reads weights. */
struct bench_roofs {
    struct pool *pool; /* borrowed */
    struct peak peak;
    bool dot; /* linears take the bf16 dot */
    char *p;
    size_t bytes;
};

int bench_roofs_open(struct bench_roofs *r, struct pool *p, struct err *e);
void bench_roofs_close(struct bench_roofs *r); /* a zeroed one is fine */

/* Rounds for about SECONDS, three at least: each reads all of the buffer once and computes a few milliseconds
 * with each loop. The pool must be idle. */
void bench_roofs_measure(struct bench_roofs *r, double seconds, struct bench_roof *out);

/* Operations a second with numbers of type T; without int8 dots int8 is widened. */
double bench_roof_flops(const struct bench_roof *r, enum dtype t);

/* What lies between A and B. */
struct bench_roof bench_roof_between(const struct bench_roof *a, const struct bench_roof *b);

/* One line about the machine and R, or the JSON line "roof". */
void bench_roof_print(const struct bench_roof *r, int threads, const char *isa, bool json);

/* Work that is timed in turns with the roofs above it. On a machine that others share, memory and clocks
 * change by twice within minutes, and a share of a roof that was measured a minute ago says little. So every
 * round reads memory, computes on registers and then works, a few milliseconds each and on all threads at
 * once, and the share is formed within the round; medians over the rounds count. */
struct bench_round {
    struct pool *pool;
    void *const *work;                              /* [threads] of each thread's own */
    void (*call)(void *work);                       /* once */
    const char *(*piece)(void *work, size_t bytes); /* memory to read that is in no cache; 64-byte aligned */
    double bytes, flops; /* of one call on one thread; flops 0: no roof is measured */
    peak_loop *loop;     /* its arithmetic at its best */
    peak_reader *read;
};

struct bench_round_result {
    double seconds; /* of one call */
    double share; /* the time that its bytes or its operations take at least, over SECONDS; 0 without flops */
    bool memory;  /* it is the bytes that take longer */
};

/* About SECONDS of rounds, three at least. */
struct bench_round_result bench_roof_rounds(const struct bench_round *b, double seconds);

#endif
