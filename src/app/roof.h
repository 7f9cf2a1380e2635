/* roof.h - what this machine can do at most, measured just now: the denominators of every share that a
 * benchmark prints.
 *
 * A roof is measured beside the work, in the same minute and on the same threads, because neighbours, clocks
 * and power limits move it. It is the best of several tries; a figure above it means that the roof was
 * disturbed.
 */
#ifndef GALLOP_APP_ROOF_H
#define GALLOP_APP_ROOF_H

#include <stdbool.h>

#include "base/pool.h"

struct roof {
    double fp32_flops; /* a second, fused multiply-adds counted as two, on all threads of the pool */
    double bf16_flops; /* the larger of fp32_flops, bf16 being widened, and of what the bf16 dot does */
    double int8_ops;   /* with VNNI; 0 where the processor lacks it */
    double dram_bytes; /* read a second, by all threads at once; 0 if there was no memory for it */
    bool bf16_native;  /* bf16_flops is the dot's: there is one, and it is faster than FMA */
};

/* Takes about SECONDS, and the time to fill a buffer of 256 MB or more. The pool must be idle. */
void roof_measure(struct pool *p, struct roof *r, double seconds);

#endif
