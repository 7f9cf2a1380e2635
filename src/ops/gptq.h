/* gptq.h - GPTQ: the rounding error of a weight is carried to the weights of its row that are rounded later.
 *
 * With H the sum of x x^T over inputs x, rounding a row w to q costs (w - q) H (w - q)^T. Let H be (I + A) D
 * (I + A)^T, with A strictly upper triangular and D diagonal. Then the cost is the sum over k of
 *   D_k (w_k + (sum over i < k of (w_i - q_i) A_ik) - q_k)^2:
 * the errors of the earlier weights, times A, are added to each weight, which is then rounded to the nearest
 * value. The method equals GPTQ (Frantar et al. 2023) without its inverses; no other linear feedback costs
 * less on average (Chee et al. 2023, QuIP).
 *
 * K is cut into segments of GPTQ_COLUMNS, and errors stay within a segment. A segment of n columns is n (n +
 * 1) / 2 numbers, row after row; row i is D_i, A_i,i+1, ... A_i,n-1. Before gptq_make() they are those of H.
 */
#ifndef GALLOP_OPS_GPTQ_H
#define GALLOP_OPS_GPTQ_H

#include <stddef.h>

struct pool;

enum { GPTQ_COLUMNS = 1024 }; /* columns of a segment */

/* Returns the number of floats in all segments for rows of K elements. */
size_t gptq_numbers(size_t k);

/* Returns row I of F, the numbers from the diagonal to the end of its segment. Sets *N to their count. */
const float *gptq_row(const float *f, size_t k, size_t i, size_t *n);

/* Carries errors within X [k], a row of weights that is being rounded: adds ERROR [n], the errors of the
 * columns [at, at + n), which are in one segment, times A to the later columns of that segment. */
void gptq_carry(const float *f, size_t k, size_t at, size_t n, const float *error, float *x);

/* Adds x x^T of the rows X [m, k] to the sums F, on all threads of POOL. */
void gptq_add(struct pool *pool, float *f, const float *x, size_t m, size_t k);

/* Factorizes H in F into A and D, in place. Before that, it adds a hundredth of the mean of H's diagonal to
 * the diagonal, because errors in directions with few sampled inputs would otherwise cost nothing. */
void gptq_make(struct pool *pool, float *f, size_t k);

#endif
