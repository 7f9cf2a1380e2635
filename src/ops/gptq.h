/* gptq.h - what the rounding of a weight asks of the weights of its row that are rounded after it.
 *
 * With H the sum of x x^T over inputs x, rounding a row w to q costs (w - q) H (w - q)^T. Let H be
 * (I + A) D (I + A)^T, A strictly upper triangular and D diagonal. Then the cost is the sum over k of
 *   D_k (w_k + (sum over i < k of (w_i - q_i) A_ik) - q_k)^2:
 * each weight takes up what those before it left, and is rounded to the nearest. That is what GPTQ decides
 * (Frantar et al. 2023) without its inverses; no other linear feedback costs less on average (Chee et al.
 * 2023, QuIP).
 *
 * K is cut in segments of GPTQ_COLUMNS, and only inputs of the same segment are looked at together. A segment of
 * n is n (n + 1) / 2 numbers, row i behind row i - 1: D_i, A_i,i+1, ... A_i,n-1; or, before gptq_make(),
 * those of H.
 */
#ifndef GALLOP_OPS_GPTQ_H
#define GALLOP_OPS_GPTQ_H

#include <stddef.h>

#include "base/threads/pool.h"

enum { GPTQ_COLUMNS = 1024 };

/* Of rows of K. */
size_t gptq_numbers(size_t k);

/* Row I, and in *N its length: it goes to the end of I's segment. */
const float *gptq_row(const float *f, size_t k, size_t i, size_t *n);

/* X [k] is a row that is being rounded. Behind [at, at + n), which lie in one segment and were off by ERROR
 * [n], its segment takes up what they left. */
void gptq_carry(const float *f, size_t k, size_t at, size_t n, const float *error, float *x);

/* Adds x x^T of the rows X [m, k] to F, on all threads. */
void gptq_add(struct pool *pool, float *f, const float *x, size_t m, size_t k);

/* Makes A and D of H, to whose diagonal a hundredth of its mean is added: a direction that few inputs had
 * may not be trusted to cost nothing. */
void gptq_make(struct pool *pool, float *f, size_t k);

#endif
