/* pairs.h - a few of many combinations: dimensions have some values each, every pair of values of two
 * dimensions is in at least one row, and so is every combination of chosen dimensions. The same call gives
 * the same rows. */
#ifndef GALLOP_TEST_PAIRS_H
#define GALLOP_TEST_PAIRS_H

enum { PAIRS_DIMENSIONS = 10 };

struct pairs_row {
    size_t at[PAIRS_DIMENSIONS]; /* the value of each dimension */
};

/* Returns rows of N dimensions with SIZE [n] values each, in ascending order, *n_rows of them. Bits of WHOLE
 * name the dimensions whose combinations must all be included. free(). */
struct pairs_row *pairs_cover(const size_t *size, size_t n, unsigned whole, size_t *n_rows);

#endif
