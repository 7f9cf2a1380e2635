/* rows.h - all rows of kernels that this machine can run, as one list for the tests to walk.
 *
 * ref is always the first. Where the AVX-512 rows are built a second time for AVX2
 * (KERN_HAVE_EMULATED_AVX512), they come as four more entries, whether or not the machine has the real
 * thing.
 */
#ifndef GALLOP_TEST_KERN_ROWS_H
#define GALLOP_TEST_KERN_ROWS_H

#include "kern/kern.h"

enum { ROWS_MAX = CPU_N_ISAS + 4 };

struct rows {
    const char *name;
    bool emulated;
    struct kern k;                       /* NULL: no such row */
    const char *class[KERN_N_FUNCTIONS]; /* arithmetic class of the rows there are */
};

/* Fills LIST; returns how many entries there are. */
size_t rows_list(struct rows list[ROWS_MAX]);

/* Room for kern_gemm.sums of any row, 64-byte aligned, filled with NaN; one for all: of one thread. */
float *lent_sums(void);

/* The row of F gives the bits of the ref row. */
bool rows_equal_ref(const struct rows *r, enum kern_fn f);

#endif
