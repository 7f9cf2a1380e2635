/* check.h - the comparisons of the kernel tests: equal bits, and distance from an oracle in double precision.
 *
 * A comparison returns its result, so that its own tests (test_check.c) can see it fail. check_same() and
 * check_near() turn a difference into a failed test with the case, the position and both values.
 */
#ifndef GALLOP_TEST_KERN_CHECK_H
#define GALLOP_TEST_KERN_CHECK_H

#define CHECK_U 0x1p-24 /* half a unit in the last place of 1.0f */

/* A generator of deterministic numbers. */
struct check_rng {
    uint64_t state;
};

uint32_t check_u32(struct check_rng *g);
size_t check_below(struct check_rng *g, size_t n);
/* Returns a number that is uniform in [-1, 1) times a power of two between 2^-6 and 1, and sometimes +0 or
 * -0. */
float check_float(struct check_rng *g);
void check_fill(struct check_rng *g, float *x, size_t n);
void check_fill_bf16(struct check_rng *g, uint16_t *x, size_t n);

/* Returns the first position where the bits differ, or N. Two NaN are equal whatever their bits. */
size_t check_differs(const float *got, const float *want, size_t n);
size_t check_differs_bf16(const uint16_t *got, const uint16_t *want, size_t n);

struct check_error {
    double max_abs, relative_l2; /* over all elements */
    size_t worst;                /* the element that exceeds its tolerance most */
    bool within;                 /* all elements are within their tolerance */
};

/* Compares GOT with WANT, each element with its own tolerance. An unexpected NaN exceeds any tolerance. */
struct check_error check_error(const float *got, const double *want, const double *tolerance, size_t n);

/* These fail the running test if there is a difference. FMT names the case. */
void check_same(const float *got, const float *want, size_t n, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void check_same_bf16(const uint16_t *got, const uint16_t *want, size_t n, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void check_near(const float *got, const double *want, const double *tolerance, size_t n, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

#endif
