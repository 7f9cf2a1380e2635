/* roof.h - the rates that this machine sustains, measured with the loops of peak.h.
 *
 * They are the denominators of every share of a roof that a benchmark or the server reports. A roof is measured
 * in the same minute and on the same threads as the work, because other programs, clock frequencies and power
 * limits change it. */
#ifndef GALLOP_KERN_ROOF_H
#define GALLOP_KERN_ROOF_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/threads/pool.h"
#include "kern/peak.h"
#include "tensor/dtype.h"

/* Medians of rounds: the sustained rates, not the best ones. Work that is faster than its roof ran while the
 * machine was less disturbed than in the rounds. */
struct roof {
    /* Per second, on all threads of the pool together; a fused multiply-add counts as two operations. */
    double fp32_flops;
    double
        bf16_flops;  /* of the bf16 dot product, where linears use it; else fp32_flops, as bf16 is widened */
    double int8_ops; /* with VNNI; 0 where the processor lacks it */
    double dram_bytes; /* read per second, by all threads at once */
    bool
        bf16_native; /* bf16_flops is that of the bf16 dot; this follows from the processor, not from timing */
};

/* The buffer that is read, at least 256 MB. Each thread has a range of its own. It has filled the range itself,
 * so that the pages lie in the memory of its NUMA node, and reads it from end to end, as a step reads weights. */
struct roof_meter {
    struct pool *pool; /* borrowed */
    struct peak peak;
    bool dot; /* linears use the bf16 dot product */
    char *p;
    size_t bytes;
};

int roof_meter_open(struct roof_meter *r, struct pool *p, struct err *e);
void roof_meter_close(struct roof_meter *r);

/* Measures in rounds for about SECONDS, at least three: each round reads the whole buffer once and runs each loop
 * for about a millisecond. The pool must be idle. */
void roof_meter_measure(struct roof_meter *r, double seconds, struct roof *out);

/* Operations per second with numbers of type T; without int8 dot products, int8 is widened. */
double roof_flops(const struct roof *r, enum dtype t);

/* The means of A and B. */
struct roof roof_between(const struct roof *a, const struct roof *b);

/* Work that is timed alternating with its roofs. On a shared machine the rates of memory and clock change by a
 * factor of two within minutes, so a roof that was measured a minute ago says little. Every round therefore reads
 * memory, computes on registers and then works, a few milliseconds each and on all threads at once. The share is
 * computed within the round; the result is the median over the rounds. */
struct roof_round {
    struct pool *pool;
    void *const *work; /* [threads] the argument of each thread's calls */
    void (*call)(void *work);
    const char *(*piece)(void *work, size_t bytes); /* memory to read that is in no cache; 64-byte aligned */
    double bytes, flops; /* of one call on one thread; flops 0: no roof is measured */
    peak_loop *loop;     /* the loop with the arithmetic of the work */
    peak_reader *read;
};

struct roof_round_result {
    double seconds; /* of one call */
    double share;   /* the ideal time of its bytes and operations, divided by SECONDS; 0 without flops */
    bool memory;    /* the bytes bound the ideal time, not the operations */
};

/* Runs rounds for about SECONDS, at least three. */
struct roof_round_result roof_rounds(const struct roof_round *b, double seconds);

#endif
