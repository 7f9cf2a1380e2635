/* gptq.h - GPTQ: the rounding error of a weight is carried to the weights of its row that are rounded later.
 *
 * With H the sum of x x^T over inputs x, rounding a row w to q costs (w - q) H (w - q)^T. Let H be
 * (I + A) D (I + A)^T, with A strictly upper triangular and D diagonal. Then the cost is the sum over k of
 *   D_k (w_k + (sum over i < k of (w_i - q_i) A_ik) - q_k)^2:
 * each weight takes the errors of those before it and is rounded to the nearest value. This equals GPTQ
 * (Frantar et al. 2023) without its inverses; no other linear feedback costs less on average (Chee et al.
 * 2023, QuIP).
 *
 * K is cut into segments of GPTQ_COLUMNS, and only inputs of the same segment are related. A segment of n is
 * n (n + 1) / 2 numbers: row i is D_i, A_i,i+1, ... A_i,n-1, and rows follow each other. Before gptq_make(),
 * the numbers are those of H.
 */
#ifndef GALLOP_OPS_GPTQ_H
#define GALLOP_OPS_GPTQ_H

#include <stddef.h>

#include "base/threads/pool.h"

enum { GPTQ_COLUMNS = 1024 };

/* Returns the number of floats for rows of K. */
size_t gptq_numbers(size_t k);

/* Returns row I, and in *N its length: it extends to the end of I's segment. */
const float *gptq_row(const float *f, size_t k, size_t i, size_t *n);

/* X [k] is a row that is being rounded. Columns [at, at + n), which lie in one segment, were rounded with the
 * errors ERROR [n]; adds these to the columns after them in the segment. */
void gptq_carry(const float *f, size_t k, size_t at, size_t n, const float *error, float *x);

/* Adds x x^T of the rows X [m, k] to F, on all threads. */
void gptq_add(struct pool *pool, float *f, const float *x, size_t m, size_t k);

/* Factorizes H into A and D, in place. A hundredth of the mean of H's diagonal is added to the diagonal
 * first, because a direction with few inputs cannot be trusted to cost nothing. */
void gptq_make(struct pool *pool, float *f, size_t k);

#endif
