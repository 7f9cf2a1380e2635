/* public_sampling.h - converts struct gallop_sampling of the public header to struct sampling.
 *
 * Members of the public struct have the names of sampling.def. A member that is not given is -1 or NaN.
 */
#ifndef GALLOP_ENGINE_PUBLIC_SAMPLING_H
#define GALLOP_ENGINE_PUBLIC_SAMPLING_H

#include "base/arena.h"
#include "base/err.h"

struct gallop_sampling;
struct sampling;

/* Marks every member of P as not given. */
void public_sampling_init(struct gallop_sampling *p);

/* Converts the members of P that are given to *S. Arrays are allocated in A (NULL if P has no lists); strings
 * are borrowed from P. ERR_INPUT names the member. sampling_validate() checks ranges of doubles and ids. */
int public_sampling_read(const struct gallop_sampling *p, struct sampling *s, struct arena *a, struct err *e);

#endif
