/* rows.h - all kernels that this machine can run, in a list for the tests.
 *
 * ref is always the first entry. If the AVX-512 kernels are also built for AVX2 by emulation
 * (KERN_HAVE_EMULATED_AVX512), they are four more entries, whether the machine has AVX-512 or not.
 */
#ifndef GALLOP_TEST_KERN_ROWS_H
#define GALLOP_TEST_KERN_ROWS_H

#include "kern/kern.h"

enum { ROWS_MAX = CPU_N_ISAS + 4 };

struct rows {
    const char *name;
    bool emulated;
    struct kern k;                       /* NULL: there is no such kernel */
    const char *class[KERN_N_FUNCTIONS]; /* arithmetic class of each kernel, or NULL */
};

/* Fills LIST, and returns the number of entries. */
size_t rows_list(struct rows list[ROWS_MAX]);

/* Returns memory for kern_gemm.sums of any kernel, aligned to 64 bytes and filled with NaN. All calls return
 * the same memory, so only one thread may use it. */
float *lent_sums(void);

/* Returns true if the kernel of F gives the bits of the ref kernel. */
bool rows_equal_ref(const struct rows *r, enum kern_fn f);

#endif
