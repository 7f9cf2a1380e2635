/* kernels.h - measures the speed of every row of kern.def on this machine.
 *
 * Times every row of kern.def that this machine can run on THREADS threads at once, each with work of its
 * own, about SECONDS_PER_ROW for each shape, and prints a table, or JSON lines
 * {"kernel","isa","class","shape","us","gb_s","gflop_s","roof","roof_share"}, to stdout. The roofs of all threads come
 * first ("kernel":"roof"). Only kernels whose names begin with ONLY are measured. */
#ifndef GALLOP_LAB_BENCH_KERNELS_H
#define GALLOP_LAB_BENCH_KERNELS_H

#include <stdbool.h>

#include "base/err.h"

int bench_kernels(int threads, const char *only, bool json, double seconds_per_row, struct err *e);

#endif
