/* pairs.h - a few combinations of many: of dimensions with some values each, rows in which every pair of
 * values of two dimensions stands at least once, and every combination of chosen dimensions. The same call
 * gives the same rows.
 */
#ifndef GALLOP_TEST_PAIRS_H
#define GALLOP_TEST_PAIRS_H

enum { PAIRS_DIMENSIONS = 10 };

struct pairs_row {
    size_t at[PAIRS_DIMENSIONS]; /* the value of each dimension */
};

/* Rows of N dimensions with SIZE [n] values each, in ascending order; *n_rows of them. WHOLE: bits of
 * dimensions whose combinations are all there. free(). */
struct pairs_row *pairs_cover(const size_t *size, size_t n, unsigned whole, size_t *n_rows);

#endif
