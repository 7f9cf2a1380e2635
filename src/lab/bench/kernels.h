/* kernels.h - measures the speed of the kernels of kern.def on this machine. */
#ifndef GALLOP_LAB_BENCH_KERNELS_H
#define GALLOP_LAB_BENCH_KERNELS_H

#include <stdbool.h>

#include "base/err.h"

/* Measures every row of kern.def that this machine can run and whose name begins with ONLY. THREADS threads
 * run the kernel at the same time, each on its own data, for about SECONDS_PER_ROW on each shape. Prints the
 * roofs of all threads and then the results to stdout, as a table or as JSON lines
 * {"kernel","isa","class","shape","us","gb_s","gflop_s","roof","roof_share"}. */
int bench_kernels(int threads, const char *only, bool json, double seconds_per_row, struct err *e);

#endif
