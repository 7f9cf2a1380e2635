/* public_sampling.h - struct gallop_sampling as a sampling record.
 *
 * Members of the public struct have the names of sampling.def; one that is not given is -1 or NaN.
 */
#ifndef GALLOP_ENGINE_PUBLIC_SAMPLING_H
#define GALLOP_ENGINE_PUBLIC_SAMPLING_H

#include "base/arena.h"
#include "base/err.h"
#include "engine/sampling/sampling.h"
#include "gallop.h"

/* Nothing is given. */
void public_sampling_init(struct gallop_sampling *p);

/* The members of P that are given, as a sampling record S. Its arrays lie in A, and its strings are those of P. A
 * NULL: P has no lists. ERR_INPUT names the member. sampling_validate() has the rest. */
int public_sampling_read(const struct gallop_sampling *p, struct sampling *s, struct arena *a, struct err *e);

#endif
