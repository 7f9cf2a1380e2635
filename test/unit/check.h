/* check.h - the comparisons of the kernel tests: equal bits, and nearness to a double-precision oracle.
 *
 * A comparison returns its finding, so that its own tests (test_check.c) can see it fail; check_same() and
 * check_near() turn a finding into a failed test with the case, the position and both values.
 */
#ifndef GALLOP_TEST_KERN_CHECK_H
#define GALLOP_TEST_KERN_CHECK_H

#define CHECK_U 0x1p-24 /* half a unit in the last place of 1.0f */

/* Deterministic numbers. */
struct check_rng {
    uint64_t state;
};

uint32_t check_u32(struct check_rng *g);
size_t check_below(struct check_rng *g, size_t n);
/* Uniform in [-1, 1) times a power of two between 2^-6 and 1; now and then +0 or -0. */
float check_float(struct check_rng *g);
void check_fill(struct check_rng *g, float *x, size_t n);
void check_fill_bf16(struct check_rng *g, uint16_t *x, size_t n);

/* The first position where the bits differ, N if none does. Two NaN are equal whatever their bits. */
size_t check_differs(const float *got, const float *want, size_t n);
size_t check_differs_bf16(const uint16_t *got, const uint16_t *want, size_t n);

struct check_error {
    double max_abs, relative_l2; /* over all elements */
    size_t worst;                /* the element furthest beyond its tolerance */
    bool within;                 /* all elements are */
};

/* GOT against WANT, each element with its own tolerance. NaN where none is wanted is beyond any. */
struct check_error check_error(const float *got, const double *want, const double *tolerance, size_t n);

/* Fail the running test unless the comparison finds nothing. FMT names the case. */
void check_same(const float *got, const float *want, size_t n, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void check_same_bf16(const uint16_t *got, const uint16_t *want, size_t n, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void check_near(const float *got, const double *want, const double *tolerance, size_t n, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

#endif
