/* roof.h - the roofs: the rates of arithmetic and of reading memory that this machine sustains, measured with
 * the loops of peak.h.
 *
 * Benchmarks and the server report work as a share of a roof. A roof is measured in the same minute and on
 * the same threads as the work, because other programs, clock frequencies and power limits change it. */
#ifndef GALLOP_KERN_ROOF_H
#define GALLOP_KERN_ROOF_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "kern/peak.h"
#include "tensor/dtype.h"

/* The sustained rates: medians over the rounds of a measurement, on all threads of the pool together. Work
 * can be faster than its roof if other programs disturbed the rounds more than the work. */
struct roof {
    /* fp32 operations per second. Here and below, a fused multiply-add counts as two operations. */
    double fp32_flops;
    /* bf16 operations per second, with the bf16 dot product if linears use it; otherwise fp32_flops. */
    double bf16_flops;
    /* int8 operations per second with VNNI or AMX; 0 if the processor has neither. */
    double int8_ops;
    /* Bytes read from memory per second by all threads at once. */
    double dram_bytes;
    /* True if bf16_flops is the rate of the bf16 dot product, which depends on the processor only. */
    bool bf16_native;
};

/* The measuring loops and the buffer that they read, at least 256 MB. Each thread reads a range of its own
 * from end to end, as a step reads weights. The thread also filled the range, so the pages are on its NUMA
 * node. */
struct roof_meter {
    struct pool *pool; /* borrowed */
    struct peak peak;
    bool dot; /* linears use the bf16 dot product */
    char *p;
    size_t bytes;
};

int roof_meter_open(struct roof_meter *r, struct pool *p, struct err *e);
void roof_meter_close(struct roof_meter *r);

/* Measures the roofs in rounds for about SECONDS, at least three rounds: each reads the whole buffer once and
 * runs each loop for about a millisecond. The pool must be idle. */
void roof_meter_measure(struct roof_meter *r, double seconds, struct roof *out);

/* Returns the operations per second with type T; int8 without dot products is widened to fp32. */
double roof_flops(const struct roof *r, enum dtype t);

/* Returns the mean of each rate of A and B. */
struct roof roof_between(const struct roof *a, const struct roof *b);

/* Work that is timed in alternation with its roofs. On a shared machine the rates of memory and clock change
 * by a factor of two within minutes, so a roof that is a minute old is of little use. Each round therefore
 * reads memory, runs the arithmetic loop and runs the work, a few milliseconds each and on all threads at
 * once. The share is computed within a round; the result is the median over the rounds. */
struct roof_round {
    struct pool *pool;
    /* The argument of each thread's calls, [threads]. */
    void *const *work;
    void (*call)(void *work); /* runs the work once */
    /* Returns BYTES of memory to read that are in no cache, 64-byte aligned. */
    const char *(*piece)(void *work, size_t bytes);
    /* The bytes and operations of one call on one thread. If flops is 0, no roof is measured. */
    double bytes, flops;
    peak_loop *loop; /* the loop with the same kind of arithmetic as the work */
    peak_reader *read;
};

/* The medians over the rounds. */
struct roof_round_result {
    double seconds; /* the time of one call */
    double share;   /* the ideal time of the bytes and operations divided by SECONDS; 0 if flops is 0 */
    bool memory;    /* true if reading takes longer than computing, at the roofs */
};

/* Runs rounds of B for about SECONDS, at least three. */
struct roof_round_result roof_rounds(const struct roof_round *b, double seconds);

#endif
